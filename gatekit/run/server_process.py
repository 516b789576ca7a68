"""The process behind an endpoint, where there is one: whether it lives, and what it said last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from gatekit.engine.serve import Endpoint

_LINES_IN_MESSAGE = 3
_MOST_LINES = 500
_ERRORS = ("error: ", "exception: ")
_NO_ERRORS = ("INFO", "WARNING", "DEBUG")  # levels: such lines warn of errors that did not happen


def gone(endpoint: Endpoint) -> str | None:
    """Why the server's process is gone, or None while it lives (or was never ours)."""
    code = None if endpoint.process is None else endpoint.process.poll()
    if endpoint.process is None or code is None:
        return None
    said = last_words(log_tail(endpoint, _MOST_LINES))
    return f"exit code {code}, log {endpoint.process.log_path}" + (f", {said}" if said else "")


def last_words(lines: Sequence[str]) -> str:
    """What a log says last, for a message: its end, from an error in it on, or its last error where that stands before.

    Servers go on after the error that ends them: others fail after it, libraries complain while they are unloaded. The
    indented lines behind an error belong to it.
    """
    at = next((at for at in range(len(lines) - 1, -1, -1) if _is_error(lines[at])), None)
    if at is None or at >= len(lines) - _LINES_IN_MESSAGE:
        end = lines[-_LINES_IN_MESSAGE:] if at is None else lines[at:]
        return f"its end: {' | '.join(end)}" if end else ""
    more = takewhile(lambda line: line[:1].isspace(), lines[at + 1 : at + _LINES_IN_MESSAGE])
    return "its last error: " + " | ".join(line.strip() for line in (lines[at], *more))


def _is_error(line: str) -> bool:
    return any(word in line.casefold() for word in _ERRORS) and not any(level in line for level in _NO_ERRORS)


def log_tail(endpoint: Endpoint, lines: int) -> tuple[str, ...]:
    """The last lines of the process's log, safe to show and without the key; none where it is not ours."""
    if endpoint.process is None:
        return ()
    text = endpoint.process.tail(lines).strip()
    if endpoint.api_key:
        text = text.replace(endpoint.api_key, "***")
    return tuple(text.split("\n")) if text else ()
