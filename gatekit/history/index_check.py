"""Whether the index says what the files say: row by row and column by column, and on SQLite byte by byte."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gatekit.errors import InfraError
from gatekit.history import index, tables
from gatekit.history.acts import StoredAct
from gatekit.history.arrivals import (
    Kind,
    Noted,
    are_noted,
    arrivals_path,
    damage,
    read_arrivals,
    renewal_hint,
)
from gatekit.history.database import reading
from gatekit.history.durable_files import is_there, storage_error
from gatekit.history.findings import Findings
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command, sync_hint
from gatekit.history.run_row import NewRow, SeriesRow, storable
from gatekit.history.seal import SealState, check, seal_path
from gatekit.history.stored_rows import ACT_COLUMNS, SERIES_COLUMNS, BrokenRowError, act, series_row

_ATTEMPTS = 4
_PAUSE_S = 0.25
_SHOWN_CHARACTERS = 60
_SHOWN_IDS = 5
_MOST_PAGE_FAULTS = 3
_COLUMNS = tuple(field.name for field in fields(SeriesRow))
_Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Every row of the index at one moment, as the driver gives it, by the first column that names it."""

    runs: Mapping[str, _Plain]
    acts: Mapping[str, _Plain]
    keys: Mapping[str, _Plain]
    gates: Mapping[str, _Plain]

    @property
    def series(self) -> Mapping[str, str]:
        """The comparability key of each run's digest."""
        return {str(row["digest"]): str(row["comparability_key"]) for row in self.runs.values()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the files hold, by run id and act id; `broken` are the ids whose file is there and cannot be read."""

    rows: Mapping[str, NewRow]
    acts: Mapping[str, StoredAct]
    broken: Set[str]


def snapshot(place: Place) -> Snapshot:
    """The index before any file is read: a file is written before its row, so that each row here has one."""
    with reading(place) as connection:
        return Snapshot(
            runs=_rows(connection, tables.runs, "run_id"),
            acts=_rows(connection, tables.acts, "act_id"),
            keys=_rows(connection, tables.keys, "key"),
            gates=_rows(connection, tables.gates, "digest"),
        )


def check_index(findings: Findings, found: Snapshot, kept: Kept) -> None:
    """Add what the index says otherwise than the files.

    A run that is in the index alone is a finding on SQLite; a PostgreSQL database serves machines with folders of
    their own, where it is a note.
    """
    rows = kept.rows
    expected = {run_id: _expected(row) for run_id, row in rows.items()}
    _check_table(findings, tables.runs, found.runs, expected, kept.broken)
    acts = {act_id: _expected_act(stored) for act_id, stored in kept.acts.items()}
    _check_table(findings, tables.acts, found.acts, acts, kept.broken)
    indexed = [rows[run_id] for run_id in found.runs if run_id in rows]
    keys = {row.comparability_key: {"fields": row.key_fields} for row in indexed}
    _check_shared(findings, tables.keys, found.keys, keys, {row["comparability_key"] for row in found.runs.values()})
    gates = {row.gate: {"gate": row.gate_section} for row in indexed if row.gate is not None}
    _check_shared(findings, tables.gates, found.gates, gates, {row["gate"] for row in found.runs.values()})


def check_order(findings: Findings, found: Snapshot, kept: Kept) -> None:
    """Add where the index and the order of arrival that is kept beside the records do not agree.

    Every row of a file that is here was noted before it was committed; what is noted may be more.
    """
    place = findings.place
    if not are_noted(place):
        if any(name in kept.rows for name in found.runs) or any(name in kept.acts for name in found.acts):
            hint = f"`{history_command(place, 'sync')}` does it"
            findings.notes.append(f"the order of arrival was not written down in {arrivals_path(place)}; {hint}")
        return
    arrivals = read_arrivals(place)
    damaged = damage(place, arrivals)
    if damaged is not None:
        findings.add(arrivals_path(place), damaged, reason="arrivals-damaged", hint=renewal_hint(place))
    for kind, rows, files in ((Kind.RUN, found.runs, kept.rows), (Kind.ACT, found.acts, kept.acts)):
        _check_arrivals(findings, arrivals.of(kind), rows, files)


def _check_arrivals(
    findings: Findings, noted: Mapping[str, Noted], rows: Mapping[str, _Plain], files: Mapping[str, object]
) -> None:
    path, hint = arrivals_path(findings.place), renewal_hint(findings.place)
    known = [name for name, row in rows.items() if name in noted and noted[name].digest == row["digest"]]
    for name in [name for name in files if name in rows and name not in set(known)][:_SHOWN_IDS]:
        findings.add(path, f"{path} does not hold the arrival of {name}", reason="arrival-missing", hint=hint)
    of_index = sorted(known, key=lambda name: rows[name]["position"])
    of_file = sorted(known, key=lambda name: noted[name].place)
    for one, other in zip(of_index, of_file, strict=True):
        if one != other:
            what = f"{path} has {other} where the index has {one}"
            findings.add(path, what, reason="arrivals-differ", hint=hint)
            return


def check_file(findings: Findings) -> None:
    """Add what SQLite finds wrong with its file, and every byte that the last commit did not leave there."""
    path = findings.place.file
    try:
        if not is_there(path):
            return
        with reading(findings.place) as connection:
            faults = [] if connection is None else _page_faults(connection)
        for fault in [fault for fault in faults if fault != "ok"][:_MOST_PAGE_FAULTS]:
            findings.add(path, f"SQLite finds: {fault}", reason="index-damaged", hint=findings.remake)
    except InfraError as error:
        findings.add_error(path, error)
    _check_seal(findings)


def _page_faults(connection: sa.Connection) -> Sequence[str]:
    """The first ones: of a file that was blown up there is one a page."""
    return connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_PAGE_FAULTS})").scalars().all()


def _check_seal(findings: Findings) -> None:
    path = findings.place.file
    try:
        checked = check(path)
    except OSError as error:
        unread = Path(error.filename or path)  # the seal, or the file
        findings.add_error(unread, storage_error("read", unread, error))
        return
    hint = f"`{history_command(findings.place, 'sync')}` seals the file anew"
    if checked.state is SealState.OPEN:
        findings.notes.append(f"{path} is not sealed, so that only its rows were checked: {checked.why}; {hint}")
    elif checked.state is SealState.MISSING:
        findings.add(path, checked.why, reason="seal-missing", hint=f"when nothing else is found, {hint}")
    elif checked.state is SealState.DAMAGED:
        findings.add(seal_path(path), checked.why, reason="seal-damaged", hint=hint)
    elif checked.state is not SealState.INTACT:
        findings.add(path, f"is not what was written: {checked.why}", reason="index-changed", hint=findings.remake)


def _check_table(
    findings: Findings,
    table: sa.Table,
    found: Mapping[str, _Plain],
    expected: Mapping[str, _Plain],
    broken: Set[str],
) -> None:
    for name, row in found.items():
        if name in expected:
            _compare(findings, f"{table.name} {name}", row, expected[name])
    for name in _still_missing(findings.place, table, [name for name in expected if name not in found]):
        what = f"{table.name} {name} is not in the index: its file is whole, and its writer did not come to the end"
        findings.notes.append(f"{what}; {sync_hint(findings.place)}")
    for name, row in found.items():
        if type(row["position"]) is not int:
            what = f"column position is {_shown(row['position'])}, which is no place in an order"
            findings.add(f"{table.name} {name}", what, reason="row-differs", hint=findings.remake)
    strays = [name for name in found if name not in expected and name not in broken]
    _check_forms(findings, table, [found[name] for name in strays])
    _check_strays(findings, table, strays)


def _still_missing(place: Place, table: sa.Table, names: list[str]) -> list[str]:
    """Those that are still not there when whoever writes them now is done."""
    known = index.known_digests if table is tables.runs else index.act_digests
    for _ in range(_ATTEMPTS):
        if names:
            time.sleep(_PAUSE_S)
            there = known(place)
            names = [name for name in names if name not in there]
    return names


def _check_forms(findings: Findings, table: sa.Table, rows: Sequence[_Plain]) -> None:
    """Rows without a file here, whose form alone can be looked at: one that no command could read."""
    columns = SERIES_COLUMNS if table is tables.runs else ACT_COLUMNS
    read: Callable[[Sequence[Any]], object] = series_row if table is tables.runs else act
    for row in rows:
        try:
            read([row[str(column.key)] for column in columns])
        except BrokenRowError as error:
            findings.add(findings.place.shown, str(error), reason="index-row-broken", hint=findings.remake)


def _check_strays(findings: Findings, table: sa.Table, strays: list[str]) -> None:
    if findings.place.url is not None and strays:
        shown = ", ".join(strays[:_SHOWN_IDS]) + (", ..." if len(strays) > _SHOWN_IDS else "")
        findings.notes.append(f"{len(strays)} {table.name} of other machines were not checked: {shown}")
        return
    for one in strays:
        hint = "bring the file back from a copy"
        findings.add(f"{table.name} {one}", "is in the index without a file", reason="file-missing", hint=hint)


def _check_shared(
    findings: Findings,
    table: sa.Table,
    found: Mapping[str, _Plain],
    expected: Mapping[str, _Plain],
    named: Set[object],
) -> None:
    """Texts that are kept once: each as its runs say it, none missing, none that no run names."""
    for name, row in found.items():
        if name in expected:
            _compare(findings, f"{table.name} {name}", row, expected[name])
        elif name not in named:
            what = "is in the index, but no run names it"
            findings.add(f"{table.name} {name}", what, reason="row-differs", hint=findings.remake)
    for name in sorted(expected.keys() - found.keys()):
        findings.add(f"{table.name} {name}", "is not in the index", reason="row-missing", hint=findings.remake)


def _compare(findings: Findings, where: str, row: _Plain, known: _Plain) -> None:
    for column, value in known.items():
        # A number in the place of a text, or one that is no whole number, must not pass for equal.
        if row[column] != value or _kind(row[column]) is not _kind(value):
            what = f"column {column} is {_shown(row[column])}, its file says {_shown(value)}"
            findings.add(where, what, reason="row-differs", hint=findings.remake)


def _kind(value: object) -> type:
    """Its type, true being a number: SQLite has no other."""
    return int if isinstance(value, int) else type(value)


def _rows(connection: sa.Connection | None, table: sa.Table, name: str) -> dict[str, _Plain]:
    if connection is None:
        return {}
    raw = [sa.type_coerce(column, sa.types.NullType()).label(column.name) for column in table.columns]
    return {str(row[name]): dict(row) for row in connection.execute(sa.select(*raw)).mappings()}


def _expected(row: NewRow) -> _Plain:
    known = asdict(row)
    return {name: known[name] for name in _COLUMNS} | {"outcome": row.outcome.value}


def _expected_act(stored: StoredAct) -> _Plain:
    act = stored.act
    after = None if act.after is None else storable(act.after)
    return {
        "digest": stored.digest,
        "kind": act.kind.value,
        "target": storable(act.target),
        "after": after,
        "reason": storable(act.reason),
        "made_at": storable(act.made_at),
    }


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARACTERS]
