"""The matrix that a command line names: its plan with the overrides of that line, free of problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gatekit.cli.output import warn
from gatekit.errors import ConfigError, Problem
from gatekit.records.secrets import masked_text
from gatekit.report.escape import escape_terminal
from gatekit.report.plan import Absent, Title
from gatekit.spec.composition import shown_override
from gatekit.spec.empty_folders import empty_folders
from gatekit.spec.matrix.overrides import overridden
from gatekit.spec.matrix.plan import Plan, matrices, plan
from gatekit.spec.matrix.words import nearest
from gatekit.spec.reader import display

if TYPE_CHECKING:
    from gatekit.spec.library import Library

_WORD_CHARACTERS = 80


def chosen(name: str, extra: Sequence[str], only: Sequence[str], library: Library) -> Plan:
    """The plan of the matrix, with `extra` overrides on every row, or of `only` those of its specs.

    Raises ConfigError with every problem, and where nothing is left to run.
    """
    if name not in matrices(library):
        raise no_matrix(name, library)
    found = _selected(overridden(plan(name, library), extra, library), only)
    if not found.planned and not found.problems:
        what = f"matrix {name}: nothing is left to run"
        found = replace(found, problems=(Problem(where="", what=what, reason="empty-matrix"),))
    if found.problems:
        raise ConfigError([*found.problems, *empty_folders(library.dirs)])
    _announce(found, library)
    return found


def title(found: Plan, library: Library) -> Title:
    """What the matrix is called, and its file."""
    return Title(name=found.name, description=found.description, file=display(library.files("matrix", found.name)[0]))


def absent(found: Plan) -> list[Absent]:
    """What the plan leaves out, as it may be shown."""
    return [
        Absent(overrides=tuple(map(shown_override, one.overrides)), where=one.where, what=one.what, reason=one.reason)
        for one in found.left_out
    ]


def no_matrix(word: str, library: Library) -> ConfigError:
    """The one line for a word that names no matrix, with what was meant instead."""
    shown = escape_terminal(masked_text(word), _WORD_CHARACTERS)
    unknown = Problem(where="", what=f"no matrix {shown!r}", reason="unknown-matrix", hint=_meant(word, library))
    return ConfigError([unknown, *empty_folders(library.dirs)])


def _meant(word: str, library: Library) -> str:
    from gatekit.cli.main import commands

    near = nearest(word, matrices(library))
    if near:
        return f"did you mean {near!r}?"
    for group in library.groups():
        if word in library.options(group):
            return f"did you mean {group}={word}?"
    command = nearest(word, commands())
    if command:
        return f"did you mean the command `gatekit {command}`?"
    return f"matrices are {', '.join(matrices(library))}; your own: matrix/NAME.yaml in a folder given by --config-dir"


def _selected(found: Plan, only: Sequence[str]) -> Plan:
    names = [one.name for one in found.planned]
    if not only or found.problems:
        return found
    problems = []
    for wanted in only:
        if wanted not in names:
            near = nearest(wanted, names)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(names)}"
            what = f"matrix {found.name} has no spec {escape_terminal(wanted, _WORD_CHARACTERS)!r}"
            problems.append(Problem(where="--only", what=what, reason="unknown-spec", hint=hint))
    kept = tuple(one for one in found.planned if one.name in only)
    return replace(found, planned=kept, problems=tuple(problems))


def _announce(found: Plan, library: Library) -> None:
    """Warn of files that stand before others of the same name: the matrix's own, and those of its specs."""
    from gatekit.cli.shadowed import announce
    from gatekit.spec.shadowing import shadowings

    for one in shadowings(library):
        if one.option == f"matrix={found.name}":
            warn(f"{one.line()} [shadowed]")
    announce(library.dirs, [one.overrides for one in found.planned], library)
