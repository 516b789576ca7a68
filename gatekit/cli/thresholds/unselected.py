"""Lock files that no selected spec names: whether they are intact, and how each is checked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gatekit.cli.thresholds.selecting import Failure, folders_of
from gatekit.errors import ConfigError, ExitCode, GatekitError
from gatekit.report.thresholds import Threshold
from gatekit.spec.locks import DEFAULT_FOLDER, LockFile, command_of, locks_in


def and_unselected(found: Iterable[Threshold | Failure], options: Namespace) -> Iterator[Threshold | Failure]:
    """The same, and a line for every other lock in their folders and the default one: exit 2 for one that is broken."""
    folders, seen = {DEFAULT_FOLDER}, set()
    for one in found:
        if isinstance(one, Threshold):
            folders.add(Path(one.path).parent)
            seen.add(Path(one.path))
        yield one
    for folder in sorted(folders):
        try:
            yield from (_line(there, folders_of(options)) for there in locks_in(folder) if there.path not in seen)
        except GatekitError as error:
            yield Failure.of(error)


def _line(there: LockFile, folders: Sequence[str]) -> Failure:
    if there.flaw is not None:
        return Failure.of(ConfigError([there.flaw]))
    assert there.lock is not None
    said = f"not checked: {there.path}: no selected spec names it; with its other overrides, if any: "
    return Failure(lines=(f"{said}{command_of(there.lock, [*folders, '--check'])}",), code=ExitCode.PASS)
