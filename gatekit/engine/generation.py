"""How a text ends: stop strings and token limits, as an OpenAI-compatible server applies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.records.answers import Completion

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request says about the end of its answer; None sets no limit."""

    stop: tuple[str, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A completion and the stop string that ended it, if one did."""

    completion: Completion
    stop_reason: str | None = None


def tokens(text: str) -> int:
    """About how many tokens the text has: one per started four characters.

    >>> [tokens(""), tokens("four"), tokens("fours")]
    [0, 1, 2]
    """
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def generate(text: str, limits: Limits) -> Ended:
    """The text as far as the limits let a model write it: `stop` before a stop string, `length` when cut."""
    kept, stop_reason = before_stop(text, limits.stop)
    if limits.max_tokens is not None and tokens(kept) > limits.max_tokens:
        kept = kept[: limits.max_tokens * CHARACTERS_PER_TOKEN]
        return Ended(completion=_completion(kept, "length"))
    return Ended(completion=_completion(kept, "stop"), stop_reason=stop_reason)


def halve(ended: Ended) -> Ended:
    """The first half of a completion, as if the token limit had cut it there."""
    text = ended.completion.text or ""
    return Ended(completion=_completion(text[: len(text) // 2], "length"))


EMPTY = Ended(completion=Completion(text="", finish_reason="stop", completion_tokens=0))


def before_stop(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """The text up to the first stop string in it, and that string; the whole text and None without one."""
    found = [(text.find(word), word) for word in stop if word and word in text]
    if not found:
        return text, None
    position, word = min(found)
    return text[:position], word


def _completion(text: str, finish_reason: str) -> Completion:
    return Completion(text=text, finish_reason=finish_reason, completion_tokens=tokens(text))
