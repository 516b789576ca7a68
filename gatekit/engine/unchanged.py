"""Whether the files that a server loads are those that were checked: nobody wrote, replaced or linked them anew."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.report.escape import escape_terminal

_SHOWN_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a file is now. The time of its last change (`changed_ns`) can be set by nobody, and renaming moves it.

    The inode's number is left out: network and FUSE mounts number a file anew whenever they like.
    """

    real_path: str
    size_bytes: int
    written_ns: int
    changed_ns: int


def stamps(files: Iterable[Path]) -> dict[Path, Stamp]:
    """The stamps of those that are regular files."""
    found = ((path, _stamp(path)) for path in files)
    return {path: stamp for path, stamp in found if stamp is not None}


def refuse_changed(before: Mapping[Path, Stamp], *, when: str) -> None:
    """Raise InfraError where a file has another stamp than before, or is gone."""
    changed = [path for path, stamp in before.items() if _stamp(path) != stamp]
    if changed:
        shown = ", ".join(escape_terminal(str(path), limit=200) for path in changed[:_SHOWN_FILES])
        more = ", ..." if len(changed) > _SHOWN_FILES else ""
        raise InfraError(
            f"the model's files changed {when}: {shown}{more}; which bytes were loaded is not known",
            reason="weights-changed",
            hint="run again once nobody writes to them",
        )


def _stamp(path: Path) -> Stamp | None:
    try:
        status, real_path = path.stat(), path.resolve()
    except (OSError, RuntimeError, ValueError):  # a circle of links; a name that no file can have
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(
        real_path=str(real_path),
        size_bytes=status.st_size,
        written_ns=status.st_mtime_ns,
        changed_ns=status.st_ctime_ns,
    )
