"""A product that cannot be written: every command says so and exits 3."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import pytest

from command_line import environment, here
from gatekit.cli.history import command as history_command
from gatekit.cli.main import commands, main
from gatekit.cli.thresholds import command as thresholds_command

SIM = ("engine.latency={}", "engine.seed=0", "task.n=20", "--allow-inconclusive")
SPEC = ("model=simulated", "task.n=20")

# Every command with what it prints; the folder holds runs `a` and `b`.
PRODUCTS: dict[str, tuple[str, ...]] = {
    "run": (*SIM, "--run-id", "c", "--json"),
    "plan": ("plan", *SIM[:-1]),
    "validate": ("validate", "--format", "json"),
    "init": ("init", "model", "mine"),
    "lint": ("lint",),
    "power": ("power", "--p0", "0.9"),
    "audit": ("audit", "model=simulated"),
    "explain": ("explain", "a"),
    "reap": ("reap", "--json"),
    "history acts": ("history", "acts"),
    "history list": ("history", "list"),
    "history show": ("history", "show", "a"),
    "history compare": ("history", "compare", "a", "b"),
    "history plot": ("history", "plot"),
    "history sync": ("history", "sync"),
    "history rebuild": ("history", "rebuild"),
    "history verify": ("history", "verify"),
    "history export": ("history", "export", "-"),
    "history import": ("history", "import", "runs.jsonl"),
    "history rescore": ("history", "rescore", "a"),
    "history quarantine": ("history", "quarantine", "a", "--reason", "hot"),
    "history release": ("history", "release", "b", "--reason", "cold"),
    "thresholds recompute": ("thresholds", "recompute", *SPEC),
    "thresholds rebaseline": ("thresholds", "rebaseline", "model=simulated", *SIM[:-1], "--reason", "new"),
    "thresholds show": ("thresholds", "show", *SPEC),
}
MORE = {
    "sweep": ("-m", "engine.seed=1", "engine.latency={}", "task.n=20", "--json"),
    "csv": ("history", "export", "-", "--format", "csv"),
    "export --json": ("history", "export", "new.jsonl", "--json"),
    "list --json": ("history", "list", "--json"),
    "--help": ("--help",),
    "--version": ("--version",),
    "history --help": ("history", "list", "--help"),
    "thresholds --help": ("thresholds", "--help"),
    "text run": (*SIM, "--run-id", "d"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, one of them set aside, and an export."""
    folder = tmp_path_factory.mktemp("made")
    for name in ("a", "b"):
        assert here(folder, *SIM, "--run-id", name).code == 0
    assert here(folder, "history", "quarantine", "b", "--reason", "hot").code == 0
    assert here(folder, "history", "export", "runs.jsonl").code == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, because some commands change it."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_every_command_is_in_the_table() -> None:
    """A command that is added is tested here, too."""
    found = {name for name in commands() if name not in ("history", "thresholds")}
    found |= {f"history {name}" for name, _, _ in history_command._COMMANDS}
    found |= {f"thresholds {name}" for name in thresholds_command._COMMANDS}
    assert set(PRODUCTS) == found


@contextlib.contextmanager
def _stdout(stream: IO[str] | None) -> Iterator[io.StringIO]:
    """Stdout as Python has it: None where its descriptor was closed before the start."""
    kept, said = sys.stdout, io.StringIO()
    sys.stdout = stream
    try:
        with contextlib.redirect_stderr(said):
            yield said
    finally:
        sys.stdout = kept


def _run(folder: Path, arguments: Sequence[str], stream: IO[str] | None) -> tuple[int, list[str]]:
    with contextlib.chdir(folder), _stdout(stream) as said:
        code = main(arguments)
    lines = [line for line in said.getvalue().splitlines() if "stdout" in line]
    return int(code), lines


@pytest.mark.parametrize("name", [*PRODUCTS, *MORE])
def test_a_closed_or_full_stdout_is_exit_3(folder: Path, name: str) -> None:
    """Whatever a command gives on stdout: where that is closed, or full, it exits 3 with one line that says so."""
    arguments = PRODUCTS.get(name) or MORE[name]
    other = Path(shutil.copytree(folder, folder.with_name("other")))
    for place, target in ((folder, None), (other, "/dev/full")):
        # Line by line, as a terminal's or a script's: Python's own buffer would hide what was not written.
        stream = None if target is None else open(target, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a device
        code, lines = _run(place, arguments, stream)
        assert (code, len(lines)) == (3, 1), (target, code, lines)
        assert lines[0].endswith("[stdout-failed]")
        assert "cannot write to stdout: " in lines[0]
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_a_process_says_it_too(folder: Path, redirection: str) -> None:
    """As a shell closes or fills it, also with stderr closed beside it: the exit code is 3."""
    text, document, help_ = PRODUCTS["history plot"], PRODUCTS["history export"], ("--help",)
    for arguments, more in ((text, ""), (document, ""), (help_, ""), (document, "2>&-"), (help_, "2>&-")):
        command = ["sh", "-c", f'exec "$@" {redirection} {more}', "sh", sys.executable, "-m", "gatekit", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
        assert done.returncode == 3, (arguments, more, done.stderr)
        assert done.stderr.count("\n") == (0 if more else 1), done.stderr


def test_warnings_never_reach_stdout(folder: Path) -> None:
    """With stderr closed a document on stdout stays one document."""
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "gatekit"]
    done = subprocess.run(
        [*command, "history", "import", "runs.jsonl", "--json"], cwd=folder, env=environment(), stdout=subprocess.PIPE
    )
    assert (done.returncode, done.stdout[:1], done.stdout.rstrip()[-1:]) == (0, b"{", b"}")


def test_a_regression_stays_one(folder: Path) -> None:
    """A FAIL that nobody can read is a FAIL all the same: 1 goes before 3, as for several specs."""
    arguments = ("engine.latency={}", "engine.accuracy=0.3", "task.n=200", "gate=static_floor", "gate.floor=0.9")
    for more in ((), ("--json",)):
        code, lines = _run(folder, (*arguments, *more), None)
        assert (code, len(lines)) == (1, 1)
