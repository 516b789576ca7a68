"""What the log of a dead server is quoted with."""

from __future__ import annotations

import pytest

from gatekit.run.server_process import last_words

DEAD = "(APIServer pid=2) ERROR 11-30 14:45:00 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: See above."
NOISE = (
    "(APIServer pid=2) INFO [core_client.py:777] after error: MPClient: complete",
    'INFO:     127.0.0.1:60794 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
    *(f" - leaked function {number}" for number in range(20)),
    "nanobind: this is likely caused by a reference counting issue in the binding code.",
    "See https://nanobind.readthedocs.io/en/latest/refleaks.html",
)
WARNED = "WARNING Found ulimit of 20000. This can cause fd limit errors like `OSError: [Errno 24] Too many open files`."


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((WARNED, DEAD, *NOISE), f"its last error: {DEAD}"),
        ((WARNED, *NOISE), f"its end: {' | '.join(NOISE[-3:])}"),
        (("a", "OSError: gone", "b", "c", "ValueError: no"), "its end: ValueError: no"),
        (("KeyError: 1", "    ValueError: 2", "b", "c", "d"), "its last error: ValueError: 2"),
        (("XError: 1 problem", "  too long", "Please", "c", "d"), "its last error: XError: 1 problem | too long"),
        (("XError: 1", *(f"  {at}" for at in range(9))), "its last error: XError: 1 | 0 | 1"),
        (("a",), "its end: a"),
        ((), ""),
    ],
)
def test_the_last_error_is_told(lines: tuple[str, ...], said: str) -> None:
    """A server that says more after the error it dies of is quoted with that error, every other with its end."""
    assert last_words(lines) == said
