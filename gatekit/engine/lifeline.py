"""Runs a command that dies with its starter: `python lifeline.py -- COMMAND ARGUMENT...`.

The starter holds the other end of standard input. When that closes, however the starter died, the command
gets SIGTERM, two seconds, and SIGKILL, and so does everything it started, detached or not. The exit code is
the command's own, 128 + N after signal N, 127 when it could not be started. Only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

TERM_GRACE_S = 2.0
CANNOT_START = 127
_SWEEP_S = 3.0
_POLL_MS = 50
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Runs the command until it exits or standard input ends, and leaves no descendant behind."""
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    # Orphaned descendants become children of this process, so that none can hide by detaching.
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    terminated = _notice_sigterm()
    try:
        child = subprocess.Popen(  # noqa: S603 - an argv list, no shell
            command,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError) as problem:
        sys.stderr.write(f"gatekit: cannot start {command[0]!r}: {problem}\n")
        return CANNOT_START
    code = _wait(child.pid, terminated)
    _sweep()
    return code


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _notice_sigterm() -> list[int]:
    """The SIGTERMs received. The group gets them as a whole, so the command has its own to answer."""
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    signal.signal(signal.SIGTERM, note)
    return received


def _wait(child: int, terminated: list[int]) -> int:
    """The command's exit code. When standard input ends it is told to stop, and soon left to `_sweep`."""
    starter = select.poll()
    starter.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    deadline: float | None = None
    while True:
        if (code := _reap(child)) is not None:
            return code
        if deadline is None:
            if starter.poll(_POLL_MS) and not os.read(sys.stdin.fileno(), 4096):
                deadline = time.monotonic() + (0 if terminated else TERM_GRACE_S)
                os.kill(child, signal.SIGTERM)
        elif time.monotonic() >= deadline:
            return 128 + signal.SIGKILL
        else:
            time.sleep(_POLL_MS / 1000)


def _reap(child: int | None) -> int | None:
    """Buries every dead child; the exit code of the command when it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            result = os.waitstatus_to_exitcode(status)
            code = result if result >= 0 else 128 - result


def _sweep() -> None:
    """Kills what is left of the family, generation by generation, for at most three seconds."""
    deadline = time.monotonic() + _SWEEP_S
    while time.monotonic() < deadline:
        family = list(_family())
        if not family:
            return
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        time.sleep(0.01)
        _reap(None)


def _family() -> Iterator[int]:
    """Living children of this process, and members of its process group when it leads one."""
    me, leads = os.getpid(), os.getpgrp() == os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent group ...; a name may hold spaces and brackets.
            state, parent, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        pid = int(path.parent.name)
        related = int(parent) == me or (leads and int(group) == me)
        if pid != me and state != "Z" and related:
            yield pid


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(exit_code)
