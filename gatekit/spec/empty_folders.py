"""Config folders that hold no config group: a wrong path, from which nothing comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gatekit.errors import Problem
from gatekit.spec.folders import GROUPS, without_groups
from gatekit.spec.reader import display

REASON = "empty-config-dir"


def empty_folders(folders: Sequence[Path]) -> Iterator[Problem]:
    """One problem for each folder that holds no config group, with the one beneath it that may have been meant."""
    for folder, meant in without_groups([folder.resolve() for folder in folders]):
        hint = f"groups are {', '.join(GROUPS)}" if meant is None else f"did you mean {display(meant)}?"
        what = f"config folder {display(folder)!r} holds no config group"
        yield Problem(where="", what=what, reason=REASON, hint=hint)
