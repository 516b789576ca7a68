"""What a server says, in the log of a CI service that takes some lines for commands."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from command_line import attached, here
from gatekit.errors import Problem
from gatekit.report.problems import github_text

AZURE = "##vso[task.setvariable variable=PATH]/evil"
GITHUB = "::add-mask::a"


class Hostile(BaseHTTPRequestHandler):
    """A server whose names and versions are commands."""

    def do_GET(self) -> None:
        self._send({"data": [{"id": "m"}, {"id": AZURE}], "version": AZURE})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        text = f"{AZURE}\n{GITHUB}\n#### 7"
        choice = {"index": 0, "text": text, "message": {"content": text}, "finish_reason": "stop"}
        self._send({"model": "m", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})

    def _send(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Quiet(ThreadingHTTPServer):
    """A server whose clients may hang up: what it would print of that would stand among gatekit's lines."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing."""


@pytest.fixture
def hostile() -> Iterator[str]:
    """Its base URL."""
    with Quiet(("127.0.0.1", 0), Hostile) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def commands(text: str) -> list[str]:
    """The lines that a CI service acts on."""
    return [line for line in text.splitlines() if "##vso[" in line or "##[" in line or line.lstrip().startswith("::")]


def test_a_servers_words_are_no_commands(tmp_path: Path, hostile: str) -> None:
    """Its names, version and answers stand in no output as a command, be it text or JSON, and the data are whole."""
    refused = here(tmp_path, *attached(hostile, "engine.expected_model=other"))
    assert refused.code == 3
    assert "\\x23#vso[" in refused.err + refused.out
    ran = here(tmp_path, *attached(hostile, "--json", "--run-id", "r1"))
    shown = [
        here(tmp_path, "history", "show", "r1"),
        here(tmp_path, "history", "show", "r1", "--json"),
        here(tmp_path, "history", "show", "r1", "--wrong"),
        here(tmp_path, "explain", "r1"),
    ]
    assert [one.code for one in shown] == [0] * len(shown)
    for one in (refused, ran, *shown):
        assert commands(one.out + one.err) == []
    assert AZURE in shown[1].data["observations"][0]["text"]


def test_what_is_typed_is_no_command(tmp_path: Path) -> None:
    """A word of the command line that comes from somewhere else is none either."""
    for words in ((AZURE,), ("--json", AZURE), ("history", "show", AZURE), ("explain", f"::error::{AZURE}")):
        ran = here(tmp_path, *words)
        assert ran.code in (2, 3)
        assert commands(ran.out + ran.err) == []


def test_annotations_stay_commands() -> None:
    """The annotations that `validate --format github` is asked for are the only ones."""
    text = github_text([Problem(where="a.yaml:1:1", what=f"no {AZURE}", reason="bad-value")])
    assert commands(text) == [text]
    assert "##vso[" not in text
