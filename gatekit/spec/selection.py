"""Which specs a command is about: the one that overrides ask for, or every model on a machine that fits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.spec.composition import Composition
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
    machines: dict[str, str | None] = {}
    selected: list[Selected] = []
    problems: list[Problem] = []
    for model in library.options("model"):
        try:
            selected.append(_on_some_machine([f"model={model}", *overrides], library, machines))
        except ConfigError as error:
            problems += error.problems
    return selected, list(dict.fromkeys(problems))


def on_some_machine(overrides: Sequence[str], *, dirs: Sequence[Path]) -> Selected:
    """The spec on the machine it names, on its default one, or on the first that satisfies its rules."""
    return _on_some_machine(overrides, Library(dirs), {})


def asked_of_a_machine(composition: Composition) -> str | None:
    """What a spec asks of its machine: one that fits it fits every spec that asks the same.

    None where nobody can tell without composing it, because something in it refers to the machine.
    """
    texts = [repr(document.data) for _, document in composition.documents]
    if any("${hw" in text for text in (*texts, *composition.overrides)):
        return None
    model, engine = (composition.data.get(section) for section in ("model", "engine"))
    asked = [model.get(key) for key in ("quantization", "architectures")] if isinstance(model, dict) else [model]
    keys = ("kind", "tensor_parallel_size", "data_parallel_size")
    asked += [engine.get(key) for key in keys] if isinstance(engine, dict) else [engine]
    # A model file may say something about any machine.
    stated = [document.data.get("hw") for package, document in composition.documents if not package]
    own = [text for text in composition.overrides if text.lstrip("+~").startswith("hw.")]
    return repr((asked, composition.data.get("hw"), stated, own, sorted(map(str, composition.broken))))


def _on_some_machine(overrides: Sequence[str], library: Library, machines: dict[str, str | None]) -> Selected:
    try:
        return Selected(spec=library.resolve(overrides), overrides=tuple(overrides))
    except ConfigError as error:
        reasons = {problem.reason for problem in error.problems}
        if not reasons <= OF_THE_MACHINE or any(override.startswith("hw=") for override in overrides):
            raise
        first = error
    asked = asked_of_a_machine(library.compose(overrides))
    known = machines.get(asked, "") if asked is not None else ""
    if known is None:
        raise first
    is_the_machine = True
    for machine in [*([known] if known else []), *library.options("hw")]:
        there = (*overrides, f"hw={machine}")
        try:
            found = Selected(spec=library.resolve(there), overrides=there)
        except ConfigError as error:
            is_the_machine &= any(problem.reason in OF_THE_MACHINE for problem in error.problems)
            continue
        if asked is not None:
            machines[asked] = machine
        return found
    if asked is not None and is_the_machine:
        machines[asked] = None
    raise first
