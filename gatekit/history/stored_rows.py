"""Rows as a database gives them, each checked: whatever it holds, what comes out of here is what a run can be.

All rows of a query are fetched before the first is checked: an error would keep an open cursor, and its lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import sqlalchemy as sa

from gatekit.history.records_folder import RUN_ID_PATTERN
from gatekit.history.run_row import RunRow, SeriesRow
from gatekit.history.tables import acts as acts_table
from gatekit.history.tables import runs as runs_table
from gatekit.records.act import Act, ActKind
from gatekit.records.verdict import Outcome

_MOST_QUESTIONS = 10_000_000  # as in schemas/record.schema.json
_SHOWN_CHARACTERS = 60
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", re.ASCII)
_OUTCOMES = frozenset(outcome.value for outcome in Outcome)
_KINDS = frozenset(kind.value for kind in ActKind)
_PARTS = ("correct", "wrong", "no_answer", "truncated", "lost", "unasked")


class BrokenRowError(Exception):
    """A row of the index that no gatekit wrote: which one, and what is wrong with it. `database.reading` and
    `database.writing` make it an InfraError."""


class PastRow(NamedTuple):
    """What a decision about a later run needs of a run; as in SeriesRow. Light, because there are many.

    `position` grows with arrival, over all series.
    """

    run_id: str
    digest: str
    spec_name: str
    model: str
    hw: str
    gate: str | None
    build: str | None
    finished_at: str
    rescored_at: str | None
    n: int
    correct: int
    unasked: int
    lost: int
    measured: bool
    outcome: str
    reason_code: str
    right: bytes | None
    position: int

    @property
    def since(self) -> str:
        """From when on there was this record: one that scores a run anew came later than its answers."""
        return self.rescored_at or self.finished_at


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherKey:
    """The runs of a model under one comparability key: the JSON of its fields, how many, and from when to when."""

    key: str
    fields: str
    runs: int
    first: str
    last: str


def as_stored(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """The column as the driver gives it: SQLAlchemy's own conversions fail on, or hide, what is not of its type."""
    return sa.type_coerce(column, sa.types.NullType()).label(column.key)


_RUN_FIELDS = tuple(field.name for field in fields(RunRow))
_SERIES_FIELDS = tuple(field.name for field in fields(SeriesRow))
_ACT_FIELDS = tuple(field.name for field in fields(Act) if field.name != "format")

RUN_COLUMNS = tuple(as_stored(runs_table.c[name]) for name in _RUN_FIELDS)
SERIES_COLUMNS = tuple(as_stored(runs_table.c[name]) for name in _SERIES_FIELDS)
PAST_COLUMNS = tuple(as_stored(runs_table.c[name]) for name in PastRow._fields)
ACT_COLUMNS = tuple(as_stored(acts_table.c[name]) for name in _ACT_FIELDS)


def run_rows(rows: Iterable[Sequence[Any]]) -> tuple[RunRow, ...]:
    """Rows of RUN_COLUMNS. Raises BrokenRowError."""
    return tuple(RunRow(**_run(dict(zip(_RUN_FIELDS, row, strict=True)))) for row in rows)


def series_row(row: Sequence[Any]) -> SeriesRow:
    """A row of SERIES_COLUMNS. Raises BrokenRowError."""
    return SeriesRow(**_run(dict(zip(_SERIES_FIELDS, row, strict=True))))


def past_row(row: Sequence[Any]) -> PastRow:
    """A row of PAST_COLUMNS. Raises BrokenRowError."""
    values = dict(zip(PastRow._fields, row, strict=True))
    _check("runs", "run_id", values, _RUN_CHECKS)
    _check_answers(values)
    return PastRow._make(row)._replace(measured=bool(values["measured"]))


def act(row: Sequence[Any]) -> Act:
    """A row of ACT_COLUMNS. Raises BrokenRowError."""
    values = dict(zip(_ACT_FIELDS, row, strict=True))
    _check("acts", "act_id", values, _ACT_CHECKS)
    return Act(**values | {"kind": ActKind(values["kind"])})


def other_key(row: Sequence[Any]) -> OtherKey:
    """Key, its fields, how many runs, when the first and the last were finished. Raises BrokenRowError."""
    key, key_fields, runs, first, last = row
    checked_object("keys", key, key_fields, column="fields")
    for moment in (first, last):
        if not _is_moment(moment):
            raise BrokenRowError(f"a run under key {_shown(key)} has finished_at {_shown(moment)}")
    return OtherKey(key=key, fields=key_fields, runs=runs, first=first, last=last)


def checked_objects(table: str, rows: Iterable[Sequence[Any]], *, column: str) -> dict[str, str]:
    """Names and the JSON objects kept under them. Raises BrokenRowError."""
    return {name: checked_object(table, name, text, column=column) for name, text in rows}


def checked_object(table: str, name: object, text: object, *, column: str) -> str:
    """The text, which is a JSON object. Raises BrokenRowError."""
    if not _is_text(name):
        raise BrokenRowError(f"a row of {table} is named {_shown(name)}")
    try:
        is_object = isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise BrokenRowError(f"{table} {_shown(name)} has {column} {_shown(text)}, which is no JSON object")
    return str(text)


def checked_moments(rows: Iterable[Sequence[Any]]) -> dict[str, str]:
    """Run ids and when something became of each. Raises BrokenRowError."""
    found: dict[str, str] = {}
    for run_id, moment in rows:
        if not _is_moment(moment):
            raise BrokenRowError(f"a run that supersedes run {_shown(run_id)} has finished_at {_shown(moment)}")
        found[run_id] = moment
    return found


def checked_digest(run: object, value: object) -> str:
    """A digest. Raises BrokenRowError for what is none."""
    if not _is_digest(value):
        raise BrokenRowError(f"{run} has digest {_shown(value)}")
    return str(value)


def _run(values: dict[str, Any]) -> dict[str, Any]:
    _check("runs", "run_id", values, _RUN_CHECKS)
    parts = tuple(values[name] for name in _PARTS)
    if sum(parts) != values["n"]:
        raise BrokenRowError(f"runs {_shown(values['run_id'])} has counts {parts} that are not n {values['n']}")
    if "right" in values:
        _check_answers(values)
    flags = {name: bool(values[name]) for name in ("measured", "simulated")}
    return values | flags | {"outcome": Outcome(values["outcome"])}


def _check(table: str, name: str, values: Mapping[str, Any], checks: Mapping[str, Callable[[Any], bool]]) -> None:
    for column, value in values.items():
        if not checks[column](value):
            raise BrokenRowError(f"{table} {_shown(values[name])} has {column} {_shown(value)}")


def _check_answers(values: Mapping[str, Any]) -> None:
    """One bit a question, as many of them set as are correct; and no more questions than there are."""
    run_id, n, correct, right = (values[name] for name in ("run_id", "n", "correct", "right"))
    if correct + values["lost"] + values["unasked"] > n:
        raise BrokenRowError(f"runs {_shown(run_id)} has more answers than its n {n}")
    if right is None:
        return
    if len(right) != (n + 7) // 8 or int.from_bytes(right, "big").bit_count() != correct:
        raise BrokenRowError(f"runs {_shown(run_id)} has right {_shown(right)}, which is not {correct} of {n} answers")


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # bytes that are no UTF-8
        return False


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_moment(value: object) -> bool:
    return isinstance(value, str) and _MOMENT.fullmatch(value) is not None


def _is_run_id(value: object) -> bool:
    return isinstance(value, str) and RUN_ID_PATTERN.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_QUESTIONS


def _is_flag(value: object) -> bool:
    return isinstance(value, int) and value in (0, 1)


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


_RUN_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "position": _is_count,
    "run_id": _is_run_id,
    "digest": _is_digest,
    "previous": _or_none(_is_text),
    "supersedes": _or_none(_is_text),
    "gate": _or_none(_is_text),
    "build": _or_none(_is_text),
    "measured": _is_flag,
    "simulated": _is_flag,
    "outcome": lambda value: isinstance(value, str) and value in _OUTCOMES,
    "started_at": _is_moment,
    "finished_at": _is_moment,
    "rescored_at": _or_none(_is_moment),
    "right": _or_none(lambda value: isinstance(value, bytes)),
    **dict.fromkeys(("n", *_PARTS), _is_count),
    **dict.fromkeys(
        ("comparability_key", "spec_name", "model", "hw", "engine", "protocol", "dataset", "reason_code", "path"),
        _is_text,
    ),
}
_ACT_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "act_id": _is_text,
    "kind": lambda value: isinstance(value, str) and value in _KINDS,
    "target": _is_text,
    "after": _or_none(_is_text),
    "reason": _is_text,
    "made_at": _is_moment,
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
