"""Which config files take the place of others of the same name, so that nobody is surprised by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir
from gatekit.spec.folders import GROUPS, ROOT_FILE, is_file
from gatekit.spec.library import Library
from gatekit.spec.reader import display


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadowing:
    """The file that is used for an option, and those of the same name that are not.

    `option` is `group=name`, or `config.yaml` for the file at the root of a folder.
    """

    option: str
    used: Path
    hidden: tuple[Path, ...]

    def line(self) -> str:
        """What shadows what, on one line."""
        return f"{self.option}: {display(self.used)} shadows {', '.join(map(_shown, self.hidden))}"


def shadowings(library: Library) -> tuple[Shadowing, ...]:
    """Every option of any group that stands in several folders, by group and name."""
    if len(library.dirs) < 2:
        return ()
    named = [(f"{group}={option}", f"{group}/{option}.yaml") for group in GROUPS for option in library.options(group)]
    found = (_shadowing(library.dirs, option, name) for option, name in [(ROOT_FILE, ROOT_FILE), *named])
    return tuple(one for one in found if one is not None)


def used_by(library: Library, asked: Iterable[Sequence[str]]) -> tuple[Shadowing, ...]:
    """Those whose files make a part of the specs that the sets of overrides ask for, each once.

    A spec that cannot be composed has none: its problems name their files.
    """
    everything = {one.used: one for one in shadowings(library)}
    if not everything:
        return ()
    read: dict[Path, None] = {}
    for overrides in asked:
        try:
            documents = library.compose(overrides).documents
        except ConfigError:
            continue
        read |= dict.fromkeys(document.path for _, document in reversed(documents))
    return tuple(everything[path] for path in read if path in everything)


def _shadowing(folders: Sequence[Path], option: str, name: str) -> Shadowing | None:
    there = [path for folder in folders if is_file(path := folder / name)]
    used = next(iter(there), None)
    # A link to the shipped file is that file.
    hidden = tuple(path for path in there[1:] if used is not None and not _is_same(path, used))
    return None if used is None or not hidden else Shadowing(option=option, used=used, hidden=hidden)


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _shown(path: Path) -> str:
    is_shipped = path.is_relative_to(conf_dir().resolve())
    return f"the shipped {path.relative_to(conf_dir().resolve())}" if is_shipped else display(path)
