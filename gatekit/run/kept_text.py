"""How much of what a model writes is kept: less than one record may hold, so that whatever was recorded can be read."""

from __future__ import annotations

from gatekit.errors import InfraError

# A record holds the answers as the journal does, beside questions that were never asked: readers take 256 MiB of it.
MAX_ANSWERS_BYTES = 192 * 1024 * 1024
TOO_LARGE = "answers-too-large"
_KEPT_AT_AN_END = 16 * 1024
_ROOM_OF_THE_MARK = 64  # what was shortened is never shortened again


def kept_reasoning(reasoning: str | None) -> str | None:
    """The reasoning; of over 32 KiB its first and last 16 KiB, and between them how much was left out.

    Counted in characters. No extractor reads it.
    """
    if reasoning is None or len(reasoning) <= 2 * _KEPT_AT_AN_END + _ROOM_OF_THE_MARK:
        return reasoning
    left_out = len(reasoning) - 2 * _KEPT_AT_AN_END
    mark = f"\n[... {left_out:,} characters left out ...]\n"
    return reasoning[:_KEPT_AT_AN_END] + mark + reasoning[-_KEPT_AT_AN_END:]


def refuse_more(size: int, answers: int) -> None:
    """Raise InfraError where so many bytes of answers, as they are kept, are more than one run may have."""
    if size > MAX_ANSWERS_BYTES:
        what = f"the texts of this run take more than {MAX_ANSWERS_BYTES // 2**20} MiB, after {answers} answers"
        hint = "lower protocol.max_tokens, or ask for fewer answers (task.n, protocol.repeats)"
        raise InfraError(what, reason=TOO_LARGE, hint=f"no record may hold more: {hint}")
