"""A free TCP port for a server that is about to start."""

from __future__ import annotations

import secrets
import socket

from gatekit.engine.argv import HOST

# Below the kernel's ephemeral range: a port taken from that range may become the local end of someone's
# outgoing connection before the server, which can take minutes to load, binds it.
_FIRST, _LAST = 20000, 32767
_TRIES = 100


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on now; from the ephemeral range only if no other is found."""
    candidates = (_FIRST + secrets.randbelow(_LAST - _FIRST + 1) for _ in range(_TRIES))
    return next((port for port in candidates if _bind(port)), 0) or _bind(0)


def _bind(port: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return 0
        bound: int = probe.getsockname()[1]
        return bound
