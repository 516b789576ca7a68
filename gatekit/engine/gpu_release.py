"""GPU memory after a server's end: drivers give it back a while after the last process is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

RELEASE_TIMEOUT_S = 30.0
TOLERATED_MIB = 256
_POLL_S = 0.5

Memory = Mapping[str, int] | None


def still_held(
    baseline: Memory, read: Callable[[], Memory], *, timeout_s: float = RELEASE_TIMEOUT_S, poll_s: float = _POLL_S
) -> str | None:
    """What each GPU holds above its baseline when `timeout_s` is over; None as soon as it is no more than 256 MiB.

    `read` gives the MiB in use of each GPU. None too where the memory is, or was, not known.
    """
    if not baseline:
        return None
    deadline = time.monotonic() + timeout_s
    while True:
        now = read()
        if now is None:
            return None
        over = {name: now[name] - baseline[name] for name in baseline if name in now}
        held = [f"{name} {mib} MiB" for name, mib in sorted(over.items()) if mib > TOLERATED_MIB]
        if not held:
            return None
        if time.monotonic() >= deadline:
            late = f"GPU memory did not come back within {timeout_s:g} s of the server's end"
            return f"{late}: {', '.join(held)} more than before it"
        time.sleep(poll_s)
