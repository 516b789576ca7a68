"""Remembering a run: the record file, because it is the truth, chained to the one before; and the index, which can
be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.errors import GatekitError, InfraError
from gatekit.history.acts import act_paths, read_act
from gatekit.history.arrivals import Arrivals, Noted, damage, read_arrivals, renewal_hint
from gatekit.history.chain import in_order
from gatekit.history.durable_files import is_there
from gatekit.history.leftovers import remove_leftovers
from gatekit.history.network_mount import storage_warnings
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import sync_hint, taken_hint
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

    Raises KeptError when only the index failed: the record is in its file then, and the hint says how it gets into
    the index. Raises InfraError when there is no such file.
    """
    from gatekit.history.database import written

    try:
        return written(place, lambda connection: _store(connection, place, record), limit_s=limit_s)
    except _NotWrittenError as error:
        raise _as_it_is(place, record, error.why) from error
    except GatekitError as error:
        raise _kept(place, record, error) from error
    except Exception:
        with suppress(GatekitError):  # whatever went wrong, answers that were asked for are kept
            _write(place, record, record.previous)
        raise


class KeptError(InfraError):
    """The index failed, and the record is kept in the file `path`, as `record`."""

    def __init__(self, path: Path, record: RunRecord, error: GatekitError, *, way: str) -> None:
        also = f"; {error.hint}" if error.hint else ""
        hint = f"the record itself is kept in {path}{way}{also}"
        super().__init__(error.message, reason=error.reason, hint=hint)
        self.path = path
        self.record = record


class _NotWrittenError(Exception):
    """Writing the record file itself failed."""

    def __init__(self, why: InfraError) -> None:
        super().__init__(why.message)
        self.why = why


def _kept(place: Place, record: RunRecord, error: GatekitError) -> InfraError:
    """What to say when the index failed: where the record is now, or that it could not be kept either."""
    try:
        path, stored = _write(place, record, record.previous)
    except InfraError as failed:
        what = f"{failed.message}; before that, {error.message}"
        return InfraError(what, reason=failed.reason, hint=failed.hint)
    is_taken = error.reason == "run-id-taken"
    return KeptError(path, stored, error, way="" if is_taken else f", and {sync_hint(place)}")


def _as_it_is(place: Place, record: RunRecord, why: InfraError) -> InfraError:
    """What to say when writing failed, which it may have done when the file was there."""
    path = record_path(place.dir, record.run_id)
    with suppress(InfraError):
        there = read_stored(path)
        if there.record == replace(record, previous=there.record.previous):
            return KeptError(path, there.record, why, way=f", and {sync_hint(place)}")
    return why


def _store(connection: sa.Connection, place: Place, record: RunRecord) -> tuple[Path, RunRecord]:
    """In a transaction that is alone, so that no other run takes the same place in the chain."""
    from gatekit.history import index

    known = index.known_run(connection, record.run_id)
    previous = index.head(connection, record.comparability.key) if known is None else known.previous
    try:
        path, stored = _write(place, record, previous)
    except InfraError as error:
        raise _NotWrittenError(error) from error
    plain = record_to_plain(stored)
    index.insert(connection, place, run_row(stored, plain["digest"], gate_section=plain["spec"]["gate"]))
    return path, stored


def _write(place: Place, record: RunRecord, previous: str | None) -> tuple[Path, RunRecord]:
    """The file of the record, chained as it was when it was written first. One that is there is not written again:
    a full disk would refuse even its copy."""
    path = record_path(place.dir, record.run_id)
    if is_there(path):
        there = read_stored(path)
        stored = replace(record, previous=there.record.previous)
        if there.digest == record_to_plain(stored)["digest"]:
            return path, stored
        previous = there.record.previous
    stored = replace(record, previous=previous)
    return write_record(place.dir, stored), stored


def sync(place: Place) -> Rebuilt:
    """Add the records and acts that the index misses, in the order of their chains, note the order of arrival where
    it is not noted, and remove what writers that were killed left unfinished; records that came into the index from
    here are not read.

    A record that cannot be read or added is a problem, never skipped in silence: also one whose run id the index
    knows with another digest. Raises InfraError when the index itself cannot be used.
    """
    from gatekit.history import index

    known = index.known_digests(place)
    acts_known = index.act_digests(place)
    noted = read_arrivals(place)
    paths = [path for path in record_paths(place.dir) if not _is_settled(path.parent.name, known, noted.runs)]
    acts = [path for path in act_paths(place) if not _is_settled(path.stem, acts_known, noted.acts)]
    done = _added(place, paths, acts)
    index.note_order(place)
    remove_leftovers(place)
    return replace(done, known=len(known))


def rebuild(place: Place) -> Rebuilt:
    """Check every record and act, and add those that the index misses: in the order of their arrival, and behind them
    those whose arrival nobody noted, in the order of their chains.

    The order of runs that are in the index stays. Problems and errors are those of `sync`.
    """
    from gatekit.history import index

    done = _added(place, list(record_paths(place.dir)), list(act_paths(place)))
    index.note_order(place)
    return done


def _is_settled(name: str, known: Mapping[str, str], noted: Mapping[str, Noted]) -> bool:
    """Whether the index holds what came into it from here. What it holds of another origin is compared."""
    return name in known and name in noted and known[name] == noted[name].digest


def _added(place: Place, records: list[Path], acts: list[Path]) -> Rebuilt:
    from gatekit.history import index

    noted = read_arrivals(place)
    damaged = damage(place, noted)
    problems = [] if damaged is None else [f"the order of arrival is not whole: {damaged}; {renewal_hint(place)}"]
    rows = _in_arrival_order(list(_rows(records, problems)), noted)
    done = index.add_many(place, rows) if rows else index.Added(added=0, known=0, problems=())
    problems.extend(f"{problem}; {taken_hint(place)}" for problem in done.problems)
    _add_acts(place, sorted(acts, key=partial(_act_place, noted)), problems)
    return Rebuilt(added=done.added, known=done.known, problems=tuple(problems))


def _in_arrival_order(rows: Sequence[NewRow], noted: Arrivals) -> list[NewRow]:
    places = {row.run_id: noted.runs[row.run_id].place for row in rows if _is_noted(row, noted)}
    arrived = sorted((row for row in rows if row.run_id in places), key=lambda row: places[row.run_id])
    return [*arrived, *in_order(row for row in rows if row.run_id not in places)]


def _is_noted(row: NewRow, noted: Arrivals) -> bool:
    return row.run_id in noted.runs and noted.runs[row.run_id].digest == row.digest


def _act_place(noted: Arrivals, path: Path) -> tuple[bool, int, str]:
    """Those whose arrival is noted in its order, then the others by the moment in their names."""
    known = noted.acts.get(path.stem)
    return known is None, 0 if known is None else known.place, path.name


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
