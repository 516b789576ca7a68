"""Somebody else on the port of a started server, beside it or in its place: never asked, never believed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import small_server
from command_line import Ran
from small_server import install, start

# The program notes how it was started. A stranger is the same program in another role.
ROLES = """\
ROLE = os.environ.get("ROLE", "server")
if ROLE == "server":
    with open(os.path.join(HERE, "argv.new"), "w") as file: json.dump(sys.argv, file)
    os.rename(os.path.join(HERE, "argv.new"), os.path.join(HERE, "argv"))
"""
NEVER = ROLES + "if ROLE == 'server': time.sleep(300)\n"
SHARED = (
    ROLES + "http.server.ThreadingHTTPServer.allow_reuse_port = True\n"
    "while ROLE != 'server' and not os.path.exists(os.path.join(HERE, 'asked')): time.sleep(0.01)\n"
)
ASKED = "open(os.path.join(HERE, ROLE if len(POSTS) > 1 else 'warm'), 'w').close()\n"
ASKED_SLOWLY = "if len(POSTS) > 1: open(os.path.join(HERE, 'asked'), 'w').close()\ntime.sleep(0.1)\n"


@contextmanager
def stranger(folder: Path, extra: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is no child of the server, with its port and name, once that was started."""
    noted = folder / "bin" / "argv"
    deadline = time.monotonic() + 60
    while not noted.exists():
        assert time.monotonic() < deadline, "no server was started"
        time.sleep(0.02)
    argv: Sequence[str] = json.loads(noted.read_text())
    with subprocess.Popen(argv, env={**os.environ, **extra, "ROLE": "stranger"}) as process:
        try:
            yield process
        finally:
            process.kill()


def run_beside(folder: Path, extra: dict[str, str], *more: str) -> tuple[Ran, int]:
    """A run beside that stranger, and the stranger's process id."""
    with start(folder, *more, extra=extra) as run:
        try:
            with stranger(folder, extra) as other:
                out, err = run.communicate(timeout=60)
                return Ran(code=run.returncode, out=out, err=err), other.pid
        finally:
            run.kill()


def test_a_younger_stranger_in_place_of_the_server(tmp_path: Path) -> None:
    """A listener that is no child of the server is refused before a question is asked, however young it is."""
    ran, pid = run_beside(tmp_path, install(tmp_path, before=NEVER, on_post=ASKED))
    assert (ran.code, ran.data["reason_code"], ran.data["accuracy"]) == (3, "port-taken", None)
    assert f"belongs to process {pid}" in ran.data["reason"]
    assert "engine.foreign_listener=true" in ran.data["hint"]
    assert not (tmp_path / "bin" / "stranger").exists()


def test_a_listener_that_the_engine_file_allows(tmp_path: Path) -> None:
    """Where the command has another process listen, and says so, that one is asked, and it is said who answered."""
    extra = install(tmp_path, before=NEVER, on_post=ASKED)
    ran, _ = run_beside(tmp_path, extra, "engine.foreign_listener=true")
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    assert any("another process than the started server listens" in line for line in ran.data["warnings"])


def test_a_thief_that_shares_the_port(tmp_path: Path) -> None:
    """One that takes some of the connections by SO_REUSEPORT, while our own server listens too, spoils the run."""
    ran, pid = run_beside(tmp_path, install(tmp_path, before=SHARED, on_post=ASKED_SLOWLY), "client.concurrency=4")
    assert (ran.code, ran.data["reason_code"]) == (3, "port-taken")
    assert f"belongs to process {pid}" in ran.data["reason"]


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1"])
def test_our_own_server_at_any_address(tmp_path: Path, address: str) -> None:
    """A server of ours that listens at every address, or that starts workers which share its socket, is no stranger."""
    before = f"ADDRESS = {address!r}\nos.fork()\n"
    extra = install(tmp_path, before="http.server.ThreadingHTTPServer.allow_reuse_port = True\n" + before)
    program = tmp_path / "bin" / "vllm"
    program.write_text(program.read_text().replace('"127.0.0.1"', "ADDRESS"))
    ran = small_server.run(tmp_path, extra=extra)
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    assert not any("listens at" in line for line in ran.data["warnings"])
