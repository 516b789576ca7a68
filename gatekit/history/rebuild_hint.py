"""The commands that bring record files into the index, as a hint names them."""

from __future__ import annotations

import shlex

from gatekit.history.place import Place


def rebuild_hint(place: Place) -> str:
    """How every record gets into the index."""
    return f"`{_command(place, 'rebuild')}` indexes every record"


def sync_hint(place: Place) -> str:
    """How the records that the index misses get into it."""
    return f"`{_command(place, 'sync')}` adds it"


def _command(place: Place, name: str) -> str:
    url = [] if place.url is None else ["--url", place.shown]
    return shlex.join(["gatekit", "history", name, "--dir", str(place.dir), *url])
