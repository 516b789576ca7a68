"""Which known question a prompt asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatekit.records.answers import Question

_LONGEST_ANCHOR = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownQuestions:
    """An index over question texts by their last characters.

    Worked examples stand before the question that is asked, so the question that ends last in a prompt is
    the one asked; of two that end at the same place the longer one is.
    """

    anchor_length: int
    by_anchor: Mapping[str, tuple[tuple[str, Question], ...]]

    def asked_in(self, prompt: str) -> Question | None:
        """The question that the prompt asks, None when it asks none of the known ones."""
        length = self.anchor_length
        for end in range(len(prompt), length - 1, -1):
            for text, question in self.by_anchor.get(prompt[end - length : end], ()):
                if prompt.endswith(text, 0, end):
                    return question
        return None


def index(questions: Iterable[Question]) -> KnownQuestions:
    """The index of the questions. Raises ValueError for a question without text."""
    texts = {question.text.strip(): question for question in questions}
    if "" in texts:
        raise ValueError(f"question {texts[''].id} has no text")
    length = min([_LONGEST_ANCHOR, *map(len, texts)])
    buckets: dict[str, list[tuple[str, Question]]] = {}
    for text in sorted(texts, key=len, reverse=True):
        buckets.setdefault(text[-length:], []).append((text, texts[text]))
    return KnownQuestions(anchor_length=length, by_anchor={anchor: tuple(bucket) for anchor, bucket in buckets.items()})
