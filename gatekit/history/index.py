"""The index over the run records: insert-only, rebuildable from the records, one code for both databases.

SQLAlchemy is imported by this room alone; callers import this module inside the function that needs it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa

from gatekit.errors import ConfigError, InfraError
from gatekit.history.acts import Quarantine, act_path, quarantined_runs
from gatekit.history.arrivals import (
    Arrival,
    Kind,
    append_arrivals,
    are_noted,
    noted_lines,
    read_arrivals,
    unnoted,
    write_arrivals,
)
from gatekit.history.database import LOCK_LIMIT_S, reading, writing, written
from gatekit.history.durable_files import is_there
from gatekit.history.lineage import Copy, copies_of, copies_under, since
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import resume_command, taken_hint
from gatekit.history.records_folder import RUN_ID_PATTERN, record_path, unfinished_runs
from gatekit.history.run_row import NewRow, RunRow, SeriesRow, run_row, storable
from gatekit.history.stored_rows import ACT_COLUMNS as _ACT_COLUMNS
from gatekit.history.stored_rows import PAST_COLUMNS as _PAST_COLUMNS
from gatekit.history.stored_rows import (
    RUN_COLUMNS,
    SERIES_COLUMNS,
    as_stored,
    checked_digest,
    checked_moments,
    checked_objects,
    other_key,
    past_row,
    run_rows,
    series_row,
)
from gatekit.history.stored_rows import OtherKey as OtherKey
from gatekit.history.stored_rows import PastRow as PastRow
from gatekit.history.stored_rows import act as stored_act
from gatekit.history.tables import acts as acts_table
from gatekit.history.tables import gates as gates_table
from gatekit.history.tables import keys as keys_table
from gatekit.history.tables import runs as runs_table
from gatekit.records.act import Act, ActKind
from gatekit.records.canonical import digest, to_plain
from gatekit.records.run import RunRecord, record_to_plain

_NEAREST = 5
_NEAR = 0.6
_IDS_SEARCHED = 1000
_ROWS_AT_ONCE = 50_000
_NAMES_AT_ONCE = 500
_MANY = 1000
_KEYS_AT_ONCE = 100
_LONGEST_ID = 128
_LAST = "\U0010ffff"  # no run id has a character behind it


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What came of adding rows: how many were new, how many were there, one line per run id that is taken."""

    added: int
    known: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySeries:
    """Every run under one key, oldest first, with the JSON of the key's fields and, by its digest, of every gate.

    `superseded` says of those that a later record replaces since when there is one; `copies` are those that do.
    """

    key: str
    fields: str
    rows: tuple[PastRow, ...]
    superseded: Mapping[str, str]
    copies: Mapping[str, Copy]
    gates: Mapping[str, str]


def prepare(place: Place) -> None:
    """Make the index of a new history, or raise InfraError unless the one that is there can be used.

    Once it is made before the first record is written, records without an index mean a lost index.
    """
    are_noted(place)  # what could not be noted at the end of a run is told at its start
    with reading(place):
        pass
    with writing(place):
        pass


def add(place: Place, record: RunRecord, *, limit_s: float = LOCK_LIMIT_S) -> bool:
    """Put a record into the index: True when it is new, False when it was there.

    Raises InfraError when the run id is taken by another digest, when another process holds the lock for longer
    than `limit_s`, and when the database is no index of this gatekit; it is unchanged then.
    """
    plain = record_to_plain(record)
    row = run_row(record, plain["digest"], gate_section=plain["spec"]["gate"])
    return written(place, lambda connection: insert(connection, place, row), limit_s=limit_s)


def add_many(place: Place, rows: Iterable[NewRow], *, limit_s: float = LOCK_LIMIT_S) -> Added:
    """Put rows into the index in their order, those that it misses; a run id that is taken is a problem, no error.

    Some ten thousand in one transaction. Raises InfraError when the index cannot be used.
    """
    added = known = 0
    problems: list[str] = []
    todo = iter(rows)
    while batch := list(islice(todo, _ROWS_AT_ONCE)):
        done = written(place, partial(_insert_many, place=place, rows=batch), limit_s=limit_s)
        added, known = added + done.added, known + done.known
        problems.extend(done.problems)
    return Added(added=added, known=known, problems=tuple(problems))


def add_act(place: Place, act: Act, act_digest: str | None = None, *, limit_s: float = LOCK_LIMIT_S) -> bool:
    """Put an act, whose content has this digest, into the index: True when it is new. Raises InfraError as `add`."""
    known_digest = digest(to_plain(act)) if act_digest is None else act_digest
    return written(place, lambda connection: _insert_act(connection, place, act, known_digest), limit_s=limit_s)


def insert(connection: sa.Connection, place: Place, row: NewRow) -> bool:
    """Put a row into the index, in the caller's transaction, and note its arrival: True when it is new.

    Raises InfraError when its run id is taken by another digest.
    """
    there = known_run(connection, row.run_id)
    if there is None:
        _insert_new(connection, [row])
        _note(connection, place, [_run_arrival(row)])
    elif there.digest != row.digest:
        raise InfraError(_taken(row, there.digest), reason="run-id-taken", hint=taken_hint(place))
    return there is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the index holds of a run id."""

    digest: str
    previous: str | None


def known_run(connection: sa.Connection, run_id: str) -> Known | None:
    """The digest under which a run id is in the index, and the run before it; None where it is not."""
    columns = runs_table.c
    query = sa.select(as_stored(columns.digest), as_stored(columns.previous)).where(columns.run_id == run_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    where = f"runs {run_id!r}"
    return Known(digest=checked_digest(where, row[0]), previous=None if row[1] is None else str(row[1]))


def head(connection: sa.Connection, key: str) -> str | None:
    """The digest of the run that was added last under a comparability key."""
    query = sa.select(as_stored(runs_table.c.digest)).where(runs_table.c.comparability_key == storable(key))
    found = connection.execute(query.order_by(runs_table.c.position.desc()).limit(1)).one_or_none()
    return None if found is None else checked_digest(f"the last run under key {key}", found[0])


def list_runs(
    place: Place, *, limit: int, spec_name: str | None = None, model: str | None = None
) -> tuple[RunRow, ...]:
    """The runs that were added last, newest first, optionally of one spec or model."""
    query = sa.select(*RUN_COLUMNS).order_by(runs_table.c.position.desc()).limit(limit)
    if spec_name is not None:
        query = query.where(runs_table.c.spec_name == storable(spec_name))
    if model is not None:
        query = query.where(runs_table.c.model == storable(model))
    return _read(place, query, run_rows)


def find(place: Place, run_id: str) -> RunRow:
    """The run with this id, or the only one whose id starts so. Raises ConfigError naming the nearest ids."""
    prefix, name = storable(run_id), runs_table.c.run_id
    with reading(place) as connection:
        if connection is None or not prefix:
            rows: tuple[RunRow, ...] = ()
        else:
            exact = sa.select(*RUN_COLUMNS).where(name == prefix)
            starts_so = sa.select(*RUN_COLUMNS).where(name > prefix, name < prefix + _LAST)
            found = connection.execute(exact).all()
            rows = run_rows(found or connection.execute(starts_so.order_by(name.desc()).limit(_NEAREST + 1)).all())
    if len(rows) == 1:
        return rows[0]
    shown = repr(prefix if len(prefix) <= _LONGEST_ID else f"{prefix[:_LONGEST_ID]}...")
    if rows:
        ids = [row.run_id for row in rows[:_NEAREST]] + ["..."] * (len(rows) > _NEAREST)
        raise ConfigError.one(f"run {shown} is ambiguous", reason="ambiguous-run", hint=f"it begins: {', '.join(ids)}")
    _refuse_unfinished(place, prefix)
    raise ConfigError.one(f"no run {shown} in {place.shown}", reason="unknown-run", hint=_nearest_hint(place, prefix))


def _refuse_unfinished(place: Place, prefix: str) -> None:
    """Raise ConfigError where the run that is meant has no record yet."""
    meant = [run_id for run_id in unfinished_runs(place.dir) if prefix and run_id.startswith(prefix)]
    if prefix in meant or len(meant) == 1:
        run_id = prefix if prefix in meant else meant[0]
        what = f"run {run_id} has no verdict yet: it is going on, or was cut off"
        hint = f"`{resume_command(place, run_id)}` goes on with it"
        raise ConfigError.one(what, reason="run-unfinished", hint=hint)


def comparable(place: Place, key: str, *, exclude_run_id: str | None = None) -> tuple[RunRow, ...]:
    """The measured runs under this comparability key, oldest first; a run never votes on itself.

    Measured means every planned question asked, none lost, and the outcome not INFRA.
    """
    query = sa.select(*RUN_COLUMNS).where(runs_table.c.measured, runs_table.c.comparability_key == storable(key))
    if exclude_run_id is not None:
        query = query.where(runs_table.c.run_id != storable(exclude_run_id))
    return _read(place, query.order_by(runs_table.c.position), run_rows)


def series(place: Place, *, key: str, limit: int | None = None) -> tuple[SeriesRow, ...]:
    """The runs under a key in order of arrival, whatever became of them; with `limit` the last ones."""
    query = sa.select(*SERIES_COLUMNS).where(runs_table.c.comparability_key == storable(key))
    newest_first = query.order_by(runs_table.c.position.desc()).limit(limit)
    return _read(place, newest_first, lambda rows: tuple(map(series_row, rows)))[::-1]


def past_rows(connection: sa.Connection, key: str) -> tuple[PastRow, ...]:
    """Every run under a key in order of arrival, in the caller's transaction."""
    query = sa.select(*_PAST_COLUMNS).where(runs_table.c.comparability_key == storable(key))
    return tuple(map(past_row, connection.execute(query.order_by(runs_table.c.position)).all()))


def superseded(connection: sa.Connection, key: str) -> Mapping[str, str]:
    """The runs under a key that a later record replaces: their ids, and since when there is such a record."""
    return _superseded_between(connection, storable(key), storable(key))


def other_keys(place: Place, *, model: str, key: str) -> tuple[OtherKey, ...]:
    """The other comparability keys of a model's runs, the one that was used last first."""
    with reading(place) as connection:
        return () if connection is None else other_keys_of(connection, model=model, key=key)


def other_keys_of(connection: sa.Connection, *, model: str, key: str) -> tuple[OtherKey, ...]:
    """As `other_keys`, in the caller's transaction."""
    found = connection.execute(_other_keys(), {"wanted_model": storable(model), "own_key": storable(key)})
    return tuple(map(other_key, found.all()))


def count_by_key(place: Place, spec_name: str) -> Mapping[str, int]:
    """How many measured runs of a spec there are under each comparability key, oldest key first."""
    query = (
        sa.select(runs_table.c.comparability_key, sa.func.count())
        .where(runs_table.c.measured, runs_table.c.spec_name == storable(spec_name))
        .group_by(runs_table.c.comparability_key)
        .order_by(sa.func.min(runs_table.c.position))
    )
    return {str(key): number for key, number in _select(place, query)}


def all_keys(place: Place, *, after: str = "", until: str | None = None) -> Iterator[KeySeries]:
    """Every series, by comparability key, a few in memory at a time and in short transactions.

    With `after` and `until` those of the keys above the one, up to the other, in the database's order. A long
    reader would keep writers of a SQLite file waiting. What is added meanwhile may or may not be seen.
    """
    while True:
        with reading(place) as connection:
            found = [] if connection is None else _next_keys(connection, after, until)
        if not found:
            return
        yield from found
        after = found[-1].key


def one_key(place: Place, key: str) -> KeySeries | None:
    """The series of one comparability key; None where the history holds none."""
    wanted = sa.select(keys_table).where(keys_table.c.key == storable(key))
    with reading(place) as connection:
        if connection is None:
            return None
        found = checked_objects("keys", connection.execute(wanted).all(), column="fields")
        return next(iter(_key_series(connection, found)), None)


def gate_sections(place: Place) -> tuple[str, ...]:
    """The JSON of every gate section that a run of the history had, each once, in no order that means anything."""
    query = sa.select(gates_table).order_by(gates_table.c.digest)
    with reading(place) as connection:
        if connection is None:
            return ()
        return tuple(checked_objects("gates", connection.execute(query).all(), column="gate").values())


def acts(place: Place) -> tuple[Act, ...]:
    """Every act, in order of arrival."""
    with reading(place) as connection:
        return () if connection is None else acts_of(connection)


def acts_of(connection: sa.Connection) -> tuple[Act, ...]:
    """As `acts`, in the caller's transaction."""
    query = sa.select(*_ACT_COLUMNS).order_by(acts_table.c.position)
    return tuple(map(stored_act, connection.execute(query).all()))


def quarantined(place: Place) -> frozenset[str]:
    """The runs that do not count, and every copy of their answers."""
    with reading(place) as connection:
        if connection is None:
            return frozenset()
        named = quarantined_runs(acts_of(connection))
        return named | copies_of(connection, named).keys()


def quarantine_of(place: Place, run_id: str) -> Quarantine | None:
    """Why a run does not count: what was decided about it, or about a run of whose answers it is a copy."""
    with reading(place) as connection:
        made = () if connection is None else acts_of(connection)
        named = quarantined_runs(made)
        if connection is None or not named:
            return None
        target = run_id if run_id in named else copies_of(connection, named).get(run_id)
    decisions = [one for one in made if one.target == target and one.kind is ActKind.QUARANTINE]
    return Quarantine(run_id=run_id, act=decisions[-1]) if decisions else None


def copies(place: Place, run_id: str) -> tuple[RunRow, ...]:
    """The runs that read the answers of a run again, and those that read theirs, in order of arrival."""
    with reading(place) as connection:
        found = {} if connection is None else copies_of(connection, [run_id])
    if not found:
        return ()
    query = sa.select(*RUN_COLUMNS).where(runs_table.c.run_id.in_(found)).order_by(runs_table.c.position)
    return _read(place, query, run_rows)


def known_digests(place: Place) -> Mapping[str, str]:
    """The digest of every run in the index, by run id."""
    return dict(map(tuple, _select(place, sa.select(runs_table.c.run_id, runs_table.c.digest))))


def digests_of(place: Place, run_ids: Sequence[str]) -> Mapping[str, str]:
    """The digests of these runs, those that the index holds, by run id."""
    with reading(place) as connection:
        found = {} if connection is None else _digests_of(connection, run_ids)
    return {run_id: known for run_id, known in found.items() if known is not None}


def act_digests(place: Place) -> Mapping[str, str]:
    """The digest of every act in the index, by act id."""
    return dict(map(tuple, _select(place, sa.select(acts_table.c.act_id, acts_table.c.digest))))


_ACT_FIELDS = tuple(field.name for field in fields(Act) if field.name != "format")
_SERIES_FIELDS = tuple(field.name for field in fields(SeriesRow))


def _next_keys(connection: sa.Connection, after: str, until: str | None) -> list[KeySeries]:
    wanted = sa.select(keys_table).where(keys_table.c.key > after).order_by(keys_table.c.key).limit(_KEYS_AT_ONCE)
    wanted = wanted if until is None else wanted.where(keys_table.c.key <= until)
    return _key_series(connection, checked_objects("keys", connection.execute(wanted).all(), column="fields"))


def _key_series(connection: sa.Connection, found: dict[str, str]) -> list[KeySeries]:
    """The series of these keys, which follow upon one another in the database's order."""
    columns = runs_table.c
    if not found:
        return []
    low, high = next(iter(found)), next(reversed(found))  # by the database's order, which may not be Python's
    query = sa.select(columns.comparability_key, *_PAST_COLUMNS)
    query = query.where(columns.comparability_key >= low, columns.comparability_key <= high)
    rows = connection.execute(query.order_by(columns.comparability_key, columns.position)).all()
    by_key = {key: tuple(past_row(row[1:]) for row in group) for key, group in groupby(rows, key=itemgetter(0))}
    gates = _gate_sections(connection, {row.gate for group in by_key.values() for row in group})
    replaced = _superseded_between(connection, low, high)
    copies = copies_under(connection, low, high)
    return [
        KeySeries(
            key=key,
            fields=key_fields,
            rows=by_key.get(key, ()),
            superseded=replaced,
            copies=copies,
            gates=gates,
        )
        for key, key_fields in found.items()
    ]


@cache
def _other_keys() -> sa.Select[*tuple[Any, ...]]:
    columns = runs_table.c
    position = columns.position
    ends = (
        sa.select(
            columns.comparability_key,
            sa.func.count().label("runs"),
            sa.func.min(position).label("first"),
            sa.func.max(position).label("last"),
        )
        .where(columns.model == sa.bindparam("wanted_model"), columns.comparability_key != sa.bindparam("own_key"))
        .group_by(columns.comparability_key)
        .subquery()
    )
    first, last = runs_table.alias("first_run"), runs_table.alias("last_run")
    return (
        sa.select(keys_table.c.key, keys_table.c.fields, ends.c.runs, since(first), since(last))
        .join_from(ends, keys_table, keys_table.c.key == ends.c.comparability_key)
        .join(first, first.c.position == ends.c.first)
        .join(last, last.c.position == ends.c.last)
        .order_by(ends.c.last.desc())
    )


def _superseded_between(connection: sa.Connection, low: str, high: str) -> Mapping[str, str]:
    return checked_moments(connection.execute(_superseded(), {"low": low, "high": high}).all())


@cache
def _superseded() -> sa.Select[*tuple[Any, ...]]:
    old = runs_table.alias("old")
    return (
        sa.select(old.c.run_id, sa.func.min(since(runs_table)))
        .join_from(runs_table, old, runs_table.c.supersedes == old.c.run_id)
        .where(runs_table.c.supersedes.is_not(None))
        .where(old.c.comparability_key >= sa.bindparam("low"), old.c.comparability_key <= sa.bindparam("high"))
        .group_by(old.c.run_id)
    )


def _gate_sections(connection: sa.Connection, digests: Iterable[str | None]) -> Mapping[str, str]:
    wanted = [one for one in digests if one is not None]
    query = sa.select(gates_table).where(gates_table.c.digest.in_(wanted))
    return checked_objects("gates", connection.execute(query).all(), column="gate")


def note_order(place: Place) -> None:
    """Write down in which order everything came into the index, where an older gatekit did not, or it was lost.

    As any write it seals a SQLite file whose seal is gone. Raises InfraError when the index cannot be used.
    """
    with reading(place) as connection:
        if connection is None:
            return
    with writing(place) as connection:
        if not are_noted(place):
            _note_all(connection, place)


def _run_arrival(row: NewRow) -> Arrival:
    return Arrival(kind=Kind.RUN, id=row.run_id, digest=row.digest)


def _note(connection: sa.Connection, place: Place, arrivals: Sequence[Arrival]) -> None:
    """Note what was inserted last, in the transaction that inserts it."""
    if not are_noted(place):
        _note_all(connection, place)
    elif arrivals:
        append_arrivals(place, arrivals)


def _note_all(connection: sa.Connection, place: Place) -> None:
    """In the order of the index. What other machines added to it is theirs to note."""
    runs = sa.select(*map(as_stored, (runs_table.c.run_id, runs_table.c.digest))).order_by(runs_table.c.position)
    acts = sa.select(*map(as_stored, (acts_table.c.act_id, acts_table.c.digest))).order_by(acts_table.c.position)
    found = [Arrival(kind=Kind.RUN, id=str(name), digest=str(its)) for name, its in connection.execute(runs)]
    found += [Arrival(kind=Kind.ACT, id=str(name), digest=str(its)) for name, its in connection.execute(acts)]
    write_arrivals(place, (one for one in found if place.url is None or _is_here(place, one)))


def _is_here(place: Place, arrival: Arrival) -> bool:
    if arrival.kind is Kind.ACT:
        return is_there(act_path(place, arrival.id))
    return RUN_ID_PATTERN.fullmatch(arrival.id) is not None and is_there(record_path(place.dir, arrival.id))


def _rows_noted(connection: sa.Connection) -> int:
    """How many lines a file has that has one for each row."""
    counts = (sa.select(sa.func.count()).select_from(table) for table in (runs_table, acts_table))
    return sum(connection.scalar(count) or 0 for count in counts)


def _insert_many(connection: sa.Connection, place: Place, rows: Sequence[NewRow]) -> Added:
    digests = _digests_of(connection, [row.run_id for row in rows])
    news: list[NewRow] = []
    problems = []
    for row in rows:
        there = digests.setdefault(row.run_id, None)
        if there is None:
            digests[row.run_id] = row.digest
            news.append(row)
        elif there != row.digest:
            problems.append(_taken(row, there))
    before = partial(_names, connection, runs_table.c.run_id)
    arrivals = [_run_arrival(row) for row in news]
    # With a line for each row there is none of a row that is missing, and a large file need not be parsed.
    if noted_lines(place) != _rows_noted(connection):
        arrivals = unnoted(arrivals, read_arrivals(place).runs, before)
    _insert_new(connection, news)
    _note(connection, place, arrivals)
    if len(news) >= _MANY and connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE runs, keys")  # or the planner reads every run until autovacuum comes by
    return Added(added=len(news), known=len(rows) - len(news) - len(problems), problems=tuple(problems))


def _names(connection: sa.Connection, column: sa.ColumnElement[str]) -> list[str]:
    return list(connection.scalars(sa.select(as_stored(column))))


def _digests_of(connection: sa.Connection, run_ids: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for start in range(0, len(run_ids), _NAMES_AT_ONCE):
        names = run_ids[start : start + _NAMES_AT_ONCE]
        query = sa.select(runs_table.c.run_id, runs_table.c.digest).where(runs_table.c.run_id.in_(names))
        found |= dict(map(tuple, connection.execute(query)))
    return found


def _insert_new(connection: sa.Connection, rows: Sequence[NewRow]) -> None:
    if not rows:
        return
    _insert_missing(connection, keys_table, {row.comparability_key: row.key_fields for row in rows})
    gates = {row.gate: row.gate_section for row in rows if row.gate is not None}
    _insert_missing(connection, gates_table, gates)
    connection.execute(sa.insert(runs_table), [_plain_row(row) for row in rows])


def _plain_row(row: NewRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _SERIES_FIELDS} | {"outcome": row.outcome.value}


def _insert_missing(connection: sa.Connection, table: sa.Table, texts: Mapping[str, str | None]) -> None:
    name, value = table.columns
    names = list(texts)
    for start in range(0, len(names), _NAMES_AT_ONCE):
        some = names[start : start + _NAMES_AT_ONCE]
        there = set(connection.scalars(sa.select(name).where(name.in_(some))))
        news = [{name.name: one, value.name: texts[one]} for one in some if one not in there]
        if news:
            connection.execute(sa.insert(table), news)


def _insert_act(connection: sa.Connection, place: Place, act: Act, act_digest: str) -> bool:
    there = connection.scalar(sa.select(acts_table.c.digest).where(acts_table.c.act_id == act.act_id))
    if there is None:
        plain = {name: None if getattr(act, name) is None else storable(getattr(act, name)) for name in _ACT_FIELDS}
        arrival = Arrival(kind=Kind.ACT, id=act.act_id, digest=act_digest)
        before = partial(_names, connection, acts_table.c.act_id)
        arrivals = unnoted([arrival], read_arrivals(place).acts, before)
        connection.execute(sa.insert(acts_table), plain | {"digest": act_digest})
        _note(connection, place, arrivals)
    elif there != act_digest:
        what = f"the index already holds act {act.act_id} as {there}, not {act_digest}; an act is never changed"
        raise InfraError(what, reason="act-id-taken", hint="try again in a second")
    return there is None


def _taken(row: NewRow, there: str) -> str:
    return f"the index already holds run {row.run_id} as {there}, not {row.digest}; a run is never changed"


def _select(place: Place, query: sa.Select[*tuple[Any, ...]]) -> list[sa.Row[*tuple[Any, ...]]]:
    with reading(place) as connection:
        return [] if connection is None else list(connection.execute(query))


def _read(
    place: Place,
    query: sa.Select[*tuple[Any, ...]],
    checked: Callable[[Iterable[sa.Row[*tuple[Any, ...]]]], tuple[T, ...]],
) -> tuple[T, ...]:
    """The rows as `checked` makes them, inside of the transaction: what is wrong with one is told of this place."""
    with reading(place) as connection:
        return () if connection is None else checked(connection.execute(query).all())


def _nearest_hint(place: Place, run_id: str) -> str:
    ids = [row.run_id for row in list_runs(place, limit=_IDS_SEARCHED)]
    nearest = difflib.get_close_matches(run_id, ids, n=_NEAREST, cutoff=_NEAR)
    shown = nearest or ids[:_NEAREST]
    return f"{'nearest' if nearest else 'newest'}: {', '.join(shown)}" if shown else "it holds no runs yet"
