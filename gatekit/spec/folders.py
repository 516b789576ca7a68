"""The folders that configs come from: which are given, that each can be read, and what is in none of them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gatekit.errors import ConfigError, Problem

GROUPS = ("model", "hw", "engine", "protocol", "task", "gate", "history", "matrix")
CHOSEN_GROUPS = GROUPS[:-1]
ROOT_FILE = "config.yaml"
_TYPED = re.compile(r"(?=.*[A-Za-z_])[A-Za-z0-9_][A-Za-z0-9_-]*")
_NOT_A_NAME = frozenset({"true", "false", "null", "nan", "inf"})


def can_be_chosen(option: str) -> bool:
    """Whether GROUP=OPTION means this option when it is typed; one of another name is nowhere an option."""
    return _TYPED.fullmatch(option) is not None and option.lower() not in _NOT_A_NAME


def group_of(path: Path) -> str | None:
    """The group that a config file speaks about: "" for the root file, None for a file in no group's folder."""
    folder = path.parent
    is_root = path.name == ROOT_FILE and (folder.name not in GROUPS or any((folder / each).is_dir() for each in GROUPS))
    return "" if is_root else folder.name if folder.name in GROUPS else None


def naming(folders: Iterable[str]) -> list[str]:
    """The words that name these config folders; the name of one may begin with a dash.

    >>> naming(["conf", "-c"])
    ['--config-dir', 'conf', '--config-dir=-c']
    """
    return [
        word
        for folder in folders
        for word in ([f"--config-dir={folder}"] if folder.startswith("-") else ["--config-dir", folder])
    ]


def is_file(path: Path) -> bool:
    """Whether there is a file, or something that may be one and cannot be looked at: reading it says why."""
    try:
        return path.is_file()
    except OSError:
        return True


def usable(named: Sequence[tuple[str, str]]) -> tuple[Path, ...]:
    """The folders of (where it was named, name) pairs as they are named, each once, the first one kept.

    Raises ConfigError with a line for each that is empty, missing, no folder, or cannot be read.
    """
    problems: list[Problem] = []
    folders: dict[tuple[int, int], Path] = {}
    for where, name in named:
        try:
            folders.setdefault(_identity(name), Path(name))
        except OSError as error:
            problems.append(_problem(where, name, error))
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return tuple(folders.values())


def without_groups(folders: Sequence[Path]) -> Iterator[tuple[Path, Path | None]]:
    """The folders that hold no config group, so that nothing comes from them, each with what may have been meant."""
    for folder in folders:
        if not _holds_configs(folder):
            beneath = (folder / "conf", folder.parent if folder.name in GROUPS else folder / "conf")
            yield folder, next(filter(_holds_configs, beneath), None)


def _holds_configs(folder: Path) -> bool:
    return (folder / ROOT_FILE).is_file() or any((folder / group).is_dir() for group in GROUPS)


def _identity(name: str) -> tuple[int, int]:
    """Device and inode of a folder whose groups can be listed. Raises OSError."""
    status = os.stat(name)  # noqa: PTH116 - Path("") is the working directory
    with os.scandir(name) as entries:
        groups = [entry.path for entry in entries if entry.name in GROUPS and entry.is_dir()]
    for group in groups:
        with os.scandir(group):
            os.stat(Path(group) / ".")  # noqa: PTH116 - a folder that may be listed but not entered
    return status.st_dev, status.st_ino


def _problem(where: str, name: str, error: OSError) -> Problem:
    hint = "`gatekit init model NAME` makes one"
    if not name:
        return Problem(where=where, what="names no folder", reason="no-config-dir", hint="name it, such as ./conf")
    if isinstance(error, FileNotFoundError):
        return Problem(where=where, what=f"config folder {name!r} does not exist", reason="no-config-dir", hint=hint)
    if isinstance(error, NotADirectoryError):
        what = f"config folder {name!r} is a file"
        within = [above for above in Path(name).parents if above.name in GROUPS and _is_file(name)]
        hint = f"did you mean {within[0].parent}?" if within else "name the folder that holds model/, hw/, ..."
        return Problem(where=where, what=what, reason="no-config-dir", hint=hint)
    place = str(error.filename or name)
    what = f"config folder {place!r} cannot be read: {error.strerror}"
    return Problem(where=where, what=what, reason="unreadable-config-dir", hint="")


def _is_file(name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name).st_mode)  # noqa: PTH116 - as above
    except OSError:
        return False
