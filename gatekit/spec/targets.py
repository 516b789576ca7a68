"""What paths on a command line mean: which files of which config folder."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.spec.folders import GROUPS, ROOT_FILE, can_be_chosen, usable
from gatekit.spec.lock_check import FOLDER, holds_locks, is_lock, locks_of, misnamed, strays_of
from gatekit.spec.reader import display

SUFFIX = ".yaml"
_MISNAMED = frozenset({".yml", ".json", ".YAML", ".YML"})
_NAMES = f"config files are GROUP/NAME{SUFFIX}; groups are {', '.join(GROUPS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The files to look at by the config folder they belong to, lock files, and what is wrong with paths and names."""

    files: Mapping[Path, tuple[Path, ...]]
    problems: tuple[Problem, ...]
    locks: tuple[Path, ...] = ()


def targets(paths: Iterable[Path]) -> Targets:
    """What the paths name: folders of groups, group folders, folders of locks, or single files; each file once.

    All of them are absolute. A folder of groups is looked at with the folders of locks in it.
    """
    files: dict[Path, dict[Path, None]] = {}
    problems: list[Problem] = []
    locks: dict[Path, None] = {}
    for path in paths:
        found = _named(path)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        locks |= dict.fromkeys(found.locks)
        problems += found.problems
        if found.root is None:
            continue
        try:
            usable([(str(path), display(found.root))])
        except ConfigError as error:
            problems += error.problems
            continue
        files.setdefault(found.root, {}).update(dict.fromkeys(found.files))
    return Targets(
        files={root: tuple(chosen) for root, chosen in files.items()},
        problems=tuple(dict.fromkeys(problems)),
        locks=tuple(locks),
    )


def holds_groups(folder: Path) -> bool:
    """Whether a folder is one that configs come from."""
    return any((folder / group).is_dir() for group in GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one path names: files of the config folder `root`, and locks, which belong to none."""

    root: Path | None = None
    files: Sequence[Path] = ()
    problems: Sequence[Problem] = ()
    locks: Sequence[Path] = ()


def _named(path: Path) -> _Found | Problem:
    try:
        if not path.exists() and not path.is_symlink():
            return Problem(where=str(path), what="no such file or folder", reason="no-such-path")
        # The name as it was typed tells the group, even of a link.
        whole = path.absolute()
        return _folder(whole) if whole.is_dir() else _file(whole)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Problem(where=str(path), what=f"cannot be read: {why}", reason="unreadable-file")


def _folder(path: Path) -> _Found | Problem:
    if holds_groups(path):
        root = path.resolve()
        inside = [*_lock_folders(root)]
        locks = [file for folder in inside for file in locks_of(folder)]
        wrong = [*_strays(root), *(stray for folder in inside for stray in strays_of(folder))]
        return _Found(root=root, files=_files(root), problems=wrong, locks=locks)
    if path.name in GROUPS:
        root = path.parent.resolve()
        # Links stay unfollowed: it is the name that tells the group, and the option.
        chosen = [root / path.name / file.name for file in _options(path)]
        return _Found(root=root, files=chosen, problems=[*_misnamed(path), *_nested(path)])
    if holds_locks(path):
        return _Found(locks=locks_of(path), problems=[*strays_of(path)])
    if holds_groups(path / "conf"):
        return _folder(path / "conf")
    inside = [*_lock_folders(path)]
    if inside:
        return _Found(locks=[file for folder in inside for file in locks_of(folder)])
    return Problem(where=display(path), what="holds no config group", reason="no-group", hint=_NAMES)


def _lock_folders(root: Path) -> Iterator[Path]:
    """The folders of locks in a config folder, which are beside its groups."""
    yield from (folder for folder in sorted(root.iterdir()) if folder.name not in GROUPS and holds_locks(folder))


def _file(path: Path) -> _Found | Problem:
    if is_lock(path) and path.parent.name not in GROUPS:
        return _Found(locks=[path])
    root = path.parent if path.name == ROOT_FILE and path.parent.name not in GROUPS else path.parent.parent
    is_root_file = root == path.parent and holds_groups(root)
    if not is_root_file and path.parent.name not in GROUPS:
        if path.parent.name == FOLDER:
            return misnamed(path)
        return Problem(where=display(path), what="belongs to no config group", reason="no-group", hint=_NAMES)
    problems = [*_name_problems(path)] if not is_root_file else []
    inside = root.resolve()
    file = inside / path.name if is_root_file else inside / path.parent.name / path.name
    return _Found(root=inside, files=[file] if path.suffix == SUFFIX else [], problems=problems)


def _files(root: Path) -> list[Path]:
    found = [root / ROOT_FILE] if (root / ROOT_FILE).exists() else []
    return found + [file for group in GROUPS for file in _options(root / group)]


def _options(group: Path) -> list[Path]:
    return sorted(group.glob(f"*{SUFFIX}")) if group.is_dir() else []


def _strays(root: Path) -> Iterator[Problem]:
    """Files that nobody will read, because of their own name or their folder's."""
    for file in _options(root):
        if file.name != ROOT_FILE and not file.name.startswith(".") and not file.is_dir():
            yield _of_no_group(file)
    for folder in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        if folder.name in GROUPS:
            yield from _misnamed(folder)
            yield from _nested(folder)
        elif near := difflib.get_close_matches(folder.name, GROUPS, n=1, cutoff=0.7):
            for file in _options(folder):
                hint = f"did you mean {near[0]}/{file.name}?"
                yield Problem(where=display(file), what="belongs to no config group", reason="no-group", hint=hint)


def _nested(group: Path) -> Iterator[Problem]:
    """Files in folders within a group's folder, which are no options."""
    for place, folders, names in os.walk(group):
        folders.sort()
        if place != str(group):
            yield from (_of_no_group(Path(place) / name) for name in sorted(names) if name.endswith(SUFFIX))


def _of_no_group(file: Path) -> Problem:
    return Problem(where=display(file), what="belongs to no config group", reason="no-group", hint=_NAMES)


def _misnamed(group: Path) -> Iterator[Problem]:
    for file in sorted(group.iterdir()):
        yield from _name_problems(file)


def _name_problems(file: Path) -> Iterator[Problem]:
    where = display(file)
    if file.suffix in _MISNAMED:
        hint = f"rename it to {file.stem}{SUFFIX}"
        yield Problem(where=where, what=f"is never read: options end in {SUFFIX}", reason="bad-file-name", hint=hint)
    elif file.suffix == SUFFIX and not can_be_chosen(file.stem):
        what = f"{file.stem!r} cannot be chosen as {file.parent.name}=NAME"
        hint = "name it with letters, digits, _ and -"
        yield Problem(where=where, what=what, reason="bad-file-name", hint=hint)
