"""The questions that were not answered right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gatekit.records.answers import Failure, FailureKind, Status
from gatekit.records.run import RunRecord
from gatekit.report.wrong import wrong_answers

MakeRecord = Callable[..., RunRecord]


def one(make_record: MakeRecord, status: Status = Status.WRONG, **fields: object) -> str:
    """The line of a question that ended so."""
    record = make_record(statuses=(status,))
    seen = replace(record.observations[0], **fields)  # type: ignore[arg-type]  # fields by name
    return wrong_answers(replace(record, observations=(seen,))).splitlines()[1]


def test_a_total_is_not_a_clean_run(make_record: MakeRecord) -> None:
    """A run of which only the total is known never says that every answer was right."""
    record = replace(make_record(), observations=())
    assert wrong_answers(record) == "no answers on record: only the total of this run is known, 3 of 4 right\n"


def test_questions_that_were_not_asked_are_said(make_record: MakeRecord) -> None:
    """After an early stop, "every answer was right" says of how many it speaks."""
    record = make_record(statuses=(Status.CORRECT,), planned=4)
    record = replace(record, counts=replace(record.counts, n=4, unasked=3))
    assert wrong_answers(record) == "every answer was right\n(3 of 4 questions were not asked)\n"


def test_the_end_of_an_answer_survives_its_escapes(make_record: MakeRecord) -> None:
    """However many characters must be spelled out, the result at the end is shown."""
    assert one(make_record, text="\n" * 60 + "#### 17").endswith("#### 17")
    assert one(make_record, text="short").endswith("  short")


def test_a_failure_begins_with_its_kind(make_record: MakeRecord) -> None:
    """A lost question says how it was lost, however long the detail is."""
    failure = Failure(kind=FailureKind.TIMEOUT, detail="no answer " * 30)
    assert "timeout: no answer" in one(make_record, Status.LOST, failure=failure)


def test_what_is_shown_is_named(make_record: MakeRecord) -> None:
    """Reasoning is not taken for the answer, and nothing at all is called empty."""
    assert one(make_record, Status.NO_ANSWER, text=None, reasoning="so 17").endswith("(reasoning) so 17")
    assert one(make_record, Status.NO_ANSWER, text="", reasoning=None).endswith("(empty)")
