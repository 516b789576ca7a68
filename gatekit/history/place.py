"""Which history: the folder of its record files, and the database of its index."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from gatekit.records.secrets import masked_url
from gatekit.records.spec import History

INDEX_FILE = "index.sqlite"
DEFAULT_DIR = ".gatekit"
URL_VARIABLE = "GATEKIT_HISTORY_URL"


class Closable(Protocol):
    """An open connection."""

    def close(self) -> None:
        """Give it up."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """A connection that is free between two questions to one database; None while it is used, or there is none."""

    free: Closable | None = None
    is_over: bool = False

    def take(self) -> Closable | None:
        """The free connection, which is the caller's now."""
        taken, self.free = self.free, None
        return taken

    def give(self, connection: Closable) -> None:
        """Take back a connection whose transaction is over; a second one is closed."""
        if self.is_over or self.free is not None:
            connection.close()
        else:
            self.free = connection

    def close(self) -> None:
        """Close the free connection, and every one that comes back."""
        self.is_over = True
        free = self.take()
        if free is not None:
            free.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A history. `url` is a PostgreSQL database; None is SQLite in the folder.

    With `kept` a server is connected to once for several questions: see `connected`. `variable` names the variable
    of the environment that the URL is from.
    """

    dir: Path
    url: str | None = None
    kept: Kept | None = field(default=None, compare=False, repr=False)
    variable: str | None = field(default=None, compare=False)

    @property
    def file(self) -> Path:
        """The SQLite file. A link is followed: SQLite keeps its journal beside the file that it leads to."""
        path = self.dir / INDEX_FILE
        return Path(os.path.realpath(path)) if os.path.islink(path) else path  # noqa: PTH114 - raises nothing

    @property
    def shown(self) -> str:
        """The database as it may be printed: never with its password."""
        return str(self.dir / INDEX_FILE) if self.url is None else masked_url(self.url)


def place_of(history: History, environ: Mapping[str, str]) -> Place:
    """The place that a spec names; a `url_env` that is not set leaves the database of the folder."""
    from_variable = environ.get(history.url_env) if history.url_env else None
    url = history.url or from_variable or None
    return Place(dir=Path(history.dir), url=url, variable=None if history.url or not url else history.url_env)


@contextmanager
def connected(place: Place) -> Iterator[Place]:
    """The same place, whose database server is connected to once for all that is asked inside."""
    kept = Kept()
    try:
        yield replace(place, kept=kept)
    finally:
        kept.close()
