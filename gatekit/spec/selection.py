"""Which specs a command is about: the one that overrides ask for, or every model on a machine that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.spec.compose import options
from gatekit.spec.resolve import resolve

# Only these can go away with another machine.
_OF_THE_MACHINE = frozenset({"fp4-needs-blackwell", "architecture-mismatch", "too-few-gpus"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A spec and the overrides that ask for it."""

    spec: Spec
    overrides: tuple[str, ...]


def every_model(overrides: Sequence[str], *, dirs: Sequence[Path]) -> tuple[list[Selected], list[Problem]]:
    """Every model of the group with these overrides, and the problems of those that cannot be resolved."""
    selected: list[Selected] = []
    problems: list[Problem] = []
    for model in options("model", config_dirs=dirs):
        try:
            selected.append(on_some_machine([f"model={model}", *overrides], dirs=dirs))
        except ConfigError as error:
            problems += error.problems
    return selected, list(dict.fromkeys(problems))


def on_some_machine(overrides: Sequence[str], *, dirs: Sequence[Path]) -> Selected:
    """The spec on the machine it names, on its default one, or on the first that satisfies its rules."""
    try:
        return Selected(spec=resolve(overrides, dirs=dirs), overrides=tuple(overrides))
    except ConfigError as error:
        reasons = {problem.reason for problem in error.problems}
        if not reasons <= _OF_THE_MACHINE or any(override.startswith("hw=") for override in overrides):
            raise
        first = error
    for machine in options("hw", config_dirs=dirs):
        there = (*overrides, f"hw={machine}")
        try:
            return Selected(spec=resolve(there, dirs=dirs), overrides=there)
        except ConfigError:
            continue
    raise first
