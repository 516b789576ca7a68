"""Which specs a command is about: the one that overrides ask for, or every model on a machine that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.spec.library import Library

# Only these can go away with another machine.
OF_THE_MACHINE = frozenset({"fp4-needs-blackwell", "architecture-mismatch", "too-few-gpus"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A spec and the overrides that ask for it."""

    spec: Spec
    overrides: tuple[str, ...]


def every_model(
    overrides: Sequence[str], *, dirs: Sequence[Path], library: Library | None = None
) -> tuple[list[Selected], list[Problem]]:
    """Every model of the group with these overrides, and the problems of those that cannot be resolved."""
    library = library or Library(dirs)
    selected: list[Selected] = []
    problems: list[Problem] = []
    for model in library.options("model"):
        try:
            selected.append(_on_some_machine([f"model={model}", *overrides], library))
        except ConfigError as error:
            problems += error.problems
    return selected, list(dict.fromkeys(problems))


def on_some_machine(overrides: Sequence[str], *, dirs: Sequence[Path]) -> Selected:
    """The spec on the machine it names, on its default one, or on the first that satisfies its rules."""
    return _on_some_machine(overrides, Library(dirs))


def _on_some_machine(overrides: Sequence[str], library: Library) -> Selected:
    try:
        return Selected(spec=library.resolve(overrides), overrides=tuple(overrides))
    except ConfigError as error:
        reasons = {problem.reason for problem in error.problems}
        if not reasons <= OF_THE_MACHINE or any(override.startswith("hw=") for override in overrides):
            raise
        first = error
    for machine in library.options("hw"):
        there = (*overrides, f"hw={machine}")
        try:
            return Selected(spec=library.resolve(there), overrides=there)
        except ConfigError:
            continue
    raise first
