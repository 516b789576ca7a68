"""What a URL of a PostgreSQL database must look like: known without a server."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from gatekit.errors import ConfigError

_SCHEME = re.compile(r"postgres(?:ql)?://", re.IGNORECASE)


def check_url(url: str) -> None:
    """Raise ConfigError, without any part of a password, unless the URL is one of PostgreSQL.

    Where psycopg is installed, that is what libpq can read.
    """
    _check_form(url)
    try:
        import psycopg
    except ImportError:
        return
    parameters(psycopg, url)


def parameters(driver: ModuleType, url: str) -> dict[str, Any]:
    """The parameters of a connection, by the names of libpq. Raises ConfigError as `check_url`."""
    _check_form(url)
    try:
        found: dict[str, Any] = driver.conninfo.conninfo_to_dict(_SCHEME.sub("postgresql://", url, count=1))
    except driver.Error:  # its text may quote a part of the password
        raise _bad_url("it is no URL of PostgreSQL") from None
    return found


def _check_form(url: str) -> None:
    if not _SCHEME.match(url):
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,30}(?=://)", url)
        what = f"{scheme.group()}:// is no database" if scheme else "the history's url names no database"
        raise ConfigError.one(
            f"{what} that gatekit knows",
            reason="bad-history-url",
            where="history.url",
            hint="write postgresql://USER@HOST/DATABASE, or leave it out for SQLite in history.dir",
        )
    before_query = url.split("://", 1)[1].split("?", 1)[0]
    authority = before_query.split("/", 1)[0]
    if before_query.count("@") > authority.count("@") or authority.count("@") > 1:
        raise _bad_url("its password, or its user, has an @ or a / that must be written as %40 or %2F")


def _bad_url(why: str) -> ConfigError:
    hint = "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX"
    what = f"the history's url is wrong: {why}"
    return ConfigError.one(what, reason="bad-history-url", where="history.url", hint=hint)
