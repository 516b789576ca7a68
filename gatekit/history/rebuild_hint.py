"""The next commands about a history, as hints name them: each speaks of the same folder and database."""

from __future__ import annotations

import shlex

from gatekit.history.place import INDEX_FILE, Place


def history_command(place: Place, name: str, *arguments: str) -> str:
    """A command of `gatekit history` for this place, as it is typed.

    >>> from pathlib import Path
    >>> history_command(Place(dir=Path("my runs")), "list")
    "gatekit history list --dir 'my runs'"
    """
    url = [] if place.url is None else ["--url", place.shown]
    return " ".join([shlex.join(["gatekit", "history", name, "--dir", str(place.dir), *url]), *arguments])


def rebuild_hint(place: Place) -> str:
    """How every record gets into the index."""
    return f"`{history_command(place, 'rebuild')}` indexes every record"


def sync_hint(place: Place) -> str:
    """How the records that the index misses get into it."""
    return f"`{history_command(place, 'sync')}` adds it"


def remake_hint(place: Place) -> str:
    """What to do about an index that is not what its records say.

    A server's database is never given up: it holds the order of runs whose records are on several machines.
    """
    if place.url is None:
        return f"move {INDEX_FILE} away, then {rebuild_hint(place)}"
    command = history_command(place, "rebuild")
    return f"restore the database from a backup; or keep it, and fill a new one by `{command}` on every machine"


def taken_hint(place: Place) -> str:
    """What to do about a record whose run id the index holds with other content."""
    runs = place.dir / "runs"
    return f"two runs need two run ids: keep the file elsewhere, move its folder out of {runs}, and run again"
