"""Which history: the folder of its record files, and the database of its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.records.secrets import masked_url
from gatekit.records.spec import History

INDEX_FILE = "index.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A history. `url` is a PostgreSQL database; None is SQLite in the folder."""

    dir: Path
    url: str | None = None

    @property
    def shown(self) -> str:
        """The database as it may be printed: never with its password."""
        return str(self.dir / INDEX_FILE) if self.url is None else masked_url(self.url)


def place_of(history: History, environ: Mapping[str, str]) -> Place:
    """The place that a spec names; a `url_env` that is not set leaves the database of the folder."""
    from_variable = environ.get(history.url_env) if history.url_env else None
    return Place(dir=Path(history.dir), url=history.url or from_variable or None)
