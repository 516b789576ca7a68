"""Which locks rest on a run or a series that an act has just changed, and the command that derives each anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatekit.cli.output import warn
from gatekit.errors import InfraError
from gatekit.gate.lock_change import IF_LOOSER
from gatekit.history.place import Place
from gatekit.records.lock import Lock
from gatekit.records.secrets import masked_url
from gatekit.spec.locks import DEFAULT_FOLDER, DEFAULT_HISTORY, command_of, locks_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A lock that an act touches. `is_whole` says that the command has every override that it was derived with,
    `contains` that it was derived from the run, or the series, that the act is about."""

    path: str
    command: str
    is_whole: bool
    contains: bool

    def line(self) -> str:
        """What is to be done next."""
        other = "" if self.is_whole else "with its other overrides, if any: "
        rests = "rests on it" if self.contains else "does not contain it yet"
        return f"next: {self.path} {rests}; {other}{self.command}{IF_LOOSER}"


def locks_on(
    key: str,
    *,
    run_id: str | None = None,
    is_back: bool = False,
    folder: Path = DEFAULT_FOLDER,
    command: str = "",
    place: Place | None = None,
) -> list[Resting]:
    """The locks of `folder` that hold for this key, or with `run_id` only those that were derived from that run.

    A run that `is_back` may come into any lock of its series. `command` is that of the series where it is known, else
    it names the `place` of the history. A folder that cannot be read is a warning: the act is made.
    """
    try:
        found = [(there.path, there.lock) for there in locks_in(folder) if there.lock is not None]
    except InfraError as error:
        warn(error.message)
        return []
    return [
        Resting(
            path=str(path),
            command=command or command_of(lock, [*_words(place), "--write"]),
            is_whole=bool(command),
            contains=_rests(lock, key, run_id),
        )
        for path, lock in found
        if _rests(lock, key, run_id) or (is_back and lock.key == key)
    ]


def _rests(lock: Lock, key: str, run_id: str | None) -> bool:
    return lock.key == key if run_id is None else run_id in lock.used


def _words(place: Place | None) -> list[str]:
    """The history where it is not the default one, which the model's config may name itself."""
    if place is None:
        return []
    words = ["--dir", str(place.dir)] if str(place.dir) != DEFAULT_HISTORY else []
    return words + (["--url", masked_url(place.url)] if place.url is not None else [])
