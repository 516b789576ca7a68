"""gatekit as its users run it: a process of its own, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
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


def here(folder: Path, *arguments: str) -> Ran:
    """The same command line in this process: nothing is started, so that many of them stay quick."""
    from gatekit.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return Ran(code=int(code), out=out.getvalue(), err=err.getvalue())


def record(ran: Ran, folder: Path) -> Any:
    """The stored record of a run that printed `--json`."""
    return json.loads((folder / ran.data["record"]).read_text())


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
