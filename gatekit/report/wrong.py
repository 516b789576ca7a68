"""The questions that were not answered right: what was expected, what was read, and how the answer ended."""

from __future__ import annotations

from gatekit.records.answers import Observation, Status
from gatekit.records.run import RunRecord
from gatekit.report.table import aligned

_ENDING_CHARACTERS = 50
_HEADINGS = ("QUESTION", "STATUS", "EXPECTED", "READ", "THE ANSWER ENDS")


def wrong_answers(record: RunRecord) -> str:
    """One line per question that is not correct, in asking order; nothing foreign reaches the terminal as it is."""
    missed = [seen for seen in record.observations if seen.status is not Status.CORRECT]
    if not missed:
        return "every answer was right\n"
    return "\n".join(aligned([_HEADINGS, *map(_cells, missed)])) + "\n"


def _cells(seen: Observation) -> tuple[str, ...]:
    failure = "" if seen.failure is None else f"{seen.failure.kind.value}: {seen.failure.detail}"
    ending = (seen.text or seen.reasoning or failure)[-_ENDING_CHARACTERS:]
    return (str(seen.question_id), seen.status.value, seen.expected or "-", seen.predicted or "-", ending)
