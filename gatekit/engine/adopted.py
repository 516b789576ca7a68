"""Dead processes that the kernel gave to gatekit because it is process 1, as in a container, and whom nobody buries."""

from __future__ import annotations

import os
from contextlib import suppress

from gatekit.engine.process_stat import all_processes, shows_this_process

_INIT = 1
_started: set[int] = set()


def started(pid: int) -> None:
    """This process started `pid` itself, and buries it itself."""
    _started.add(pid)


def buried(pid: int) -> None:
    """`pid` needs no more care."""
    _started.discard(pid)


def bury_adopted() -> None:
    """Buries the dead children that this process did not start, where it is process 1; elsewhere it has none."""
    if os.getpid() != _INIT or not shows_this_process():
        return
    session = os.getsid(0)
    for stat in all_processes():
        is_adopted = stat.parent == _INIT and stat.pid not in _started and stat.session != session
        if stat.is_dead and is_adopted:
            with suppress(ChildProcessError):
                os.waitpid(stat.pid, os.WNOHANG)
