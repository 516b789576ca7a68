"""Which locks rest on a run or a series that an act has just changed, and the command that derives each anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gatekit.cli.output import warn
from gatekit.cli.thresholds.lock_folder import lock_folders
from gatekit.errors import InfraError
from gatekit.gate.lock_change import IF_LOOSER
from gatekit.history.place import Place
from gatekit.records.lock import Lock
from gatekit.records.secrets import masked_url
from gatekit.spec.locks import DEFAULT_FOLDER, DEFAULT_HISTORY, LockFile, command_of, locks_in


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
    place: Place,
    run_id: str | None = None,
    is_back: bool = False,
    folder: Path | None = None,
    command: str = "",
) -> list[Resting]:
    """The locks that hold for this key, or with `run_id` only those that were derived from that run: in the default
    folder, in every one that a gate of a run in this history names, and in `folder`.

    A run that `is_back` may come into any lock of its series. `command` is that of the series where it is known, for
    the lock in `folder`; any other names the history and, where it is not the default one, the folder. A folder that
    cannot be read is a warning: the act is made.
    """
    found = [(there.path, there.lock) for there in _locks(place, folder) if there.lock is not None]
    return [
        Resting(
            path=str(path),
            command=command if _is_known(path, folder, command) else command_of(lock, _words(path, place)),
            is_whole=_is_known(path, folder, command),
            contains=_rests(lock, key, run_id),
        )
        for path, lock in found
        if _rests(lock, key, run_id) or (is_back and lock.key == key)
    ]


def _locks(place: Place, folder: Path | None) -> Iterator[LockFile]:
    more = [] if folder is None else [folder]
    try:
        folders = lock_folders([place], *more)
    except InfraError as error:
        warn(error.message)
        folders = [DEFAULT_FOLDER, *more]
    for one in folders:
        try:
            yield from locks_in(one)
        except InfraError as error:
            warn(error.message)


def _is_known(path: Path, folder: Path | None, command: str) -> bool:
    return bool(command) and path.parent == folder


def _rests(lock: Lock, key: str, run_id: str | None) -> bool:
    return lock.key == key if run_id is None else run_id in lock.used


def _words(path: Path, place: Place) -> list[str]:
    """The folder, and the history where it is not the default one, which the model's config may name itself."""
    words = [] if path.parent == DEFAULT_FOLDER else [f"gate.locks={path.parent}"]
    words += ["--dir", str(place.dir)] if str(place.dir) != DEFAULT_HISTORY else []
    words += ["--url", masked_url(place.url)] if place.url is not None else []
    return [*words, "--write"]
