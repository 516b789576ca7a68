"""What is wrong with lock files, whatever spec they are for: their form, digest, and the name they stand under."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gatekit.errors import Problem
from gatekit.spec.locks import SUFFIX, file_name, look
from gatekit.spec.reader import display

FOLDER = "thresholds"
_COMMAND = "gatekit thresholds recompute ... --write"
_SHOWN_CHARACTERS = 80
_LOOKS_LIKE_ONE = (".yaml", ".yml", ".json", ".YAML", ".YML")


def is_lock(path: Path) -> bool:
    """Whether a file of that name is read as a lock."""
    return path.name.endswith(SUFFIX) and path.name != SUFFIX


def holds_locks(folder: Path) -> bool:
    """Whether a folder is one of locks: by its name, or by what is in it. Raises OSError."""
    return folder.is_dir() and (folder.name == FOLDER or any(map(is_lock, folder.iterdir())))


def locks_of(folder: Path) -> list[Path]:
    """The lock files of a folder of locks and of those within it, by their paths."""
    return sorted(filter(is_lock, folder.rglob(f"*{SUFFIX}")))


def strays_of(folder: Path) -> Iterator[Problem]:
    """Files among the locks that look like locks, and that nothing reads. Raises OSError."""
    for file in sorted(folder.iterdir()):
        if file.suffix in _LOOKS_LIKE_ONE and not is_lock(file) and not file.name.startswith("."):
            yield misnamed(file)


def misnamed(file: Path) -> Problem:
    """What is wrong with a file beside the locks that is not called like one."""
    what, hint = f"is never read: locks end in {SUFFIX}", "give it the name of its spec, or move it elsewhere"
    return Problem(where=display(file), what=what, reason="bad-file-name", hint=hint)


def problems(locks: Sequence[Path]) -> Iterator[Problem]:
    """What is wrong with each of the lock files."""
    for path in locks:
        found = look(path, None, _COMMAND)
        if found.flaw is not None:
            yield found.flaw
        elif found.lock is None:
            yield Problem(where=display(path), what="no such file or folder", reason="no-such-path")
        elif file_name(found.lock.spec) != path.name:
            what = f"this is the lock of another spec, {found.lock.spec[:_SHOWN_CHARACTERS]}"
            hint = f"name it as its spec, or make the one that belongs here: `{_COMMAND}`"
            yield Problem(where=f"{display(path)}:1:1", what=what, reason="lock-of-another-spec", hint=hint)
