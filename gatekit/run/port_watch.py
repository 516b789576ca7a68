"""Whether a started server still lives, and still is the only one that listens on its port."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from gatekit.engine.listener import Listener, holder, listening
from gatekit.engine.process_stat import ProcessStat, process_stat
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.run.server_process import gone

_EVERY_S = 5.0
_HINT = (
    "run again: another port is chosen; an engine whose command has another process listen, as a container's, "
    "says so with engine.foreign_listener=true"
)


def watched(endpoint: Endpoint, *, every_s: float = _EVERY_S) -> Callable[[], str | None]:
    """A check to be called often: why the server's process is gone, or None while it lives.

    Every `every_s` seconds it also looks who listens on the port, and raises InfraError for a stranger.
    """
    next_s = 0.0

    def look() -> str | None:
        nonlocal next_s
        now_s = time.monotonic()
        why = gone(endpoint)
        if why is None and now_s >= next_s:
            next_s = now_s + every_s
            refuse_stranger(endpoint)
        return why

    return look


def refuse_stranger(endpoint: Endpoint) -> bool | None:
    """Whether the started server, or something that it started, listens on its port and nobody else; None: not known.

    False where somebody else listens and the engine's file allows it: a container that was started in its place.
    Raises InfraError for any other stranger, whoever it is, and for an allowed one that is older than the server: it
    was there before, and its answers are not ours.
    """
    port = urlsplit(endpoint.base_url).port
    if endpoint.process is None or port is None:
        return None
    root = process_stat(endpoint.process.pid)
    if root is None or root.is_dead:
        return None
    found = listening(port, root.pid)
    for stranger in found.strangers:
        pid = holder(stranger)
        if not endpoint.foreign_listener or _is_older(pid, root):
            what = f"port {port} belongs to {_named(pid, stranger)}, which is not the started server"
            raise InfraError(what, reason="port-taken", hint=_HINT)
    if found.strangers:
        return False
    return True if found.is_ours and not found.unsure else None


def _is_older(pid: int | None, root: ProcessStat) -> bool:
    other = None if pid is None else process_stat(pid)
    return other is not None and other.started_ticks < root.started_ticks


def _named(pid: int | None, listener: Listener) -> str:
    return f"a process of user {listener.uid}" if pid is None else f"process {pid}"
