"""The next commands about a history, as hints name them: each speaks of the same folder and database."""

from __future__ import annotations

import shlex

from gatekit.history.place import DEFAULT_DIR, INDEX_FILE, URL_VARIABLE, Place


def history_command(place: Place, name: str, *arguments: str) -> str:
    """A command of `gatekit history` for this place, as it is typed. A URL that is from a variable is left to it:
    nothing of a password is shown, and the command works.

    >>> from pathlib import Path
    >>> history_command(Place(dir=Path("my runs")), "list")
    "gatekit history list --dir 'my runs'"
    """
    return " ".join([shlex.join(["gatekit", "history", name, "--dir", str(place.dir)]), *_url(place), *arguments])


def explain_command(place: Place, run_id: str) -> str:
    """`gatekit explain` of a run of this place; the default one needs no words.

    >>> from pathlib import Path
    >>> explain_command(Place(dir=Path(".gatekit")), "night"), explain_command(Place(dir=Path("month")), "night")
    ('gatekit explain night', 'gatekit explain night --dir month')
    """
    return " ".join([shlex.join(["gatekit", "explain", run_id, *_dir(place)]), *_url(place)])


def resume_command(place: Place, run_id: str) -> str:
    """`gatekit run --resume` of a run of this place; the default one needs no words."""
    return shlex.join(["gatekit", "run", "--resume", run_id, *_dir(place)])


def show_command(place: Place, run_id: str) -> str:
    """`gatekit history show` of a run of this place; the default one needs no words."""
    return " ".join([shlex.join(["gatekit", "history", "show", run_id, *_dir(place)]), *_url(place)])


def hint_here(hint: str, place: Place, run_id: str) -> str:
    """A verdict's hint as it is printed: its commands are about this run, in this place."""
    hint = hint.replace("gatekit history show RUN", show_command(place, run_id))
    return f"{hint} ".replace(" RUN ", f" {run_id} ").rstrip()


def _dir(place: Place) -> list[str]:
    return [] if str(place.dir) == DEFAULT_DIR else ["--dir", str(place.dir)]


def _url(place: Place) -> list[str]:
    if place.url is None or place.variable == URL_VARIABLE:
        return []
    return ["--url", shlex.quote(place.shown) if place.variable is None else f'"${place.variable}"']


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
