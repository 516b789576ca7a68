"""Pinned downloads, from a real server on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gatekit.errors import ConfigError, InfraError
from gatekit.records.spec import SplitFile, Task
from gatekit.task.dataset import load
from gatekit.task.download import download
from gatekit.task.download_url import shown_url
from gatekit.task.rows import MAX_FILE_BYTES

ROWS = "".join(json.dumps({"question": f"{k}?", "answer": f"#### {k}"}) + "\n" for k in range(3)).encode()
SHA256 = hashlib.sha256(ROWS).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves the rows, faults and redirects by path."""

    def do_GET(self) -> None:
        path = self.path.split("?", 1)[0]
        if path.startswith("/to/"):
            target = {"file": "file:///etc/passwd", "far": "http://example.invalid/x", "ok": "/test.jsonl"}
            self.send_response(302)
            self.send_header("Location", target.get(path[4:], "/to/loop"))
            self.end_headers()
        elif path == "/503":
            self.send_error(503, "\x1b[31mred")
        elif path == "/short":
            self.answer(ROWS[:-10], len(ROWS))
        elif path == "/huge":
            self.answer(b"x" * (MAX_FILE_BYTES + 1))
        elif path == "/slow":
            self.trickle()
        elif path == "/other":
            self.answer(ROWS[:-1])
        else:
            self.answer(ROWS)

    def answer(self, body: bytes, length: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def trickle(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(100):
                self.wfile.write(b"x")
                time.sleep(0.05)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def pin(url: str) -> SplitFile:
    return SplitFile(sha256=SHA256, rows=3, url=url)


@pytest.mark.parametrize("path", ["/test.jsonl", "/to/ok"])
def test_a_download_fills_the_cache_once(base: str, tmp_path: Path, path: str) -> None:
    """The file lands under its sha256, alone, and the second run needs no server."""
    task = Task(name="t", dataset="gsm8k", files={"test": pin(base + path)})
    first = load(task, cache_dir=tmp_path)
    assert [question.text for question in first.test] == ["0?", "1?", "2?"]
    assert [p.name for p in (tmp_path / "gsm8k" / SHA256).iterdir()] == ["test.jsonl"]
    offline = Task(name="t", dataset="gsm8k", files={"test": pin("https://example.invalid/x")})
    assert load(offline, cache_dir=tmp_path) == first


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/503", "HTTP status 503"),
        ("/other", f"expected sha256 {SHA256}, found "),
        ("/short", f"expected sha256 {SHA256}, found "),
        ("/huge", "larger than 64 MiB"),
        ("/slow", "not complete after 0.5 s"),
        ("/to/file", "HTTP status 302"),
        ("/to/far", "neither https nor loopback"),
        ("/to/loop", "HTTP status 302"),
    ],
)
def test_a_failed_download_leaves_nothing(base: str, tmp_path: Path, path: str, why: str) -> None:
    """Every fault is one sentence with the URL, the reason and the ways on, and no file stays behind."""
    url = f"{base}{path}?token=secret"
    with pytest.raises(InfraError) as caught:
        download(pin(url), tmp_path / "cache" / "test.jsonl", total_timeout_s=0.5 if path == "/slow" else 20)
    (line,) = caught.value.lines()
    assert f"could not download {base}{path}: " in line
    assert why in line
    assert "task.path=DIR" in line
    assert "task=gsm8k_synth" in line
    assert "secret" not in line
    assert line.isprintable()
    assert list((tmp_path / "cache").iterdir()) == []


def test_nobody_listens(tmp_path: Path) -> None:
    """A refused connection is infrastructure."""
    with pytest.raises(InfraError, match="Connection refused") as caught:
        download(pin("http://127.0.0.1:1/x"), tmp_path / "x")
    assert caught.value.reason == "dataset-download-failed"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h/x",
        "http://example.invalid/x",
        "https://u:secret@h/x",
        "x",
        "http://[",
        "",
    ],
)
def test_other_urls_are_refused(tmp_path: Path, url: str) -> None:
    """Only https, and http on loopback, is ever opened."""
    with pytest.raises(ConfigError) as caught:
        download(pin(url), tmp_path / "x")
    assert caught.value.reason == "dataset-url-refused"
    assert "secret" not in caught.value.message


def test_an_unwritable_cache_is_infrastructure(base: str, tmp_path: Path) -> None:
    """A cache that cannot be written is one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError) as caught:
        download(pin(f"{base}/test.jsonl"), tmp_path / "file" / "test.jsonl")
    assert caught.value.reason == "cache-unwritable"


def test_shown_urls_hold_no_secret() -> None:
    """Credentials, query and control characters never reach a message."""
    assert shown_url("https://u:p@h:8/a/b?token=t#f") == "https://h:8/a/b"
    assert "\x1b" not in shown_url("https://h/\x1b[31m")
