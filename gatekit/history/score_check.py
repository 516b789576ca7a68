"""Whether the answers of a record are scored as its own extractor scores them: nobody else vouches for a status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from gatekit.records.answers import Observation, Status
from gatekit.records.run import RunRecord

if TYPE_CHECKING:
    from gatekit.history.rescore import Reader

Readers: TypeAlias = Mapping[str, "Reader"]
"""The extractors that are known here, by name."""

NO_READERS: Readers = {}
_READ = (Status.CORRECT, Status.WRONG)
_SOME_ANSWER = "0"
_NUMBER = re.compile(r"-?[0-9]{1,100}(?:\.[0-9]{1,100}|/0{0,50}[1-9][0-9]{0,100})?")
_SHOWN_CHARACTERS = 40


def score_flaw(record: RunRecord, readers: Readers) -> str | None:
    """The first answer whose status is not what its text comes to, in a few words; None where there is none.

    Where the extractor is known here in the record's version, it reads every text again. Of another version only the
    number that it read and the one that was expected are compared.
    """
    reader = readers.get(record.spec.protocol.extractor)
    is_known = reader is not None and reader.version == record.comparability.fields.get("extractor_version")
    for seen in record.observations:
        if seen.status is Status.LOST:
            continue
        why = _by_text(seen, reader) if is_known and reader is not None else _by_number(seen)
        if why is not None:
            return f"question {seen.question_id} is {seen.status.value}, {why}"
    return None


def _by_text(seen: Observation, reader: Reader) -> str | None:
    """A record that was kept without the reference answers still says what was read."""
    is_whole = seen.expected is not None
    try:
        found = reader.score(seen if is_whole else replace(seen, expected=_SOME_ANSWER))
    except ValueError:
        return f"and its reference answer {_shown(seen.expected)} cannot be read"
    if found.predicted != seen.predicted:
        return f"by {_shown(seen.predicted)}, and {reader.version} reads {_shown(found.predicted)} in its text"
    is_same = found.status is seen.status or (not is_whole and found.status in _READ and seen.status in _READ)
    return None if is_same else f"and {reader.version} finds it {found.status.value}"


def _by_number(seen: Observation) -> str | None:
    """What an extractor calls equal is its own affair, but not that other numbers are, or that the same text is not."""
    if seen.predicted is None or seen.expected is None:
        return None
    predicted, expected = _number(seen.predicted), _number(seen.expected)
    is_other = None not in (predicted, expected) and predicted != expected
    if seen.status is Status.CORRECT and is_other:
        return f"and {_shown(seen.predicted)} was read where {_shown(seen.expected)} was expected"
    if seen.status is Status.WRONG and seen.predicted == seen.expected:
        return f"and {_shown(seen.predicted)} was read, which was expected"
    return None


def _number(text: str) -> Fraction | None:
    bare = text.replace(",", "").replace("$", "").strip()
    return Fraction(bare) if _NUMBER.fullmatch(bare) else None


def _shown(text: str | None) -> str:
    return "nothing" if text is None else repr(text[:_SHOWN_CHARACTERS])
