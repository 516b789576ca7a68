"""The index over the run records: `<history>/index.sqlite`, insert-only, rebuildable from the records.

The only module that imports SQLAlchemy; callers import it inside the function that needs it. SQLite keeps
its rollback journal: write-ahead logging can corrupt a database before SQLite 3.51.3, and fails on network
filesystems. Writes take the lock at once (BEGIN IMMEDIATE): a transaction that starts as a reader cannot
wait for its turn to write.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import disk_full, make_folder, storage_error
from gatekit.history.records_folder import record_paths
from gatekit.history.run_row import RunRow, SeriesRow, run_row, storable
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

INDEX_FILE = "index.sqlite"
INDEX_VERSION = 1
APPLICATION_ID = int.from_bytes(b"gate", "big")
BUSY_TIMEOUT_S = 60.0
_NEAREST = 5
_IDS_SEARCHED = 1000

_metadata = sa.MetaData()
_runs = sa.Table(
    "runs",
    _metadata,
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("run_id", sa.Text, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("comparability_key", sa.Text, nullable=False, index=True),
    sa.Column("spec_name", sa.Text, nullable=False, index=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("hw", sa.Text, nullable=False),
    sa.Column("engine", sa.Text, nullable=False),
    sa.Column("build", sa.Text),
    sa.Column("protocol", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("n", sa.Integer, nullable=False),
    sa.Column("correct", sa.Integer, nullable=False),
    sa.Column("wrong", sa.Integer, nullable=False),
    sa.Column("no_answer", sa.Integer, nullable=False),
    sa.Column("truncated", sa.Integer, nullable=False),
    sa.Column("lost", sa.Integer, nullable=False),
    sa.Column("measured", sa.Boolean, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("reason_code", sa.Text, nullable=False),
    sa.Column("simulated", sa.Boolean, nullable=False),
    sa.Column("started_at", sa.Text, nullable=False),
    sa.Column("finished_at", sa.Text, nullable=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("outcomes", sa.Text, nullable=False),
    sa.Column("key_fields", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
_ROW_COLUMNS = [_runs.c[field.name] for field in fields(RunRow)]
_SERIES_COLUMNS = [_runs.c[field.name] for field in fields(SeriesRow)]

# The insert trigger is for INSERT OR REPLACE, which removes the old row without firing a delete trigger.
_INSERT_ONLY = (
    "CREATE TRIGGER runs_refuse_replace BEFORE INSERT ON runs "
    "WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = NEW.run_id OR position = NEW.position) "
    "BEGIN SELECT RAISE(ABORT, 'runs are never replaced'); END",
    "CREATE TRIGGER runs_refuse_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never changed'); END",
    "CREATE TRIGGER runs_refuse_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never removed'); END",
)


def prepare(history_dir: Path) -> None:
    """Make the index of a new history, or raise InfraError unless the one that is there can be used.

    Once it is made before the first record is written, records without an index mean a lost index.
    """
    path = history_dir / INDEX_FILE
    _make_private_file(path)
    with _transaction(path, "BEGIN IMMEDIATE", BUSY_TIMEOUT_S) as connection:
        if _is_blank(path, connection):
            _refuse_lost_index(history_dir)
            _create(connection)


def add(history_dir: Path, record: RunRecord, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> bool:
    """Put a record into the index: True when it is new, False when it was there. Raises as `add_row`."""
    row = run_row(record, record_to_plain(record)["digest"])
    return add_row(history_dir, row, busy_timeout_s=busy_timeout_s)


def add_row(history_dir: Path, row: SeriesRow, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> bool:
    """Put a row into the index, made if missing: True when it is new, False when the same was there.

    Raises InfraError when the run id is taken by another digest, when another process holds the lock for
    longer than the timeout, and when the file is no index of this gatekit; the file is unchanged then.
    """
    path = history_dir / INDEX_FILE
    _make_private_file(path)
    with _transaction(path, "BEGIN IMMEDIATE", busy_timeout_s) as connection:
        if _is_blank(path, connection):
            _create(connection)
        known = connection.scalar(sa.select(_runs.c.digest).where(_runs.c.run_id == row.run_id))
        if known is None:
            connection.execute(sa.insert(_runs).values(asdict(row)))
        elif known != row.digest:
            raise InfraError(
                f"{path} already holds run {row.run_id} as {known}, not {row.digest}; a run is never changed",
                reason="run-id-taken",
                hint="run again under another run id",
            )
    return known is None


def list_runs(
    history_dir: Path, *, limit: int, spec_name: str | None = None, model: str | None = None
) -> tuple[RunRow, ...]:
    """The runs that were added last, newest first, optionally of one spec or model."""
    query = sa.select(*_ROW_COLUMNS).order_by(_runs.c.position.desc()).limit(limit)
    if spec_name is not None:
        query = query.where(_runs.c.spec_name == storable(spec_name))
    if model is not None:
        query = query.where(_runs.c.model == storable(model))
    return _select_rows(history_dir, query)


def find(history_dir: Path, run_id: str) -> RunRow:
    """The run with this id, or the only one whose id starts so. Raises ConfigError naming the nearest ids."""
    prefix = storable(run_id)
    starts_so = sa.func.substr(_runs.c.run_id, 1, len(prefix)) == prefix
    exact_first = (_runs.c.run_id == prefix).desc()
    query = sa.select(*_ROW_COLUMNS).where(starts_so).order_by(exact_first, _runs.c.position.desc())
    rows = _select_rows(history_dir, query.limit(_NEAREST + 1)) if prefix else ()
    if rows and (len(rows) == 1 or rows[0].run_id == prefix):
        return rows[0]
    shown = f"{prefix[:40]!r}"
    if rows:
        ids = [row.run_id for row in rows[:_NEAREST]] + ["..."] * (len(rows) > _NEAREST)
        raise ConfigError.one(f"run {shown} is ambiguous", reason="ambiguous-run", hint=f"it begins: {', '.join(ids)}")
    raise ConfigError.one(
        f"no run {shown} in {history_dir}", reason="unknown-run", hint=_nearest_hint(history_dir, prefix)
    )


def comparable(history_dir: Path, key: str, *, exclude_run_id: str | None = None) -> tuple[RunRow, ...]:
    """The measured runs under this comparability key, oldest first; a run never votes on itself.

    Measured means every planned question asked, none lost, and the outcome not INFRA.
    """
    query = sa.select(*_ROW_COLUMNS).where(_runs.c.measured, _runs.c.comparability_key == storable(key))
    if exclude_run_id is not None:
        query = query.where(_runs.c.run_id != storable(exclude_run_id))
    return _select_rows(history_dir, query.order_by(_runs.c.position))


def series(history_dir: Path, *, key: str, model: str, exclude_run_id: str, limit: int) -> tuple[SeriesRow, ...]:
    """The last runs of a model or under a key, whatever became of them, oldest first, without one of them."""
    related = sa.or_(_runs.c.comparability_key == storable(key), _runs.c.model == storable(model))
    query = sa.select(*_SERIES_COLUMNS).where(related, _runs.c.run_id != storable(exclude_run_id))
    found = _select(history_dir, query.order_by(_runs.c.position.desc()).limit(limit))
    names = [field.name for field in fields(SeriesRow)]
    rows = (dict(zip(names, row, strict=True)) for row in reversed(found))
    return tuple(SeriesRow(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows)


def count_by_key(history_dir: Path, spec_name: str) -> Mapping[str, int]:
    """How many measured runs of a spec there are under each comparability key, oldest key first."""
    query = (
        sa.select(_runs.c.comparability_key, sa.func.count())
        .where(_runs.c.measured, _runs.c.spec_name == storable(spec_name))
        .group_by(_runs.c.comparability_key)
        .order_by(sa.func.min(_runs.c.position))
    )
    return {str(key): number for key, number in _select(history_dir, query)}


def _select_rows(history_dir: Path, query: sa.Select[*tuple[Any, ...]]) -> tuple[RunRow, ...]:
    rows = (dict(row._mapping) for row in _select(history_dir, query))  # noqa: SLF001 - its public name
    return tuple(RunRow(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows)


def _select(history_dir: Path, query: sa.Select[*tuple[Any, ...]]) -> list[sa.Row[*tuple[Any, ...]]]:
    path = history_dir / INDEX_FILE
    if path.exists():
        with _transaction(path, "BEGIN", BUSY_TIMEOUT_S) as connection:
            if not _is_blank(path, connection):
                return list(connection.execute(query))
    _refuse_lost_index(history_dir)
    return []


def _refuse_lost_index(history_dir: Path) -> None:
    if next(record_paths(history_dir), None) is not None:
        raise InfraError(
            f"{history_dir / INDEX_FILE} is missing or empty, but {history_dir / 'runs'} holds run records",
            reason="index-missing",
            hint=_rebuild_hint(history_dir),
        )


@contextmanager
def _transaction(path: Path, begin: str, busy_timeout_s: float) -> Iterator[sa.Connection]:
    def connect() -> sqlite3.Connection:
        # mode=rw: never make a file here. isolation_level=None: `begin` alone starts a transaction.
        place = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(place, uri=True, timeout=busy_timeout_s, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(begin)
            yield connection
            connection.commit()
    except (DBAPIError, sqlite3.Error) as error:
        raise _index_error(path, error, busy_timeout_s) from error
    finally:
        engine.dispose()


def _is_blank(path: Path, connection: sa.Connection) -> bool:
    """Whether the database is still empty. Raises InfraError when another program or version made it."""
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    if application in (0, APPLICATION_ID) and version > INDEX_VERSION:
        raise InfraError(
            f"{path} was made by a newer gatekit (index version {version}, this one knows {INDEX_VERSION})",
            reason="history-newer",
            hint="update gatekit, or name another folder (history.dir)",
        )
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar_one()
    if (application, version, tables) == (0, 0, 0):
        return True
    if (application, version) != (APPLICATION_ID, INDEX_VERSION):
        raise _not_an_index(path, "is a database of another program")
    return False


def _create(connection: sa.Connection) -> None:
    _metadata.create_all(connection)
    for statement in _INSERT_ONLY:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {INDEX_VERSION}")


def _make_private_file(path: Path) -> None:
    """An empty file is an empty database; made here because SQLite would make it 0644."""
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise storage_error("make", path, error) from error
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)


def _index_error(path: Path, error: DBAPIError | sqlite3.Error, busy_timeout_s: float) -> InfraError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(cause, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return InfraError(
            f"another process kept {path} locked for {busy_timeout_s:g} s",
            reason="history-locked",
            hint=_rebuild_hint(path.parent),
        )
    if name == "SQLITE_FULL":
        return disk_full("write", path, str(cause))
    if name == "SQLITE_NOTADB":
        return _not_an_index(path, "is not a database")
    if name.startswith("SQLITE_CORRUPT"):
        return _not_an_index(path, f"is damaged ({cause})")
    return InfraError(f"cannot use {path}: {cause}", reason="storage-failed", hint="check its disk and rights")


def _not_an_index(path: Path, why: str) -> InfraError:
    return InfraError(
        f"{path} {why}",
        reason="history-not-an-index",
        hint=f"move it away, then {_rebuild_hint(path.parent)}",
    )


def _rebuild_hint(history_dir: Path) -> str:
    return f"`gatekit history rebuild --dir {shlex.quote(str(history_dir))}` indexes every record"


def _nearest_hint(history_dir: Path, run_id: str) -> str:
    ids = [row.run_id for row in list_runs(history_dir, limit=_IDS_SEARCHED)]
    nearest = difflib.get_close_matches(run_id, ids, n=_NEAREST, cutoff=0.4) or ids[:_NEAREST]
    return f"nearest: {', '.join(nearest)}" if nearest else "it holds no runs yet"
