"""An older index is brought up to date, whole or not at all."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from gatekit.errors import InfraError
from gatekit.history import index, tables
from gatekit.history.database import reading
from gatekit.history.place import Place
from gatekit.history.records_folder import write_record
from gatekit.history.remember import rebuild, remember
from gatekit.history.run_row import NewRow, run_row
from gatekit.history.tables import INDEX_VERSION
from gatekit.history.verify import verify
from gatekit.records.answers import Status, statuses
from gatekit.records.run import RunRecord, record_to_plain
from postgres_server import PostgresServer
from worker_pool import WarmWorker

MakeRecord = Callable[..., RunRecord]
KILLS = 50

# Written by the gatekit that had it.
FIRST_SCHEMA = """
CREATE TABLE runs (
	position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	comparability_key TEXT NOT NULL, 
	spec_name TEXT NOT NULL, 
	model TEXT NOT NULL, 
	hw TEXT NOT NULL, 
	engine TEXT NOT NULL, 
	build TEXT, 
	protocol TEXT NOT NULL, 
	dataset TEXT NOT NULL, 
	n INTEGER NOT NULL, 
	correct INTEGER NOT NULL, 
	wrong INTEGER NOT NULL, 
	no_answer INTEGER NOT NULL, 
	truncated INTEGER NOT NULL, 
	lost INTEGER NOT NULL, 
	measured BOOLEAN NOT NULL, 
	outcome TEXT NOT NULL, 
	reason_code TEXT NOT NULL, 
	simulated BOOLEAN NOT NULL, 
	started_at TEXT NOT NULL, 
	finished_at TEXT NOT NULL, 
	path TEXT NOT NULL, 
	outcomes TEXT NOT NULL, 
	key_fields TEXT NOT NULL, 
	UNIQUE (run_id)
);
CREATE INDEX ix_runs_spec_name ON runs (spec_name);
CREATE INDEX ix_runs_comparability_key ON runs (comparability_key);
CREATE TRIGGER runs_refuse_replace BEFORE INSERT ON runs WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = NEW.run_id OR position = NEW.position) BEGIN SELECT RAISE(ABORT, 'runs are never replaced'); END;
CREATE TRIGGER runs_refuse_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never changed'); END;
CREATE TRIGGER runs_refuse_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never removed'); END;
"""  # noqa: E501, W291 - as SQLite keeps it
_COLUMNS = [column.name for column in tables.runs.columns if column.name != "position"]
_SAME = [name for name in _COLUMNS if f"\t{name} " in FIRST_SCHEMA]


def _first_index(place: Place, records: list[RunRecord]) -> None:
    """An index of the first version with these runs, as that gatekit wrote it."""
    path = place.dir / "index.sqlite"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FIRST_SCHEMA)
        connection.execute("BEGIN")
        for record in records:
            row = _row(record)
            letters = [
                "-" if status is None else status.value[0]
                for status in statuses(record.observations, record.dataset.question_ids)
            ]
            values = [getattr(row, name) for name in _SAME] + ["".join(letters), row.key_fields]
            names = ", ".join([*_SAME, "outcomes", "key_fields"])
            connection.execute(f"INSERT INTO runs ({names}) VALUES ({', '.join('?' * len(values))})", values)
        connection.execute("COMMIT")
        connection.execute(f"PRAGMA application_id = {int.from_bytes(b'gate', 'big')}")
        connection.execute("PRAGMA user_version = 1")


def _row(record: RunRecord) -> NewRow:
    plain = record_to_plain(record)
    return run_row(record, plain["digest"], gate_section=plain["spec"]["gate"])


def _schema(place: Place) -> set[tuple[str, str | None]]:
    with closing(sqlite3.connect(place.dir / "index.sqlite")) as connection:
        return set(connection.execute("SELECT name, sql FROM sqlite_schema"))


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _some(make_record: MakeRecord) -> list[RunRecord]:
    lost = (Status.CORRECT, Status.LOST, Status.TRUNCATED, Status.NO_ANSWER, Status.WRONG)
    stopped = make_record("stopped", statuses=(Status.CORRECT,) * 4, planned=9)
    return [
        make_record("first", build=None),
        make_record("lost", statuses=lost),
        replace(stopped, counts=replace(stopped.counts, n=9, unasked=5)),
        make_record("other-key", key_fields={"max_tokens": 512}, spec_name="x\ud800"),
        make_record("nothing", statuses=()),
    ]


@pytest.fixture
def old(tmp_path: Path) -> Place:
    """A history in a folder."""
    return Place(dir=tmp_path)


def test_older_index_is_carried_over(old: Place, make_record: MakeRecord) -> None:
    """T06: every run of the first index comes back as from its record, a copy of the old file is kept, and all
    digests verify."""
    records = _some(make_record)
    _first_index(old, records)
    for record in records:
        write_record(old.dir, record)
    before = _dump(old.dir / "index.sqlite")
    rows = index.list_runs(old, limit=10)[::-1]
    assert [row.run_id for row in rows] == [record.run_id for record in records]
    keys = {record.comparability.key for record in records}
    series = {row.run_id: row for key in keys for row in index.series(old, key=key)}
    for record in records:
        expected, found = _row(record), series[record.run_id]
        assert {name: getattr(found, name) for name in _COLUMNS} == {name: getattr(expected, name) for name in _COLUMNS}
    assert verify(old).findings == ()
    copy = old.dir / "index.sqlite.v1.backup"
    assert copy.stat().st_mode & 0o7777 == 0o600
    assert _dump(copy) == before
    assert rebuild(old).known == len(records)


def test_a_run_can_follow_an_old_one(old: Place, make_record: MakeRecord) -> None:
    """After the migration a new run is chained to the last old one of its series."""
    records = _some(make_record)
    _first_index(old, records)
    for record in records:
        write_record(old.dir, record)
    assert remember(old, make_record("new"))[1].previous == _row(records[-1]).digest


def test_without_its_record_the_gate_is_unknown(old: Place, make_record: MakeRecord) -> None:
    """A gate is read from the record of the run; where that is gone, broken or another one it is None."""
    records = [make_record(name) for name in ("whole", "gone", "broken", "another")]
    _first_index(old, records)
    write_record(old.dir, records[0])
    write_record(old.dir, records[2]).write_text('{"spec": {"gate": {}}}')
    write_record(old.dir, replace(records[3], gatekit_version="9"))
    gates = {row.run_id: row.gate for row in index.list_runs(old, limit=10)}
    assert gates == {"whole": _row(records[0]).gate, "gone": None, "broken": None, "another": None}


def test_migrated_and_fresh_are_the_same_schema(tmp_path: Path, make_record: MakeRecord) -> None:
    """Tables, indexes and triggers of a migrated index are those of a new one, to the letter."""
    old, fresh = Place(dir=tmp_path / "old"), Place(dir=tmp_path / "fresh")
    old.dir.mkdir()
    _first_index(old, _some(make_record))
    index.prepare(fresh)
    index.list_runs(old, limit=1)
    assert _schema(old) == _schema(fresh)


def test_queries_see_the_tables_that_migrations_make(place: Place) -> None:
    """The definitions that the queries use and the tables of the last revision do not differ."""
    index.prepare(place)
    with reading(place) as connection:
        assert connection is not None
        options = {"include_name": lambda name, kind, parents: name != tables.VERSION_TABLE}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []


@pytest.mark.parametrize("found", ["0004", "9999", "abc"])
def test_newer_postgresql_is_not_touched(
    postgres: PostgresServer, postgres_place: Place, make_record: MakeRecord, found: str
) -> None:
    """T05: a database of a newer gatekit is refused, read or written, and stays as it was."""
    remember(postgres_place, make_record())
    database = f"db{postgres._databases}"
    postgres.execute(f"UPDATE gatekit_version SET version_num = '{found}'", database=database)
    for use in (lambda: index.list_runs(postgres_place, limit=1), lambda: index.prepare(postgres_place)):
        with pytest.raises(InfraError, match="made by a newer gatekit") as caught:
            use()
        assert caught.value.reason == "history-newer"
    assert postgres.execute("SELECT count(*) FROM runs", database=database) == [(1,)]


@pytest.mark.slow
def test_killed_migration_is_old_or_new(tmp_path: Path, make_record: MakeRecord) -> None:
    """T07: after SIGKILL at fifty instants of a migration the index is the old one or the new one, never half, and
    the next command brings it up to date with every run."""
    template = Place(dir=tmp_path / "template")
    template.dir.mkdir()
    records = [make_record(f"r{number:04}") for number in range(1500)]
    _first_index(template, records)
    for record in records[:200]:
        write_record(template.dir, record)
    place = Place(dir=tmp_path / "history")
    shutil.copytree(template.dir, place.dir)
    setup = """
from pathlib import Path
import alembic.command, alembic.autogenerate
from gatekit.history import index, migrations
from gatekit.history.place import Place
"""
    task = "assert len(index.list_runs(Place(dir=Path(argument)), limit=5000)) == 1500"
    chance, seen = random.Random(7), {1: 0, INDEX_VERSION: 0}
    with WarmWorker(setup, task) as worker:
        start = time.monotonic()
        worker.start(str(place.dir))
        assert worker.wait() == (0, [])
        took = time.monotonic() - start
        for _ in range(KILLS):
            for name in ("index.sqlite", "index.sqlite.seal", "index.sqlite-journal"):
                (place.dir / name).unlink(missing_ok=True)
            shutil.copy(template.dir / "index.sqlite", place.dir / "index.sqlite")
            pid = worker.start(str(place.dir))
            time.sleep(took * chance.uniform(0.2, 1.3))
            worker.kill(pid)
            code, said = worker.wait()
            assert (code in (-9, 0), said) == (True, [])
            with closing(sqlite3.connect(place.dir / "index.sqlite")) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1500,)
                columns = {row[1] for row in connection.execute("PRAGMA table_info(runs)")}
                assert ("outcomes" in columns, "right" in columns) == (version == 1, version != 1)
            seen[version] += 1
            worker.start(str(place.dir))
            assert worker.wait() == (0, [])
            leftover = {path.name for path in place.dir.iterdir()}
            assert leftover <= {"runs", "index.sqlite", "index.sqlite.seal", "index.sqlite.v1.backup"}, leftover
    assert min(seen.values()) > 0, seen
    print(json.dumps(seen))
