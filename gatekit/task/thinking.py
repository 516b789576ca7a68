"""What of an answer was thought and what was said, where a model marks its reasoning inside the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gatekit.records.answers import Completion

_CUT_OFF = "length"


def without_thinking(completion: Completion, tags: Sequence[str]) -> Completion:
    """The completion with what stands between the opening and the closing tag moved from its text to its reasoning.

    A closing tag without an opening one ends reasoning that the prompt began. Whatever is not certain to be an answer
    is reasoning: all of a text whose last tag is an opening one, and all of a text without tags that was cut off at
    the token limit, unless the server gave the reasoning apart. No text is left then, so that nothing can be scored.
    """
    text = completion.text
    if not text:
        return completion
    thought, said, is_closed = _parted(text, tags)
    if not is_closed or (said == text and completion.finish_reason == _CUT_OFF and not completion.reasoning):
        thought, said = text, ""
    if said == text:
        return completion
    reasoning = "\n".join(filter(None, (completion.reasoning, thought)))
    return replace(completion, text=said, reasoning=reasoning or None)


def _parted(text: str, tags: Sequence[str]) -> tuple[str, str, bool]:
    """What was thought, what was said, and whether the thinking ended."""
    opening, _ = tags
    thought: list[str] = []
    said: list[str] = []
    is_thinking = False
    for piece in _pieces(text, tags):
        if piece not in tags:
            (thought if is_thinking else said).append(piece)
        elif piece == opening:
            is_thinking = True
        else:
            if not is_thinking:
                thought.extend(said)
                said.clear()
            is_thinking = False
    return "".join(thought), "".join(said), not is_thinking


def _pieces(text: str, tags: Sequence[str]) -> Iterator[str]:
    """The tags and what stands between them, in order."""
    longest_first = sorted(tags, key=len, reverse=True)
    return iter(re.split(f"({'|'.join(map(re.escape, longest_first))})", text))
