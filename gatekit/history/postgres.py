"""The index in a PostgreSQL database that several machines share, through psycopg 3 and libpq's own URLs.

Writers wait for one another at an advisory lock, so that runs have one order. Rows cannot be changed: the migration
takes UPDATE, DELETE and TRUNCATE from everybody, the owner of the tables too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from gatekit.errors import ConfigError, InfraError
from gatekit.history.database import CUT
from gatekit.history.place import Kept, Place
from gatekit.history.postgres_url import parameters
from gatekit.history.rebuild_hint import rebuild_hint
from gatekit.history.tables import INDEX_VERSION, VERSION_TABLE
from gatekit.records.secrets import MASK, hidden_values

CONNECT_TIMEOUT_S = 10
ADVISORY_LOCK = int.from_bytes(b"gatekit\0", "big")
_STATEMENT_S = 60.0
_SHOWN_CHARACTERS = 300
# A server that vanishes without a word is noticed within two minutes.
_DEFAULTS = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "application_name": "gatekit",
    "client_encoding": "utf8",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# What a server says when it refuses a connection, where it speaks English; the reason code and what to do.
_REFUSALS = (
    ("does not exist", "history-unknown-database", "create the database or the role, or correct history.url"),
    ("authentication failed", "history-refused", "check the user and the password of history.url, or ~/.pgpass"),
    ("no password supplied", "history-refused", "put the password into ~/.pgpass, or into the URL in history.url_env"),
    ("pg_hba.conf", "history-refused", "the server's pg_hba.conf does not let this user in from here"),
    ("permission denied", "history-refused", "the role needs the right to connect to the database"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """The database that a URL names; `limit_s` is how long a lock of another process is waited for."""

    place: Place
    limit_s: float

    def exists(self) -> bool:
        """Whether there is anything to read: only the server knows."""
        return True

    def make(self) -> None:
        """Nothing: a database is made by its administrator."""

    def mark(self, connection: sa.Connection) -> None:
        """Nothing: the table of revisions says it."""

    def back_up(self, version: int) -> None:
        """Nothing: a migration is one transaction, and copies of a server are its administrator's."""

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        """One transaction, committed at the end; a reading one sees one moment.

        Raises ConfigError for a URL that is none, InfraError for whatever the server or the way to it is up to.
        """
        driver = _driver()
        parameters = _parameters(driver, self.place)
        hidden = hidden_values(parameters)
        try:
            opened = self._again(write=write) or self._connect(driver, parameters)
            with _given_back(self.place.kept, opened) as connection:
                if not connection.in_transaction():
                    self._begin(connection, write=write)
                yield connection
                connection.commit()
        except (DBAPIError, driver.Error) as error:
            cause = _cause(error)
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                raise self._cut(_one_line(cause, hidden)) from error
            raise self._refused(getattr(cause, "sqlstate", None) or "", _one_line(cause, hidden)) from error

    def version(self, connection: sa.Connection) -> int:
        """The version of the index, 0 for none. Raises InfraError when a newer gatekit or another program made it."""
        there = "SELECT to_regclass('gatekit_version') IS NOT NULL, to_regclass('runs') IS NOT NULL"
        has_version, has_runs = connection.exec_driver_sql(there).one()
        if not has_version and has_runs:
            raise InfraError(
                f"{self.place.shown} has a table `runs` of another program",
                reason="history-not-an-index",
                hint="name a database, or by ?options=-csearch_path%3DNAME a schema, of its own",
            )
        if not has_version:
            return 0
        found = connection.scalar(sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE)))
        version = int(found) if isinstance(found, str) and found.isdecimal() else INDEX_VERSION + 1
        if version > INDEX_VERSION:
            raise InfraError(
                f"{self.place.shown} was made by a newer gatekit "
                f"(index version {str(found)[:40]}, this one knows {INDEX_VERSION})",
                reason="history-newer",
                hint="update gatekit, or name another database (history.url)",
            )
        return version

    def _connect(self, driver: ModuleType, parameters: Mapping[str, Any]) -> sa.Connection:
        try:
            return _engine(tuple(sorted(parameters.items()))).connect()
        except (DBAPIError, driver.Error) as error:
            raise self._unreachable(_one_line(_cause(error), hidden_values(parameters))) from error

    def _again(self, *, write: bool) -> sa.Connection | None:
        """The connection of an earlier question, in a new transaction; None where there is none that still works."""
        connection = None if self.place.kept is None else self.place.kept.take()
        if not isinstance(connection, sa.Connection):
            return None
        try:
            self._begin(connection, write=write)
        except DBAPIError as error:
            connection.close()
            if not error.connection_invalidated:
                raise
            return None  # the server went away meanwhile, and may be back
        return connection

    def _begin(self, connection: sa.Connection, *, write: bool) -> None:
        if not write:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        wait, statement = (max(1, round(1000 * limit)) for limit in (self.limit_s, self.limit_s + _STATEMENT_S))
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = {wait}; SET LOCAL statement_timeout = {statement}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {statement}"
        )
        if write:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")

    def _unreachable(self, text: str) -> InfraError:
        for words, reason, hint in _REFUSALS:
            if words in text:
                return InfraError(f"{self.place.shown} refused the connection: {text}", reason=reason, hint=hint)
        return InfraError(
            f"cannot reach {self.place.shown}: {text}",
            reason="history-unreachable",
            hint="check that the server runs and that host and port of history.url are right",
        )

    def _cut(self, text: str) -> InfraError:
        return InfraError(
            f"the connection to {self.place.shown} was cut: {text}",
            reason=CUT,
            hint="check the server and the network",
        )

    def _refused(self, state: str, text: str) -> InfraError:
        shown = self.place.shown
        if state == "55P03":
            return InfraError(
                f"another process kept {shown} locked for {self.limit_s:g} s",
                reason="history-locked",
                hint=rebuild_hint(self.place),
            )
        if state == "42501":
            hint = "the role needs USAGE and, to make the tables, CREATE on the schema, then SELECT and INSERT on them"
            return InfraError(f"{shown} refused: {text}", reason="history-refused", hint=hint)
        if state in ("53100", "53200"):
            hint = "the database server is out of space or memory"
            return InfraError(f"cannot use {shown}: {text}", reason="disk-full", hint=hint)
        hint = "see the server's log; the database must be writable and its encoding UTF8"
        return InfraError(f"cannot use {shown}: {text}", reason="storage-failed", hint=hint)


def _parameters(driver: ModuleType, place: Place) -> dict[str, Any]:
    return {**_DEFAULTS, **parameters(driver, place.url or "")}


def _driver() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError.one(
            f"a PostgreSQL history needs psycopg, which cannot be imported: {error}",
            reason="history-driver-missing",
            where="history.url",
            hint="pip install 'gatekit[postgres]'",
        ) from error
    return psycopg


@contextmanager
def _given_back(kept: Kept | None, connection: sa.Connection) -> Iterator[sa.Connection]:
    """Kept for the next question when all went well, else closed."""
    is_well = False
    try:
        yield connection
        is_well = True
    finally:
        if is_well and kept is not None:
            kept.give(connection)
        else:
            connection.close()


@lru_cache(maxsize=8)
def _engine(parameters: tuple[tuple[str, Any], ...]) -> sa.Engine:
    """Kept because it remembers how statements compile and what the server is; it keeps no connection."""
    driver, known = _driver(), dict(parameters)
    return sa.create_engine("postgresql+psycopg://", creator=lambda: driver.connect(**known), poolclass=NullPool)


def _cause(error: Exception) -> Exception:
    """What the driver raised."""
    return error.orig if isinstance(error, DBAPIError) and isinstance(error.orig, Exception) else error


def _one_line(error: Exception, hidden: Sequence[str]) -> str:
    text = str(error)
    for value in hidden:
        text = text.replace(value, MASK)
    return " ".join(text.split())[:_SHOWN_CHARACTERS]
