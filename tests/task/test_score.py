"""Scoring."""

from __future__ import annotations

import pytest

from gatekit.records.answers import Completion, Question, Status
from gatekit.task.score import EXTRACTORS, MAX_PREDICTED_CHARS, Scored

QUESTION = Question(id=0, text="?", reference="9 * 2 = <<9*2=18>>18\n#### 18")


def scored(text: str | None, finish: str | None = "stop", extractor: str = "gatekit", **extra: bool) -> Scored:
    completion = Completion(text=text, finish_reason=finish, **extra)  # type: ignore[arg-type]  # one bool field
    return EXTRACTORS[extractor].score(completion, QUESTION)


@pytest.mark.parametrize(
    ("text", "finish", "status", "predicted", "detail"),
    [
        ("#### 18.00", "stop", Status.CORRECT, "18", "marker"),
        ("\\boxed{17}", "stop", Status.WRONG, "17", "boxed"),
        ("So 18", None, Status.CORRECT, "18", "fallback"),
        ("I don't know.", "stop", Status.NO_ANSWER, None, "unparsed"),
        ("", "stop", Status.NO_ANSWER, None, "empty"),
        (" \n", "stop", Status.NO_ANSWER, None, "empty"),
        (None, "stop", Status.NO_ANSWER, None, "empty"),
        ("The answer is 18", "length", Status.CORRECT, "18", "phrase"),
        ("#### 17", "length", Status.WRONG, "17", "marker"),
        ("16 - 3 - 4 = 9, so 9 * 2 = 18", "length", Status.TRUNCATED, None, "length"),
        ("<think>#### 18", "length", Status.TRUNCATED, None, "length"),
        ("", "length", Status.TRUNCATED, None, "length"),
        (None, "length", Status.TRUNCATED, None, "length"),
    ],
)
def test_gatekit_statuses(
    text: str | None, finish: str | None, status: Status, predicted: str | None, detail: str
) -> None:
    """Each completion ends in exactly one status, with the reason; a cut-off one needs an explicit answer."""
    assert scored(text, finish) == Scored(status=status, predicted=predicted, detail=detail)


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_a_tool_call_is_no_answer(extractor: str) -> None:
    """A tool call instead of text is no answer, and no crash."""
    expected = Scored(status=Status.NO_ANSWER, detail="tool_call")
    assert scored(None, "tool_calls", extractor, has_tool_calls=True) == expected


def test_the_sign_counts_on_both_sides() -> None:
    """A reference of -10 is not answered by 10; the legacy extractor says it is."""
    minus_ten = Question(id=1, text="?", reference="#### -10")
    ten = Completion(text="#### 10", finish_reason="stop")
    assert EXTRACTORS["gatekit"].score(ten, minus_ten).status is Status.WRONG
    assert EXTRACTORS["last_integer"].score(ten, minus_ten).status is Status.CORRECT


def test_commas_in_the_reference() -> None:
    """A reference of 1,450,000 is the number 1450000."""
    question = Question(id=1, text="?", reference="#### 1,450,000")
    assert EXTRACTORS["gatekit"].score(Completion(text="#### 1450000"), question).status is Status.CORRECT


def test_legacy_scores_whatever_it_reads() -> None:
    """The legacy extractors score a cut-off text by its last number; without text it is truncated."""
    assert scored("so 9 * 2", "length", "last_integer").predicted == "2"
    assert scored("so 9 * 2", "length", "last_integer").status is Status.WRONG
    assert scored("The answer is $18.00", "stop", "last_integer").predicted == "0"
    assert scored("The answer is $18.00", "stop", "last_number").status is Status.CORRECT
    assert scored("", "length", "last_integer").status is Status.TRUNCATED
    assert scored("07", "stop", "last_integer") == Scored(status=Status.NO_ANSWER, detail="unparsed")
    assert scored("#### 18.", "stop", "lm_eval_strict").status is Status.CORRECT
    assert scored("It is $18", "stop", "lm_eval_flexible").status is Status.CORRECT


def test_records_stay_small() -> None:
    """A megabyte that a legacy extractor reads as a number is not copied into the record."""
    predicted = scored("#### " + "9" * 1_000_000, "stop", "lm_eval_strict").predicted
    assert predicted is not None
    assert len(predicted) == MAX_PREDICTED_CHARS


def test_versions_name_the_behaviour() -> None:
    """Every extractor has its name and a version that enters the comparability key."""
    assert {name: extractor.version for name, extractor in EXTRACTORS.items()} == {
        "gatekit": "gatekit-1",
        "last_integer": "last_integer-1",
        "last_number": "last_number-1",
        "lm_eval_strict": "lm_eval_strict-1",
        "lm_eval_flexible": "lm_eval_flexible-1",
    }
    assert all(extractor.name == name for name, extractor in EXTRACTORS.items())
