"""The questions that were not answered right: what was expected, what was read, and how the answer ended."""

from __future__ import annotations

from gatekit.records.answers import Observation, Status
from gatekit.records.run import RunRecord
from gatekit.report.by_question import named
from gatekit.report.escape import escape_terminal
from gatekit.report.table import aligned

_ENDING_CHARACTERS = 50
_HEADINGS = ("QUESTION", "STATUS", "EXPECTED", "READ", "THE ANSWER ENDS")


def wrong_answers(record: RunRecord) -> str:
    """One line per answer that is not correct, in asking order; nothing foreign reaches the terminal as it is.

    Where questions are repeated, each line names the repeat.
    """
    if not record.observations:
        return f"no answers on record: {_without_answers(record)}\n"
    missed = [seen for seen in record.observations if seen.status is not Status.CORRECT]
    repeated = record.spec.protocol.repeats > 1
    rows = [_cells(seen, is_repeated=repeated) for seen in missed]
    lines = aligned([_HEADINGS, *rows]) if missed else ["every answer was right"]
    if record.counts.unasked:
        what = "answers were not asked for" if repeated else "questions were not asked"
        lines.append(f"({record.counts.unasked} of {record.counts.n} {what})")
    return "\n".join(lines) + "\n"


def _without_answers(record: RunRecord) -> str:
    counts = record.counts
    if counts.correct + counts.wrong:
        return f"only the total of this run is known, {counts.correct} of {counts.n} right"
    return "no question was answered"


def _cells(seen: Observation, *, is_repeated: bool) -> tuple[str, ...]:
    question = named(seen.cell, is_repeated=is_repeated)
    return (question, seen.status.value, seen.expected or "-", seen.predicted or "-", _last_words(seen))


def _last_words(seen: Observation) -> str:
    """The end of the answer, where its result stands; of a failure the beginning, which names it."""
    if seen.failure is not None:
        return f"{seen.failure.kind.value}: {seen.failure.detail}"
    text = seen.text or seen.reasoning or ""
    if not text:
        return "(empty)"
    source = "" if seen.text else "(reasoning) "
    escaped = escape_terminal(text[-_ENDING_CHARACTERS:])
    is_cut = len(text) > _ENDING_CHARACTERS or len(escaped) > _ENDING_CHARACTERS
    return source + ("..." + escaped[-_ENDING_CHARACTERS + len(source) :] if is_cut else escaped)
