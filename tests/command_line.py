"""gatekit as its users run it: a process of its own, or the same command line in this one, in a folder of its own.

A process costs seconds, most of them for imports. It is for what only a process has: signals, descriptors, rights,
limits, encodings, what is imported, and exit codes of the operating system. All else is for `here`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without what would change gatekit's behaviour, and with `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEKIT_")}
    return {**kept, **(extra or {})}


def within_rights() -> list[str]:
    """What to put before a command that rights shall stop: root stays itself, and loses what lets it pass them."""
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def gatekit(
    folder: Path,
    *arguments: str,
    extra: Mapping[str, str] | None = None,
    timeout_s: float = 120,
    before: Sequence[str] = (),
) -> Ran:
    """Run `python -m gatekit` in `folder` to its end, the words of `before` in front of it."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "gatekit", *arguments],
        cwd=folder,
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


def start(
    folder: Path, *arguments: str, extra: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """That process, begun."""
    return subprocess.Popen(
        [*before, sys.executable, "-m", "gatekit", *arguments],
        cwd=folder,
        env=environment(extra),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def here(folder: Path, *arguments: str, extra: Mapping[str, str] | None = None) -> Ran:
    """The same command line in this process: nothing is started, so that many of them stay quick.

    What would be an internal error of the process is raised. Not for threads: the working directory is all of theirs.
    """
    from gatekit.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.chdir(folder), _variables(environment(extra)), _streams(out, err):
            code = main(arguments)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return Ran(code=int(code), out=out.getvalue(), err=err.getvalue())


@contextlib.contextmanager
def _streams(out: io.StringIO, err: io.StringIO) -> Iterator[None]:
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


@contextlib.contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """This process with exactly these environment variables."""
    before = dict(os.environ)
    try:
        _change_to(wanted)
        yield
    finally:
        _change_to(before)


def _change_to(wanted: Mapping[str, str]) -> None:
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted)


def attached(url: str, *more: str, n: int = 40) -> tuple[str, ...]:
    """The arguments of a run of a plain gate against a server that is there and serves m; later ones win."""
    server = ("engine=external", f"engine.base_url={url}", "engine.expected_model=m")
    return (*server, "gate=static_floor", "gate.floor=0.8", f"task.n={n}", *more)


def recompute(folder: Path, *more: str) -> Ran:
    """`gatekit thresholds recompute`."""
    return here(folder, "thresholds", "recompute", *more)


def record(ran: Ran, folder: Path) -> Any:
    """The stored record of a run that printed `--json`."""
    return json.loads((folder / ran.data["record"]).read_text())


def kept(ran: Ran, folder: Path) -> list[dict[str, Any]]:
    """The observations of the stored record."""
    found: list[dict[str, Any]] = record(ran, folder)["observations"]
    return found


def outcomes(ran: Ran, folder: Path) -> list[tuple[int, str, str | None]]:
    """What became of each question, without how often it was asked."""
    return [(seen["question_id"], seen["status"], seen["text"]) for seen in kept(ran, folder)]


def wait_for_answers(folder: Path, run_id: str, count: int, timeout_s: float = 90) -> None:
    """Until the journal of a run in the history folder `folder`/.gatekit holds that many answers."""
    journal = folder / ".gatekit" / "runs" / run_id / "journal.jsonl"
    deadline = time.monotonic() + timeout_s
    while not journal.exists() or journal.read_bytes().count(b'\n{"answer":') < count:
        assert time.monotonic() < deadline, "no answers arrived"
        time.sleep(0.02)


def servers(marker: str) -> list[int]:
    """The processes whose command line or environment names `marker`, this one aside."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if marker.encode() in text:
                found.append(int(entry.name))
    return found
