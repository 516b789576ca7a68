"""The index over the run records: insert-only, rebuildable from the records, one code for both databases.

SQLAlchemy is imported by this room alone; callers import this module inside the function that needs it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from gatekit.errors import ConfigError, InfraError
from gatekit.history.database import LOCK_LIMIT_S, reading, writing, written
from gatekit.history.place import Place
from gatekit.history.run_row import NewRow, RunRow, SeriesRow, run_row, storable
from gatekit.history.tables import ROW_COLUMNS, SERIES_COLUMNS
from gatekit.history.tables import acts as acts_table
from gatekit.history.tables import gates as gates_table
from gatekit.history.tables import keys as keys_table
from gatekit.history.tables import runs as runs_table
from gatekit.records.act import Act, ActKind
from gatekit.records.canonical import digest, to_plain
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

_NEAREST = 5
_NEAR = 0.6
_IDS_SEARCHED = 1000
_ROWS_AT_ONCE = 50_000
_NAMES_AT_ONCE = 500
_MANY = 1000
_KEYS_AT_ONCE = 100
_LAST = "\U0010ffff"  # no run id has a character behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What came of adding rows: how many were new, how many were there, one line per run id that is taken."""

    added: int
    known: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherKey:
    """The runs of a model under one comparability key: the JSON of its fields, how many, and from when to when."""

    key: str
    fields: str
    runs: int
    first: str
    last: str


class PastRow(NamedTuple):
    """What a decision about a later run needs of a run; as in SeriesRow. Light, because there are many."""

    run_id: str
    digest: str
    spec_name: str
    model: str
    hw: str
    gate: str | None
    build: str | None
    finished_at: str
    n: int
    correct: int
    unasked: int
    lost: int
    measured: bool
    outcome: str
    reason_code: str
    right: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySeries:
    """Every run under one key, oldest first, with the JSON of the key's fields and, by its digest, of every gate.

    `superseded` says of those that a later record replaces when the first such record was finished.
    """

    key: str
    fields: str
    rows: tuple[PastRow, ...]
    superseded: Mapping[str, str]
    gates: Mapping[str, str]


def prepare(place: Place) -> None:
    """Make the index of a new history, or raise InfraError unless the one that is there can be used.

    Once it is made before the first record is written, records without an index mean a lost index.
    """
    with reading(place):
        pass
    with writing(place):
        pass


def add(place: Place, record: RunRecord, *, limit_s: float = LOCK_LIMIT_S) -> bool:
    """Put a record into the index: True when it is new, False when it was there.

    Raises InfraError when the run id is taken by another digest, when another process holds the lock for longer
    than `limit_s`, and when the database is no index of this gatekit; it is unchanged then.
    """
    row = run_row(record, record_to_plain(record)["digest"])
    return written(place, lambda connection: insert(connection, row), limit_s=limit_s)


def add_many(place: Place, rows: Iterable[NewRow], *, limit_s: float = LOCK_LIMIT_S) -> Added:
    """Put rows into the index in their order, those that it misses; a run id that is taken is a problem, no error.

    Some ten thousand in one transaction. Raises InfraError when the index cannot be used.
    """
    added = known = 0
    problems: list[str] = []
    todo = iter(rows)
    while batch := list(islice(todo, _ROWS_AT_ONCE)):
        done = written(place, partial(_insert_many, rows=batch), limit_s=limit_s)
        added, known = added + done.added, known + done.known
        problems.extend(done.problems)
    return Added(added=added, known=known, problems=tuple(problems))


def add_act(place: Place, act: Act, act_digest: str | None = None, *, limit_s: float = LOCK_LIMIT_S) -> bool:
    """Put an act, whose content has this digest, into the index: True when it is new. Raises InfraError as `add`."""
    known_digest = digest(to_plain(act)) if act_digest is None else act_digest
    return written(place, lambda connection: _insert_act(connection, act, known_digest), limit_s=limit_s)


def insert(connection: sa.Connection, row: NewRow) -> bool:
    """Put a row into the index, in the caller's transaction: True when it is new. Raises InfraError when its run id
    is taken by another digest."""
    there = known_run(connection, row.run_id)
    if there is None:
        _insert_new(connection, [row])
    elif there.digest != row.digest:
        raise InfraError(_taken(row, there.digest), reason="run-id-taken", hint="use another run id")
    return there is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the index holds of a run id."""

    digest: str
    previous: str | None


def known_run(connection: sa.Connection, run_id: str) -> Known | None:
    """The digest under which a run id is in the index, and the run before it; None where it is not."""
    query = sa.select(runs_table.c.digest, runs_table.c.previous).where(runs_table.c.run_id == run_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else Known(digest=row[0], previous=row[1])


def head(connection: sa.Connection, key: str) -> str | None:
    """The digest of the run that was added last under a comparability key."""
    query = sa.select(runs_table.c.digest).where(runs_table.c.comparability_key == storable(key))
    return connection.scalar(query.order_by(runs_table.c.position.desc()).limit(1))


def list_runs(
    place: Place, *, limit: int, spec_name: str | None = None, model: str | None = None
) -> tuple[RunRow, ...]:
    """The runs that were added last, newest first, optionally of one spec or model."""
    query = sa.select(*ROW_COLUMNS).order_by(runs_table.c.position.desc()).limit(limit)
    if spec_name is not None:
        query = query.where(runs_table.c.spec_name == storable(spec_name))
    if model is not None:
        query = query.where(runs_table.c.model == storable(model))
    return _run_rows(_select(place, query))


def find(place: Place, run_id: str) -> RunRow:
    """The run with this id, or the only one whose id starts so. Raises ConfigError naming the nearest ids."""
    prefix, name = storable(run_id), runs_table.c.run_id
    with reading(place) as connection:
        if connection is None or not prefix:
            rows: tuple[RunRow, ...] = ()
        else:
            exact = sa.select(*ROW_COLUMNS).where(name == prefix)
            starts_so = sa.select(*ROW_COLUMNS).where(name > prefix, name < prefix + _LAST)
            found = connection.execute(exact).all()
            rows = _run_rows(found or connection.execute(starts_so.order_by(name.desc()).limit(_NEAREST + 1)))
    if len(rows) == 1:
        return rows[0]
    shown = f"{prefix[:40]!r}"
    if rows:
        ids = [row.run_id for row in rows[:_NEAREST]] + ["..."] * (len(rows) > _NEAREST)
        raise ConfigError.one(f"run {shown} is ambiguous", reason="ambiguous-run", hint=f"it begins: {', '.join(ids)}")
    raise ConfigError.one(f"no run {shown} in {place.shown}", reason="unknown-run", hint=_nearest_hint(place, prefix))


def comparable(place: Place, key: str, *, exclude_run_id: str | None = None) -> tuple[RunRow, ...]:
    """The measured runs under this comparability key, oldest first; a run never votes on itself.

    Measured means every planned question asked, none lost, and the outcome not INFRA.
    """
    query = sa.select(*ROW_COLUMNS).where(runs_table.c.measured, runs_table.c.comparability_key == storable(key))
    if exclude_run_id is not None:
        query = query.where(runs_table.c.run_id != storable(exclude_run_id))
    return _run_rows(_select(place, query.order_by(runs_table.c.position)))


def series(place: Place, *, key: str, limit: int | None = None) -> tuple[SeriesRow, ...]:
    """The runs under a key in order of arrival, whatever became of them; with `limit` the last ones."""
    query = sa.select(*SERIES_COLUMNS).where(runs_table.c.comparability_key == storable(key))
    found = _select(place, query.order_by(runs_table.c.position.desc()).limit(limit))
    return tuple(_series_row(row) for row in reversed(found))


def past_rows(connection: sa.Connection, key: str) -> tuple[PastRow, ...]:
    """Every run under a key in order of arrival, in the caller's transaction."""
    query = sa.select(*_PAST_COLUMNS).where(runs_table.c.comparability_key == storable(key))
    return tuple(map(PastRow._make, connection.execute(query.order_by(runs_table.c.position))))


def superseded(connection: sa.Connection, key: str) -> Mapping[str, str]:
    """The runs under a key that a later record replaces: their ids, and when the first such record was finished."""
    return _superseded_between(connection, storable(key), storable(key))


def other_keys(place: Place, *, model: str, key: str) -> tuple[OtherKey, ...]:
    """The other comparability keys of a model's runs, the one that was used last first."""
    with reading(place) as connection:
        return () if connection is None else other_keys_of(connection, model=model, key=key)


def other_keys_of(connection: sa.Connection, *, model: str, key: str) -> tuple[OtherKey, ...]:
    """As `other_keys`, in the caller's transaction."""
    found = connection.execute(_other_keys(), {"wanted_model": storable(model), "own_key": storable(key)})
    return tuple(OtherKey(key=row[0], fields=row[1], runs=row[2], first=row[3], last=row[4]) for row in found)


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


def acts(place: Place) -> tuple[Act, ...]:
    """Every act, in order of arrival."""
    with reading(place) as connection:
        return () if connection is None else acts_of(connection)


def acts_of(connection: sa.Connection) -> tuple[Act, ...]:
    """As `acts`, in the caller's transaction."""
    query = sa.select(*_ACT_COLUMNS).order_by(acts_table.c.position)
    return tuple(
        Act(**dict(zip(_ACT_FIELDS, row, strict=True)) | {"kind": ActKind(row[1])}) for row in connection.execute(query)
    )


def known_digests(place: Place) -> Mapping[str, str]:
    """The digest of every run in the index, by run id."""
    return dict(map(tuple, _select(place, sa.select(runs_table.c.run_id, runs_table.c.digest))))


def act_digests(place: Place) -> Mapping[str, str]:
    """The digest of every act in the index, by act id."""
    return dict(map(tuple, _select(place, sa.select(acts_table.c.act_id, acts_table.c.digest))))


_ACT_FIELDS = tuple(field.name for field in fields(Act) if field.name != "format")
_ACT_COLUMNS = tuple(acts_table.c[name] for name in _ACT_FIELDS)
_PAST_COLUMNS = tuple(runs_table.c[name] for name in PastRow._fields)
_SERIES_FIELDS = tuple(field.name for field in fields(SeriesRow))


def _next_keys(connection: sa.Connection, after: str, until: str | None) -> list[KeySeries]:
    columns = runs_table.c
    wanted = sa.select(keys_table).where(keys_table.c.key > after).order_by(keys_table.c.key).limit(_KEYS_AT_ONCE)
    wanted = wanted if until is None else wanted.where(keys_table.c.key <= until)
    found: dict[str, str] = dict(map(tuple, connection.execute(wanted)))
    if not found:
        return []
    low, high = next(iter(found)), next(reversed(found))  # by the database's order, which may not be Python's
    query = sa.select(columns.comparability_key, *_PAST_COLUMNS)
    query = query.where(columns.comparability_key >= low, columns.comparability_key <= high)
    rows = connection.execute(query.order_by(columns.comparability_key, columns.position))
    by_key = {key: tuple(PastRow._make(row[1:]) for row in group) for key, group in groupby(rows, key=itemgetter(0))}
    gates = _gate_sections(connection, {row.gate for group in by_key.values() for row in group})
    replaced = _superseded_between(connection, low, high)
    return [
        KeySeries(
            key=key,
            fields=key_fields,
            rows=by_key.get(key, ()),
            superseded=replaced,
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
        sa.select(keys_table.c.key, keys_table.c.fields, ends.c.runs, first.c.finished_at, last.c.finished_at)
        .join_from(ends, keys_table, keys_table.c.key == ends.c.comparability_key)
        .join(first, first.c.position == ends.c.first)
        .join(last, last.c.position == ends.c.last)
        .order_by(ends.c.last.desc())
    )


def _superseded_between(connection: sa.Connection, low: str, high: str) -> Mapping[str, str]:
    return dict(map(tuple, connection.execute(_superseded(), {"low": low, "high": high})))


@cache
def _superseded() -> sa.Select[*tuple[Any, ...]]:
    old = runs_table.alias("old")
    return (
        sa.select(old.c.run_id, sa.func.min(runs_table.c.finished_at))
        .join_from(runs_table, old, runs_table.c.supersedes == old.c.run_id)
        .where(runs_table.c.supersedes.is_not(None))
        .where(old.c.comparability_key >= sa.bindparam("low"), old.c.comparability_key <= sa.bindparam("high"))
        .group_by(old.c.run_id)
    )


def _gate_sections(connection: sa.Connection, digests: Iterable[str | None]) -> Mapping[str, str]:
    wanted = [one for one in digests if one is not None]
    query = sa.select(gates_table).where(gates_table.c.digest.in_(wanted))
    return dict(map(tuple, connection.execute(query)))


def _insert_many(connection: sa.Connection, rows: Sequence[NewRow]) -> Added:
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
    _insert_new(connection, news)
    if len(news) >= _MANY and connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE runs, keys")  # or the planner reads every run until autovacuum comes by
    return Added(added=len(news), known=len(rows) - len(news) - len(problems), problems=tuple(problems))


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


def _insert_act(connection: sa.Connection, act: Act, act_digest: str) -> bool:
    there = connection.scalar(sa.select(acts_table.c.digest).where(acts_table.c.act_id == act.act_id))
    if there is None:
        plain = {name: None if getattr(act, name) is None else storable(getattr(act, name)) for name in _ACT_FIELDS}
        connection.execute(sa.insert(acts_table), plain | {"digest": act_digest})
    elif there != act_digest:
        what = f"the index already holds act {act.act_id} as {there}, not {act_digest}; an act is never changed"
        raise InfraError(what, reason="act-id-taken", hint="try again in a second")
    return there is None


def _taken(row: NewRow, there: str) -> str:
    return f"the index already holds run {row.run_id} as {there}, not {row.digest}; a run is never changed"


def _series_row(row: sa.Row[*tuple[Any, ...]]) -> SeriesRow:
    values = dict(zip(_SERIES_FIELDS, row, strict=True))
    return SeriesRow(**values | {"outcome": Outcome(values["outcome"])})


def _run_rows(rows: Iterable[sa.Row[*tuple[Any, ...]]]) -> tuple[RunRow, ...]:
    plain = (dict(row._mapping) for row in rows)  # noqa: SLF001 - its public name
    return tuple(RunRow(**{**row, "outcome": Outcome(row["outcome"])}) for row in plain)


def _select(place: Place, query: sa.Select[*tuple[Any, ...]]) -> list[sa.Row[*tuple[Any, ...]]]:
    with reading(place) as connection:
        return [] if connection is None else list(connection.execute(query))


def _nearest_hint(place: Place, run_id: str) -> str:
    ids = [row.run_id for row in list_runs(place, limit=_IDS_SEARCHED)]
    nearest = difflib.get_close_matches(run_id, ids, n=_NEAREST, cutoff=_NEAR)
    shown = nearest or ids[:_NEAREST]
    return f"{'nearest' if nearest else 'newest'}: {', '.join(shown)}" if shown else "it holds no runs yet"
