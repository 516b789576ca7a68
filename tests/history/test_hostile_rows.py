"""An index that somebody else wrote in: whatever a column holds, reading it is one line, and a run is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.past import all_series, past_runs
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path
from gatekit.history.remember import KeptError, remember, sync
from gatekit.history.run_row import run_row
from gatekit.history.shown_series import Wish, shown_series
from gatekit.records.act import ActKind
from gatekit.records.answers import Status
from gatekit.records.run import RunRecord, record_to_plain
from postgres_server import PostgresServer

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)

_TEXTS = ("spec_name", "model", "hw", "engine", "protocol", "dataset", "reason_code", "path", "comparability_key")
_COUNTS = ("n", "correct", "wrong", "no_answer", "truncated", "lost", "unasked")
# What a typed database takes; a superuser can drop NOT NULL.
_ANYWHERE = [
    *((name, "NULL") for name in (*_TEXTS, *_COUNTS, "run_id", "digest", "outcome", "measured", "simulated")),
    *((name, "NULL") for name in ("started_at", "finished_at")),
    *((name, "-5") for name in _COUNTS),
    *((name, "2000000000") for name in _COUNTS),
    ("n", "5"),
    ("run_id", "'../../etc/passwd'"),
    ("run_id", "''"),
    ("digest", "'sha256:x'"),
    ("outcome", "'MAYBE'"),
    ("outcome", "''"),
    ("started_at", "'yesterday'"),
    ("finished_at", "'2026-13'"),
]
_ON_SQLITE = [
    *((name, "x'ff00'") for name in (*_TEXTS, *_COUNTS, "run_id", "digest", "outcome", "measured", "finished_at")),
    *((name, "CAST(x'ff41' AS TEXT)") for name in (*_TEXTS, "outcome", "finished_at")),
    *((name, "'many'") for name in (*_COUNTS, "measured", "simulated")),
    *((name, "1.5") for name in (*_COUNTS, "measured", "simulated")),
    *((name, "7") for name in ("measured", "simulated")),
    ("previous", "x'00'"),
    ("supersedes", "x'00'"),
    ("gate", "x'00'"),
    ("build", "x'00'"),
    ('"right"', "'text'"),
    ('"right"', "12"),
    ('"right"', "x''"),
    ('"right"', "x'0102'"),
    ('"right"', "x'01'"),
]
_ON_POSTGRES = [('"right"', f"'{value}'::bytea") for value in ("\\x", "\\x0102", "\\x01")]


def _change(place: Place, server: PostgresServer | None, table: str, sql: str) -> None:
    """As somebody who can: past triggers, rights and NOT NULL."""
    if place.url is not None:
        assert server is not None
        database = place.url.rpartition("/")[2]
        columns = server.execute(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0", database=database
        )
        keys = {"position", "key"} if table != "gates" else {"position", "digest"}
        nullable = "; ".join(
            f'ALTER TABLE {table} ALTER "{name}" DROP NOT NULL' for (name,) in columns if name not in keys
        )
        server.execute(f"{nullable}; SET session_replication_role = replica; {sql}", database=database)
        return
    with closing(sqlite3.connect(place.dir / "index.sqlite")) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        # Without its types and constraints, so that a column holds whatever it is given.
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        names = [row[1] for row in connection.execute(f"PRAGMA table_info(old_{table})")]
        quoted = ", ".join(f'"{name}"' for name in names)
        typed = ", ".join('"position" INTEGER PRIMARY KEY' if name == "position" else f'"{name}"' for name in names)
        connection.execute(f"CREATE TABLE {table} ({typed})")
        connection.execute(f"INSERT INTO {table} ({quoted}) SELECT {quoted} FROM old_{table}")
        connection.execute(f"DROP TABLE old_{table}")
        connection.execute(sql)
        connection.commit()


@pytest.fixture
def server(request: pytest.FixtureRequest, place: Place) -> PostgresServer | None:
    """The server of a place that has one."""
    found: PostgresServer | None = None if place.url is None else request.getfixturevalue("postgres")
    return found


@pytest.fixture
def history(place: Place, make_record: MakeRecord) -> Place:
    """Three runs of one series, one of another, and an act."""
    for number in range(3):
        remember(place, make_record(f"run-{number}", build=f"0.{number}"))
    remember(place, make_record("other", key_fields={"max_tokens": 512}))
    record_act(place, make_act(ActKind.QUARANTINE, "run-0", reason="hot", now=NOW))
    return place


def _read_all(place: Place, record: RunRecord) -> list[InfraError]:
    """What every way to read the index says; anything but an InfraError is raised."""
    reads: list[Callable[[], object]] = [
        lambda: index.list_runs(place, limit=100),
        lambda: index.find(place, "run-1"),
        lambda: index.comparable(place, record.comparability.key),
        lambda: index.series(place, key=record.comparability.key),
        lambda: index.other_keys(place, model=record.spec.model.name, key=""),
        lambda: index.acts(place),
        lambda: past_runs(place, record.spec, record.comparability),
        lambda: list(all_series(place)),
        lambda: shown_series(place, Wish(), limit=10),
    ]
    said = []
    for read in reads:
        try:
            read()
        except InfraError as error:
            said.append(error)
    return said


def _is_told(error: InfraError) -> bool:
    (line,) = error.lines()
    return error.reason == "index-row-broken" and "history rebuild" in line and "\n" not in line


def _cases() -> list[tuple[str, str, str]]:
    both = [(kind, *case) for kind in ("sqlite", "postgresql") for case in _ANYWHERE]
    return [
        *both,
        *(("sqlite", *case) for case in _ON_SQLITE),
        *(("postgresql", *case) for case in _ON_POSTGRES),
    ]


def test_every_column_of_a_run_is_checked(
    history: Place, server: PostgresServer | None, make_record: MakeRecord
) -> None:
    """Each column of a run with each wrong value: no read raises anything but one line that names the row and the
    rebuild, at least one does, and a new run that ends now is in its file."""
    kind = "sqlite" if history.url is None else "postgresql"
    record = make_record("new", build="1.0")
    row = run_row(make_record("run-1", build="0.1"), record_to_plain(make_record("run-1", build="0.1"))["digest"])
    _change(history, server, "runs", "UPDATE runs SET digest = digest")
    place, number = history, 0
    for one, column, value in _cases():
        if one != kind:
            continue
        number += 1
        _set(place, server, f"UPDATE runs SET {column} = {value} WHERE position = 2")
        said = _read_all(place, record)
        assert said, (column, value)
        assert all(_is_told(error) for error in said), [error.lines() for error in said]
        if number % 8 == 0:
            _keep(place, make_record(f"new-{number}", build="1.0", key_fields={"number": number}))
        _restore(place, server, column, getattr(row, column.strip('"')))
    assert number > 30
    assert _read_all(place, record) == [], "each value was put back"


def _set(place: Place, server: PostgresServer | None, sql: str) -> None:
    if place.url is not None:
        assert server is not None
        server.execute(f"SET session_replication_role = replica; {sql}", database=place.url.rpartition("/")[2])
        return
    with closing(sqlite3.connect(place.dir / "index.sqlite")) as connection:
        connection.execute(sql)
        connection.commit()


def _restore(place: Place, server: PostgresServer | None, column: str, value: object) -> None:
    if isinstance(value, bytes):
        text = f"x'{value.hex()}'" if place.url is None else f"'\\x{value.hex()}'::bytea"
    elif isinstance(value, bool) or value is None:
        text = {True: "TRUE", False: "FALSE", None: "NULL"}[value]
    else:
        text = str(value) if isinstance(value, int) else f"'{value}'"
    _set(place, server, f"UPDATE runs SET {column} = {text} WHERE position = 2")


def _keep(place: Place, record: RunRecord) -> None:
    """A run is in its file whatever the index holds; when the index refuses it, in one line."""
    said: list[str] = []
    try:
        remember(place, record)
    except KeptError as error:
        said = error.lines()
    assert len(said) <= 1
    assert record_path(place.dir, record.run_id).exists()


@pytest.mark.parametrize(
    ("table", "sql"),
    [
        ("acts", "UPDATE acts SET kind = 'forget'"),
        ("acts", "UPDATE acts SET kind = NULL"),
        ("acts", "UPDATE acts SET target = NULL"),
        ("acts", "UPDATE acts SET reason = NULL"),
        ("acts", "UPDATE acts SET made_at = 'then'"),
        ("acts", "UPDATE acts SET made_at = NULL"),
        ("keys", "UPDATE keys SET fields = '{'"),
        ("keys", "UPDATE keys SET fields = '[]'"),
        ("keys", "UPDATE keys SET fields = repeat('[', 100000)"),
        ("keys", "UPDATE keys SET fields = NULL"),
        ("gates", "UPDATE gates SET gate = '{'"),
        ("gates", "UPDATE gates SET gate = '7'"),
        ("gates", "UPDATE gates SET gate = NULL"),
    ],
)
def test_every_other_table_is_checked(
    history: Place, server: PostgresServer | None, make_record: MakeRecord, table: str, sql: str
) -> None:
    """Acts, keys and gates with wrong values: one line that names the row and the rebuild, and a run is kept."""
    if history.url is None:
        sql = sql.replace("repeat('[', 100000)", "replace(hex(zeroblob(50000)), '0', '[')")
    _change(history, server, table, sql)
    said = _read_all(history, make_record("new"))
    assert said, sql
    assert all(_is_told(error) for error in said), [error.lines() for error in said]
    _keep(history, make_record("new"))


def test_a_broken_head_is_no_predecessor(
    history: Place, server: PostgresServer | None, make_record: MakeRecord
) -> None:
    """A last row whose digest is none is never chained to: the record is kept by itself, and said to be."""
    _change(history, server, "runs", "UPDATE runs SET digest = 'x' WHERE run_id = 'run-2'")
    with pytest.raises(KeptError) as caught:
        remember(history, make_record("new"))
    assert caught.value.reason == "index-row-broken"
    assert caught.value.record.previous is None
    assert caught.value.path == record_path(history.dir, "new")


def test_a_record_against_itself_makes_no_broken_row(place: Place, make_record: MakeRecord) -> None:
    """What the index takes it gives back: a record whose counts are not those of its answers has no bits."""
    record = make_record("odd", planned=2, statuses=(Status.CORRECT, Status.WRONG, Status.WRONG))
    remember(place, record)
    assert index.series(place, key=record.comparability.key)[0].right is None
    assert sync(place).problems == ()
