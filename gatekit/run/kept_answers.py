"""Answers that an earlier part of a run kept, read again: nobody else vouches for what stands in its journal."""

from __future__ import annotations

from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.record_form import answer_bounds
from gatekit.records.answers import Observation
from gatekit.run.journal_lines import Kept
from gatekit.task.rescore import rescore
from gatekit.task.score import Extractor

_SHOWN_CHARACTERS = 40


def refuse_changed(kept: Kept, extractor: Extractor, journal: Path) -> None:
    """Raise InfraError, naming the line, for an answer that is scored otherwise than its text is read, or that holds
    a number that no record may hold."""
    for line, seen in zip(kept.lines, kept.answers, strict=True):
        why = _out_of_bounds(seen) or _misread(seen, extractor)
        if why is not None:
            what = f"the journal {journal} is broken: line {line}: question {seen.question_id}: {why}"
            raise InfraError(what, reason="journal-broken", hint="run again under another run id")


def _out_of_bounds(seen: Observation) -> str | None:
    for name, highest in answer_bounds().items():
        value = getattr(seen, name)
        if value is not None and not 0 <= value <= highest:
            return f"{name} is not between 0 and {highest}"
    return None


def _misread(seen: Observation, extractor: Extractor) -> str | None:
    try:
        found = rescore(seen, extractor)
    except ValueError:
        return "its reference answer cannot be read"
    if found == seen:
        return None
    if found.status is not seen.status:
        return f"it is {seen.status.value}, and {extractor.version} finds its text {found.status.value}"
    return f"{_shown(seen.predicted)} was read, and {extractor.version} reads {_shown(found.predicted)} in its text"


def _shown(text: str | None) -> str:
    return "nothing" if text is None else ascii(text[:_SHOWN_CHARACTERS])
