"""The text that is scored: what a server sent after what it was given to begin with, without what was only thought."""

from __future__ import annotations

from dataclasses import replace

from gatekit.records.answers import Completion
from gatekit.records.spec import Protocol
from gatekit.task.thinking import without_thinking


def answer_under(protocol: Protocol, completion: Completion) -> Completion:
    """The completion as an answer to this protocol.

    The prefix stands before what was written first, which is the reasoning where the server gave that apart; a server
    that repeats it is believed. An answer of nothing stays one: the prefix is not the model's.
    """
    completion = _with_prefix(completion, protocol.gen_prefix)
    return completion if protocol.think_tags is None else without_thinking(completion, protocol.think_tags)


def _with_prefix(completion: Completion, prefix: str | None) -> Completion:
    first = completion.reasoning or completion.text
    if prefix is None or not first or first.startswith(prefix):
        return completion
    if completion.reasoning:
        return replace(completion, reasoning=prefix + first)
    return replace(completion, text=prefix + first)
