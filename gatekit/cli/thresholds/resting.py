"""Which locks rest on a run or a series that an act has just changed, and the command that derives each anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatekit.cli.output import warn
from gatekit.errors import InfraError
from gatekit.records.lock import Lock
from gatekit.spec.locks import DEFAULT_FOLDER, command_of, locks_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A lock that an act touches. `is_whole` says that the command has every override that it was derived with."""

    path: str
    command: str
    is_whole: bool

    def line(self) -> str:
        """What is to be done next."""
        other = "" if self.is_whole else "with its other overrides, if any: "
        return f"next: {self.path} rests on it; {other}{self.command}"


def locks_on(key: str, *, run_id: str | None = None, folder: Path = DEFAULT_FOLDER, command: str = "") -> list[Resting]:
    """The locks of `folder` that hold for this key, or with `run_id` only those that were derived from that run.

    `command` is that of the series where it is known. A folder that cannot be read is a warning: the act is made.
    """
    try:
        found = [(there.path, there.lock) for there in locks_in(folder) if there.lock is not None]
    except InfraError as error:
        warn(error.message)
        return []
    return [
        Resting(path=str(path), command=command or f"{command_of(lock)} --write", is_whole=bool(command))
        for path, lock in found
        if _rests(lock, key, run_id)
    ]


def _rests(lock: Lock, key: str, run_id: str | None) -> bool:
    return lock.key == key if run_id is None else run_id in lock.used
