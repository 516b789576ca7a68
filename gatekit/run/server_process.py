"""The process behind an endpoint, where there is one: whether it lives, and what it said last."""

from __future__ import annotations

from gatekit.engine.serve import Endpoint

_LINES_IN_MESSAGE = 3


def gone(endpoint: Endpoint) -> str | None:
    """Why the server's process is gone, or None while it lives (or was never ours)."""
    code = None if endpoint.process is None else endpoint.process.poll()
    if endpoint.process is None or code is None:
        return None
    tail = " | ".join(log_tail(endpoint, _LINES_IN_MESSAGE))
    return f"exit code {code}, log {endpoint.process.log_path}" + (f", its end: {tail}" if tail else "")


def log_tail(endpoint: Endpoint, lines: int) -> tuple[str, ...]:
    """The last lines of the process's log, safe to show and without the key; none where it is not ours."""
    if endpoint.process is None:
        return ()
    text = endpoint.process.tail(lines).strip()
    if endpoint.api_key:
        text = text.replace(endpoint.api_key, "***")
    return tuple(text.split("\n")) if text else ()
