"""The index in a file: `<history>/index.sqlite`.

SQLite keeps its rollback journal: write-ahead logging can corrupt a database before SQLite 3.51.3, and fails on
network file systems. Writes take the lock at once (BEGIN IMMEDIATE): a transaction that starts as a reader cannot
wait for its turn to write.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from gatekit.errors import InfraError
from gatekit.history.durable_files import (
    disk_full,
    is_there,
    make_folder,
    open_regular,
    require_regular,
    storage_error,
    sync_folder,
)
from gatekit.history.place import INDEX_FILE, Place
from gatekit.history.rebuild_hint import rebuild_hint
from gatekit.history.seal import sealing
from gatekit.history.tables import INDEX_VERSION

APPLICATION_ID = int.from_bytes(b"gate", "big")
_OPENED = ("", "-journal", "-wal", "-shm")
# Bytes that are no UTF-8 reach the checks of `stored_rows`, which name the row; SQLite's driver would not.
_text = partial(str, encoding="utf-8", errors="surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteFile:
    """The database file of a history; `limit_s` is how long a lock of another process is waited for."""

    place: Place
    limit_s: float

    @property
    def path(self) -> Path:
        """The file."""
        return self.place.file

    def exists(self) -> bool:
        """Whether there is anything to read; an empty file is an empty database."""
        return is_there(self.path)

    def make(self) -> None:
        """Make the file (0600) if it is missing: SQLite itself would make it 0644."""
        try:
            make_folder(self.path.parent)
            os.close(open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        except (OSError, ValueError) as error:
            raise storage_error("make", self.path, error) from error

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """One transaction, committed at the end. Raises InfraError for whatever the file or its lock is up to."""
        self._refuse_special_files()
        try:
            with _engine(self).connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                self._commit(connection, write=write)
        except (DBAPIError, sqlite3.Error) as error:
            raise self._error(error) from error

    def version(self, connection: sa.Connection) -> int:
        """The version of the index, 0 for an empty file.

        Raises InfraError when a newer gatekit or another program made it.
        """
        version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if (application, version) == (APPLICATION_ID, INDEX_VERSION):
            return version
        if application in (0, APPLICATION_ID) and version > INDEX_VERSION:
            raise InfraError(
                f"{self.path} was made by a newer gatekit (index version {version}, this one knows {INDEX_VERSION})",
                reason="history-newer",
                hint="update gatekit, or name another folder (history.dir)",
            )
        tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar_one()
        if (application, version, tables) == (0, 0, 0):
            return 0
        if application != APPLICATION_ID or version < 1:
            raise self._not_an_index("is a database of another program")
        return version

    def mark(self, connection: sa.Connection) -> None:
        """Say in the file what it is."""
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {INDEX_VERSION}")

    def back_up(self, version: int) -> Path:
        """A copy (0600) of the file as it was committed last; the caller holds the write lock.

        Through SQLite, because closing a descriptor of our own would drop the lock.
        """
        target = self.path.with_name(f"{INDEX_FILE}.v{version}.backup")
        temporary = target.with_name(f".{target.name}.tmp")
        try:
            temporary.unlink(missing_ok=True)
            descriptor = open_regular(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            with os.fdopen(descriptor, "rb") as file:
                with closing(self.connect()) as source, closing(sqlite3.connect(temporary)) as copy:
                    source.backup(copy)
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.parent)
        except OSError as error:
            raise storage_error("write", target, error) from error
        return target

    def connect(self) -> sqlite3.Connection:
        """A connection of its own, without a transaction."""
        # mode=rw: never make a file here. isolation_level=None: our own BEGIN alone starts a transaction.
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=self.limit_s, isolation_level=None)
        connection.text_factory = _text
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA recursive_triggers = ON")  # a REPLACE fires the trigger that refuses a DELETE
        connection.execute("PRAGMA cache_spill = OFF")  # nothing reaches the file before the commit: see seal
        return connection

    def _refuse_special_files(self) -> None:
        """SQLite would wait at a pipe, and read a device, for ever."""
        for suffix in _OPENED:
            path = self.path.with_name(self.path.name + suffix)
            try:
                require_regular(path, path.stat())
            except OSError as error:
                if suffix and isinstance(error, FileNotFoundError):
                    continue
                raise storage_error("use", path, error) from error

    def _commit(self, connection: sa.Connection, *, write: bool) -> None:
        if not write:
            connection.commit()
            return
        with sealing(self.path, limit_s=self.limit_s):
            connection.commit()

    def _error(self, error: DBAPIError | sqlite3.Error) -> InfraError:
        cause = error.orig if isinstance(error, DBAPIError) else error
        name = getattr(cause, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return InfraError(
                f"another process kept {self.path} locked for {self.limit_s:g} s",
                reason="history-locked",
                hint=rebuild_hint(self.place),
            )
        if name == "SQLITE_FULL":
            return disk_full("write", self.path, str(cause))
        if name == "SQLITE_NOTADB":
            return self._not_an_index("is not a database")
        if name.startswith("SQLITE_CORRUPT"):
            return self._not_an_index(f"is damaged ({cause})")
        return InfraError(f"cannot use {self.path}: {cause}", reason="storage-failed", hint="check its disk and rights")

    def _not_an_index(self, why: str) -> InfraError:
        return InfraError(
            f"{self.path} {why}",
            reason="history-not-an-index",
            hint=f"move it away, then {rebuild_hint(self.place)}",
        )


@lru_cache(maxsize=8)
def _engine(file: SqliteFile) -> sa.Engine:
    """Kept because it remembers how statements compile; it keeps no connection."""
    return sa.create_engine("sqlite://", creator=file.connect, poolclass=NullPool)
