"""What repeats say question by question: which were always right, sometimes, never; and how one of them is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.records.answers import Cell, Observation, Status
from gatekit.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ByQuestion:
    """How many questions were right in every repeat, in some, in none; `unknown` are those that lack an answer which
    would tell."""

    repeats: int
    questions: int
    always: int
    sometimes: int
    never: int
    unknown: int


def by_question(record: RunRecord) -> ByQuestion | None:
    """The questions of a run with repeats; None of a run without, and where only its total is known."""
    repeats = record.spec.protocol.repeats
    questions = len(record.dataset.question_ids) // repeats
    if repeats == 1 or not record.observations:
        return None
    answered = Counter(seen.question_id for seen in record.observations if seen.status is not Status.LOST)
    right = Counter(seen.question_id for seen in record.observations if seen.status is Status.CORRECT)
    always = sum(times == repeats for times in right.values())
    never = sum(times == repeats and not right[question] for question, times in answered.items())
    sometimes = sum(0 < right[question] < times for question, times in answered.items())
    return ByQuestion(
        repeats=repeats,
        questions=questions,
        always=always,
        sometimes=sometimes,
        never=never,
        unknown=questions - always - sometimes - never,
    )


def named(cell: Cell, *, is_repeated: bool) -> str:
    """The question of an answer, and which repeat it was where there are several; repeats count from 0, as in records.

    >>> named((7, 2), is_repeated=True), named((7, 0), is_repeated=False)
    ('7 (repeat 2)', '7')
    """
    question, repeat = cell
    return f"{question} (repeat {repeat})" if is_repeated else str(question)


def is_repeated(observations: Sequence[Observation]) -> bool:
    """Whether a question was asked more than once."""
    return any(seen.repeat for seen in observations)
