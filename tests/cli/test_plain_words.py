"""Messages that name what to type: each hint works where the reader stands, and no line contradicts itself."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from command_line import attached, environment, gatekit, here
from raw_server import Start
from right_answers import right

COLUMNS = 80


def next_commands(out: str) -> list[list[str]]:
    """The commands behind `next:`, as words behind `gatekit`."""
    return [shlex.split(line)[1:] for line in out.partition("next:\n")[2].splitlines()]


@pytest.mark.parametrize("engine", ["external", "replay", "llamacpp"])
def test_a_model_on_an_engine_that_lacks_something(engine: str, tmp_path: Path) -> None:
    """init makes a valid model file for every engine, and says what in it only stands for something."""
    ran = here(tmp_path, "init", "model", "ours", "--name", "a/b", "--engine", engine)
    assert (ran.code, "stands for" in ran.err) == (0, True)
    check, use = next_commands(ran.out)
    assert here(tmp_path, *check).code == 0
    assert here(tmp_path, *use, *(["task.n=2"] if use[0] != "plan" else [])).code in (0, 4)


def test_a_model_on_a_server_that_is_there(tmp_path: Path) -> None:
    """init takes the address of a running server; a new engine file's next command has one."""
    ran = here(tmp_path, "init", "model", "ours", "--name", "a/b", "--engine", "external", "--base-url", "http://h:99")
    assert (ran.code, ran.err) == (0, "")
    assert 'base_url: "http://h:99"' in (tmp_path / "conf" / "model" / "ours.yaml").read_text()
    ran = here(tmp_path, "init", "engine", "there", "--like", "external")
    for command in next_commands(ran.out):
        assert here(tmp_path, *command).code == 0


def test_a_key_of_a_shipped_file_that_does_nothing(tmp_path: Path) -> None:
    """The hint takes the key away wherever it stands, by an override that works."""
    overrides = ("model=tiny_gsm", "gate=static_floor", "gate.floor=0.5")
    ran = here(tmp_path, "plan", *overrides)
    assert (ran.code, "gate.alpha=null takes it away" in ran.err) == (2, True)
    found = here(tmp_path, "plan", *overrides, "gate.alpha=null")
    assert (found.code, found.err) == (0, "")


def test_a_text_that_needs_quotes(tmp_path: Path) -> None:
    """An override whose list cannot be read shows how its texts are quoted, in a form that works as it stands."""
    ran = here(tmp_path, "plan", "model=tiny_gsm", "engine.args=[--attention-backend=FLASHINFER]")
    assert (ran.code, "needs quotes" in ran.err) == (2, True)
    shown = re.search(r"of the shell: ('engine\.args=[^']*')", ran.err)
    assert shown is not None
    assert here(tmp_path, "plan", "model=tiny_gsm", *shlex.split(shown[1])).code == 0


def test_too_few_files(tmp_path: Path) -> None:
    """Where not even one request in flight fits, only a higher limit is proposed, and that one suffices."""
    limit = ("prlimit", "--nofile=20:1024")
    ran = gatekit(tmp_path, "plan", "client.concurrency=1", before=limit)
    assert (ran.code, "1 request in flight" in ran.err, "at most" in ran.err) == (2, True, False)
    least = re.search(r"raise the limit to (\d+) or more", ran.err)
    assert least is not None
    assert gatekit(tmp_path, "plan", "client.concurrency=1", before=("prlimit", f"--nofile={least[1]}:1024")).code == 0
    assert "at most 8 here" in gatekit(tmp_path, "plan", before=("prlimit", "--nofile=40:1024")).err


def test_a_server_that_is_there_is_not_started(raw_server: Start, tmp_path: Path) -> None:
    """The progress says what is done with the engine: nothing is started where a server is there."""
    ran = here(tmp_path, *attached(raw_server(right).url, n=40))
    assert (ran.code, "starting" in ran.err, "looking at engine external" in ran.err) == (0, False, True)


def test_a_terminal_of_eighty_columns(tmp_path: Path) -> None:
    """Time and advice are never cut off: neither while a server is waited for nor after the first Ctrl-C."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    arguments = ("task.n=400", "engine.latency.median_s=9", "engine.latency.sigma=0")
    process = subprocess.Popen(
        [sys.executable, "-m", "gatekit", *arguments],
        cwd=tmp_path,
        env=environment({"TERM": "xterm"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=side,
        start_new_session=True,
    )
    os.close(side)
    shown = read_until(main, b"asking 400 questions")
    process.send_signal(signal.SIGINT)
    shown += read_until(main, b"[interrupted]")
    assert process.wait(timeout=60) == 130
    os.close(main)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    lines = {line.rstrip() for line in re.split(r"[\r\n]+", text) if re.match(r"\d:\d\d:\d\d", line)}
    advice = re.compile(r"\S+ SIGINT: 3 s for answers in flight; a second one stops at once")
    assert any(map(advice.fullmatch, lines))
    assert max(map(len, lines)) <= COLUMNS


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """What the terminal shows up to `wanted`."""
    found, deadline = b"", time.monotonic() + 60
    while wanted not in found:
        assert time.monotonic() < deadline, found
        try:
            found += os.read(descriptor, 65536)
        except OSError:  # nobody writes any more
            break
    return found
