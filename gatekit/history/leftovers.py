"""Files that a writer left behind who was killed before they had their names; nothing reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from gatekit.history.acts import ACTS_FOLDER
from gatekit.history.arrivals import ARRIVALS_FILE
from gatekit.history.durable_files import storage_error
from gatekit.history.place import Place

GRACE_S = 600.0
"""How old one must be: whoever writes a file is done with it long before."""


def leftovers(place: Place) -> tuple[Path, ...]:
    """Those that are older than GRACE_S; of a folder that cannot be read there are none."""
    until = time.time() - GRACE_S
    return tuple(path for path in _unnamed(place) if _is_older(path, until))


def remove_leftovers(place: Place) -> int:
    """How many there were; they are gone now. Raises InfraError when one cannot be removed."""
    found = leftovers(place)
    for path in found:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error("remove", path, error) from error
    return len(found)


def _unnamed(place: Place) -> Iterator[Path]:
    yield from place.dir.glob(f".{ARRIVALS_FILE}.*.tmp")
    yield from (place.dir / ACTS_FOLDER).glob(".*.json.*.tmp")
    yield from (place.dir / "runs").glob("*/.record.json.*.tmp")


def _is_older(path: Path, until: float) -> bool:
    try:
        return path.lstat().st_mtime < until
    except OSError:  # its writer came to the end
        return False
