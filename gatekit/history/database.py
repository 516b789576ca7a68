"""The database of an index: SQLite in the folder, or PostgreSQL; made, brought up to date and opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

import sqlalchemy as sa

from gatekit.errors import InfraError
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import rebuild_hint, remake_hint
from gatekit.history.records_folder import record_paths
from gatekit.history.stored_rows import BrokenRowError
from gatekit.history.tables import INDEX_VERSION

LOCK_LIMIT_S = 60.0
"""How long a lock of another process is waited for."""

CUT = "history-cut"
"""The reason of an InfraError after which nobody knows whether the transaction was committed."""

T = TypeVar("T")


class Database(Protocol):
    """What both databases offer."""

    def exists(self) -> bool:
        """Whether there is anything to read."""

    def make(self) -> None:
        """Make what a transaction needs."""

    def transaction(self, *, write: bool) -> AbstractContextManager[sa.Connection]:
        """One transaction, committed at the end; a writing one is alone."""

    def version(self, connection: sa.Connection) -> int:
        """The version of the index that is there, 0 for none. Raises InfraError for a newer one."""

    def mark(self, connection: sa.Connection) -> None:
        """Say in the database that the index has this version."""

    def back_up(self, version: int) -> object:
        """Keep a copy of what is there."""


def database_of(place: Place, *, limit_s: float = LOCK_LIMIT_S) -> Database:
    """The database that a place names. Raises ConfigError for one that no code here can use."""
    if place.url is None:
        from gatekit.history.sqlite_file import SqliteFile

        return SqliteFile(place=place, limit_s=limit_s)
    from gatekit.history.postgres import Postgres

    return Postgres(place=place, limit_s=limit_s)


@contextmanager
def reading(place: Place) -> Iterator[sa.Connection | None]:
    """A transaction that reads; None where there is no index, and nothing is made then.

    An older index is brought up to date first. Raises InfraError when records without an index mean a lost one, and
    for a row that no gatekit wrote.
    """
    with _naming_broken_rows(place), _reading(place) as connection:
        yield connection


@contextmanager
def _reading(place: Place) -> Iterator[sa.Connection | None]:
    database = database_of(place)
    version = 0
    if database.exists():
        with database.transaction(write=False) as connection:
            version = database.version(connection)
            if version == INDEX_VERSION:
                yield connection
                return
    if version == 0:
        refuse_lost_index(place)
        yield None
        return
    with writing(place):
        pass
    with database.transaction(write=False) as connection:
        yield connection


@contextmanager
def writing(place: Place, *, limit_s: float = LOCK_LIMIT_S) -> Iterator[sa.Connection]:
    """A transaction that writes, alone, in an index that is made or brought up to date if need be.

    Raises InfraError, and changes nothing, for a row that no gatekit wrote.
    """
    database = database_of(place, limit_s=limit_s)
    database.make()
    with _naming_broken_rows(place), database.transaction(write=True) as connection:
        version = database.version(connection)
        if version != INDEX_VERSION:
            _bring_up_to_date(database, connection, version, place)
        yield connection


def written(place: Place, work: Callable[[sa.Connection], T], *, limit_s: float = LOCK_LIMIT_S) -> T:
    """The result of `work` in one writing transaction; once more if the connection was cut.

    It may have been cut after the commit, so `work` finds what it wrote and writes it once.
    """
    try:
        with writing(place, limit_s=limit_s) as connection:
            return work(connection)
    except InfraError as error:
        if error.reason != CUT:
            raise
    with writing(place, limit_s=limit_s) as connection:
        return work(connection)


def refuse_lost_index(place: Place) -> None:
    """Raise InfraError where there are records: without an index they are a lost history, not an empty one."""
    if next(record_paths(place.dir), None) is not None:
        raise InfraError(
            f"{place.shown} is missing or empty, but {place.dir / 'runs'} holds run records",
            reason="index-missing",
            hint=rebuild_hint(place),
        )


@contextmanager
def _naming_broken_rows(place: Place) -> Iterator[None]:
    try:
        yield
    except (BrokenRowError, UnicodeDecodeError) as error:
        what = "it holds a text that is no UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InfraError(
            f"{place.shown} is not what was written: {what}", reason="index-row-broken", hint=remake_hint(place)
        ) from error


def _bring_up_to_date(database: Database, connection: sa.Connection, version: int, place: Place) -> None:
    if version:
        database.back_up(version)
    from gatekit.history.migrations import upgrade

    upgrade(connection, version, place.dir)
    database.mark(connection)
