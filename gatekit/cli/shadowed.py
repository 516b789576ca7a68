"""What a command says about its config folders before it uses them: files that shadow others, folders without any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.output import warn

if TYPE_CHECKING:
    from gatekit.spec.library import Library


def announce(dirs: Sequence[Path], asked: Iterable[Sequence[str]], library: Library | None = None) -> None:
    """Warn, once each, of the shadowing files that make a part of the specs that these sets of overrides ask for."""
    if len(dirs) < 2:
        return
    from gatekit.spec.library import Library
    from gatekit.spec.shadowing import used_by

    _say_empty(dirs)
    for one in used_by(library or Library(dirs), asked):
        warn(f"{one.line()} [shadowed]")


def announce_all(library: Library) -> None:
    """Warn of every file that shadows another one, whether or not a spec asks for it.

    Folders without a group are not told here: for the commands that look at all configs they are mistakes.
    """
    from gatekit.spec.shadowing import shadowings

    for one in shadowings(library):
        warn(f"{one.line()} [shadowed]")


def _say_empty(dirs: Sequence[Path]) -> None:
    from gatekit.spec.empty_folders import empty_folders

    for problem in empty_folders(dirs):
        warn(problem.line())
