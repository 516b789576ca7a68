"""Whether a started server still lives, and still is the one that listens on its port."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from gatekit.engine.listener import family, holder, listens
from gatekit.engine.process_stat import process_stat
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.run.server_process import gone

_EVERY_S = 5.0


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
    """Whether the started server or something that it started listens on its port; None where that is not known.

    False where the listener is younger than the server and no child of it: a container that was started in its
    place. Raises InfraError where it is older: it was there before, and its answers are not ours.
    """
    port = urlsplit(endpoint.base_url).port
    if endpoint.process is None or port is None:
        return None
    root = endpoint.process.pid
    is_ours = listens(port, family(root))
    if is_ours is not False:
        return is_ours
    stranger = holder(port)
    theirs, ours = (None if pid is None else process_stat(pid) for pid in (stranger, root))
    if theirs is not None and ours is not None and theirs.started_ticks < ours.started_ticks:
        what = f"port {port} belongs to process {stranger}, which is not the started server"
        raise InfraError(what, reason="port-taken", hint="run again: another port is chosen")
    return False
