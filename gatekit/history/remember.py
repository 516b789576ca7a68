"""Remembering a run: the record file, because it is the truth, chained to the one before; and the index, which can
be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.errors import InfraError
from gatekit.history.acts import act_paths, read_act
from gatekit.history.chain import in_order
from gatekit.history.network_mount import storage_warnings
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import sync_hint
from gatekit.history.records_folder import check_writable, read_stored, record_path, record_paths, write_record
from gatekit.history.run_row import NewRow, run_row
from gatekit.records.run import RunRecord, record_to_plain

if TYPE_CHECKING:
    import sqlalchemy as sa

LOCK_LIMIT_S = 60.0
"""How long a lock of another process is waited for before a record is kept without the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild did: records added to the index, records that were in it, one line per problem."""

    added: int
    known: int
    problems: tuple[str, ...]


def check_ready(place: Place) -> tuple[str, ...]:
    """Raise InfraError unless a run can be remembered here; makes the folder and the index if missing.

    Gives the warnings that every run here should carry.
    """
    from gatekit.history import index

    check_writable(place.dir)
    warnings = storage_warnings(place)
    index.prepare(place)
    return warnings


def remember(place: Place, record: RunRecord, *, limit_s: float = LOCK_LIMIT_S) -> tuple[Path, RunRecord]:
    """The file that now holds the record, which is also in the index, and the record as it is stored: with the
    digest of the run before it in its series. The same record again changes nothing.

    Raises InfraError when the record cannot be written, and when only the index failed: the record is kept then,
    chained to none, and the hint says where and how it gets into the index.
    """
    from gatekit.history.database import written

    try:
        return written(place, lambda connection: _store(connection, place, record), limit_s=limit_s)
    except _NotWrittenError as error:
        raise error.why from error
    except InfraError as error:
        path, _ = _write(place, record, record.previous)
        way = "" if error.reason == "run-id-taken" else f", and {sync_hint(place)}"
        hint = f"the record itself is kept in {path}{way}; {error.hint}"
        raise InfraError(error.message, reason=error.reason, hint=hint) from error


class _NotWrittenError(Exception):
    """The record file itself could not be written: there is nothing to keep."""

    def __init__(self, why: InfraError) -> None:
        super().__init__(why.message)
        self.why = why


def _store(connection: sa.Connection, place: Place, record: RunRecord) -> tuple[Path, RunRecord]:
    """In a transaction that is alone, so that no other run takes the same place in the chain."""
    from gatekit.history import index

    known = index.known_run(connection, record.run_id)
    previous = index.head(connection, record.comparability.key) if known is None else known.previous
    try:
        path, stored = _write(place, record, previous)
    except InfraError as error:
        raise _NotWrittenError(error) from error
    index.insert(connection, run_row(stored, record_to_plain(stored)["digest"]))
    return path, stored


def _write(place: Place, record: RunRecord, previous: str | None) -> tuple[Path, RunRecord]:
    """The file of the record, chained as it was when it was written first."""
    path = record_path(place.dir, record.run_id)
    if path.exists():
        previous = read_stored(path).record.previous
    stored = replace(record, previous=previous)
    return write_record(place.dir, stored), stored


def sync(place: Place) -> Rebuilt:
    """Add the records and acts that the index misses, in the order of their chains; those that it has are not read.

    A record that cannot be read or added is a problem, never skipped in silence. Raises InfraError when the index
    itself cannot be used.
    """
    from gatekit.history import index

    known = index.known_digests(place)
    paths = [path for path in record_paths(place.dir) if path.parent.name not in known]
    acts_known = index.act_digests(place)
    acts = [path for path in act_paths(place) if path.stem not in acts_known]
    return _added(place, paths, acts, known=len(known))


def rebuild(place: Place) -> Rebuilt:
    """Check every record and act, and add those that the index misses: in the order of their chains, and where no
    chain says it in the order in which the runs finished.

    The order of runs that are in the index stays. Problems and errors are those of `sync`.
    """
    return _added(place, list(record_paths(place.dir)), list(act_paths(place)))


def _added(place: Place, records: list[Path], acts: list[Path], *, known: int = 0) -> Rebuilt:
    from gatekit.history import index

    problems: list[str] = []
    rows = list(_rows(records, problems))
    if rows:
        done = index.add_many(place, in_order(rows))
        problems.extend(done.problems)
        added, known = done.added, known + done.known
    else:
        added = 0
    _add_acts(place, acts, problems)
    return Rebuilt(added=added, known=known, problems=tuple(problems))


def _rows(paths: list[Path], problems: list[str]) -> Iterator[NewRow]:
    for path in paths:
        try:
            stored = read_stored(path)
        except InfraError as error:
            problems.extend(error.lines())
            continue
        if path.parent.name == stored.record.run_id:
            yield run_row(stored.record, stored.digest, gate_section=stored.plain["spec"]["gate"])
        else:
            problems.append(f"{path} is the record of run {stored.record.run_id}, in the folder of another run")


def _add_acts(place: Place, paths: list[Path], problems: list[str]) -> None:
    from gatekit.history import index

    for path in paths:
        try:
            stored = read_act(path)
        except InfraError as error:
            problems.extend(error.lines())
            continue
        try:
            index.add_act(place, stored.act, stored.digest)
        except InfraError as error:
            if error.reason != "act-id-taken":
                raise
            problems.extend(error.lines())
