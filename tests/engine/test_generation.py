"""Stop strings and token limits."""

from __future__ import annotations

import pytest

from gatekit.engine.generation import Limits, generate

TEXT = "one two three\nQuestion: next"


@pytest.mark.parametrize(
    ("limits", "text", "finish_reason", "stop_reason"),
    [
        (Limits(), TEXT, "stop", None),
        (Limits(stop=("\nQuestion:",)), "one two three", "stop", "\nQuestion:"),
        (Limits(stop=("Question", "two", "")), "one ", "stop", "two"),
        (Limits(max_tokens=2), "one two ", "length", None),
        (Limits(max_tokens=2, stop=("three",)), "one two ", "stop", "three"),
        (Limits(max_tokens=1, stop=("three",)), "one ", "length", None),
        (Limits(max_tokens=7), TEXT, "stop", None),
    ],
)
def test_the_end_of_a_text(limits: Limits, text: str, finish_reason: str, stop_reason: str | None) -> None:
    """A text ends before the first stop string within the token limit, else at the limit, else by itself."""
    ended = generate(TEXT, limits)
    assert (ended.completion.text, ended.completion.finish_reason) == (text, finish_reason)
    assert ended.stop_reason == stop_reason
    assert ended.completion.completion_tokens == -(-len(text) // 4)
