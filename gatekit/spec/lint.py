"""What is wrong with a set of specs although each of them is valid: nothing covers it, it gates nothing, it misleads.

Values in, findings out. The ids are documented in docs/lint.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from gatekit.errors import Problem, shortened
from gatekit.gate.audit import Audit, Figures
from gatekit.gate.wording import accuracy, percent, points
from gatekit.records.canonical import digest, to_plain
from gatekit.records.spec import Method, Spec

GUESSED = 0.25  # what a floor below it lets through is hardly a model any more
LOOSE = 0.15  # a threshold so far below the healthy accuracy notices only what everybody notices
MOST_LOST = 0.05
DAYS = 7

OF_THE_HISTORY = frozenset({"gate-never-ran", "gate-not-run"})
IDS = OF_THE_HISTORY | {
    *("model-in-no-matrix", "same-spec", "same-option"),
    *("no-gate", "gate-vacuous", "gate-impossible", "gate-loose", "failures-tolerated"),
    *("protocol-mismatch", "floor-unused", "weights-not-named"),
    *("name-format", "format-not-stated", "name-gpu-count", "name-gpu", "name-shots", "name-api", "name-parallel"),
    *("name-eager", "name-backend", "backend-not-stated"),
    *("silence-without-reason", "unused-silence"),
}


class Kind(StrEnum):
    """What a finding asks for: an error exits 2, a warning only with --strict."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to mend: where it stands (`file:line:column`), what it is, why that matters, and what to do."""

    id: str
    kind: Kind
    where: str
    what: str
    why: str
    hint: str = ""

    def as_problem(self) -> Problem:
        """The finding in the form in which mistakes are reported."""
        return Problem(where=self.where, what=f"{self.what}: {self.why}", reason=self.id, hint=self.hint)

    def line(self) -> str:
        """All of it on one line."""
        place = f"{shortened(self.where)}: " if self.where else ""
        tail = f"; {shortened(self.hint)}" if self.hint else ""
        return f"{place}{self.kind.value}: {shortened(self.what)}: {shortened(self.why)}{tail} [{self.id}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelled:
    """A model of the group: its option's name, its spec on a machine that fits, its gate's audit (None: not known).

    `where` is its file at its first line, `places` where some of its keys stand, by dotted path; those that stand in
    other files are not among them.
    """

    option: str
    spec: Spec
    audit: Audit | None
    where: str
    places: Mapping[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """Where that key stands in the model's file, or else the file."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """A row of a matrix: its name, place, model and spec, and when its gate last gave a verdict (None: never)."""

    matrix: str
    name: str
    where: str
    model: str
    spec: Spec
    last: datetime | None = None


def uncovered(models: Iterable[Modelled], rows: Sequence[Covered]) -> Iterator[Finding]:
    """`model-in-no-matrix`: models that no matrix runs. One that is only simulated covers nothing anyway."""
    planned = {row.model for row in rows}
    for model in models:
        if model.option not in planned and not model.spec.simulated:
            yield Finding(
                id="model-in-no-matrix",
                kind=Kind.WARNING,
                where=model.where,
                what=f"model={model.option} is in no matrix",
                why="no nightly runs it, and nobody will notice when it breaks",
                hint="add it to a row of a matrix, by name or by its tags",
            )


def twins(models: Sequence[Modelled]) -> Iterator[Finding]:
    """`same-spec`: two names whose specs differ in nothing else, so that one of them is run twice."""
    first: dict[str, Modelled] = {}
    for model in models:
        bare = replace(model.spec, name="", model=replace(model.spec.model, tags=()))
        other = first.setdefault(digest(to_plain(bare)), model)
        if other is not model:
            yield Finding(
                id="same-spec",
                kind=Kind.WARNING,
                where=model.where,
                what=f"model={model.option} is the same spec as model={other.option} ({other.where})",
                why="both would be run, and their histories are one",
                hint="remove one of them, or write down in which key they differ",
            )


def same_options(group: str, options: Iterable[tuple[str, Mapping[str, Any], str]]) -> Iterator[Finding]:
    """`same-option`: options (name, data, place) of a group whose files say the same under two names."""
    first: dict[str, str] = {}
    for name, data, where in options:
        bare = {key: value for key, value in data.items() if key != "name"}
        other = first.setdefault(digest(bare), name)
        if other != name:
            yield Finding(
                id="same-option",
                kind=Kind.WARNING,
                where=where,
                what=f"{group}={name} says the same as {group}={other}",
                why="specs that are the same look different",
                hint="remove one of them",
            )


def gates(model: Modelled, *, has_history: bool, typed: Sequence[str] = ()) -> Iterator[Finding]:
    """What the gate of a model lets through, and whether it decides at all.

    `has_history`: comparable runs are known, from which a rule follows. `typed` are words that a command needs to
    find the model.
    """
    gate = model.spec.gate
    if gate.max_lost_share > MOST_LOST:
        yield Finding(
            id="failures-tolerated",
            kind=Kind.WARNING,
            where=model.place("gate.max_lost_share"),
            what=f"{percent(gate.max_lost_share)} of all requests may fail",
            why="a verdict on the questions that are left says little about the server",
            hint=f"gate.max_lost_share={MOST_LOST:g} or less",
        )
    command = shlex.join(["gatekit", "audit", f"model={model.option}", *typed])
    if model.audit is None:
        return
    for found in _unlike(model.spec, model.audit):
        yield replace(found, where=model.place("gate.measured_under"))
    if model.audit.figures is None:
        if not has_history and gate.method is not Method.LOCKED:
            yield Finding(
                id="no-gate",
                kind=Kind.WARNING,
                where=model.place("gate"),
                what=f"model={model.option} has no number to be judged by",
                why=f"every run is INCONCLUSIVE until {gate.method.value} has history",
                hint="set gate.observed to what a healthy build scored, or gate.floor",
            )
        return
    for finding in _threshold(model, model.audit, model.audit.figures):
        yield replace(finding, hint=f"see `{command}`")


def unlike(row: Covered, audit: Audit) -> Iterator[Finding]:
    """Where a row asks otherwise than its gate was measured: its model alone may be in order."""
    for found in _unlike(row.spec, audit):
        yield replace(found, where=row.where, what=f"{row.name} of matrix {row.matrix}: {found.what}")


def _unlike(spec: Spec, audit: Audit) -> Iterator[Finding]:
    for finding in audit.findings:
        if finding.id != "protocol-mismatch":
            continue
        if spec.gate.method is Method.LOCKED:
            hint = "drop gate.floor, or measure it under this protocol"
            yield Finding(
                id="floor-unused",
                kind=Kind.WARNING,
                where="",
                what="gate.floor does not bind",
                why=finding.text,
                hint=hint,
            )
        else:
            yield Finding(
                id=finding.id,
                kind=Kind.ERROR,
                where="",
                what="this gate can never decide",
                why=finding.text,
                hint="ask as gate.measured_under says, or measure its numbers anew and say how",
            )


def _threshold(model: Modelled, audit: Audit, figures: Figures) -> Iterator[Finding]:
    texts = {finding.id: finding.text for finding in audit.findings}
    if "vacuous" in texts:
        yield _of_the_gate(model, "gate-vacuous", Kind.ERROR, "this gate fails nothing", texts["vacuous"])
    elif "never-passes" in texts:
        yield _of_the_gate(model, "gate-impossible", Kind.ERROR, "this gate passes nothing", texts["never-passes"])
    elif figures.k_pass > audit.n:
        why = f"{figures.k_pass} correct of {audit.n} would be needed to exclude a drop of that size"
        yield _of_the_gate(model, "gate-impossible", Kind.ERROR, "this gate passes nothing", why)
    elif figures.guarded < GUESSED:
        what = f"{accuracy(figures.guarded)} is all that this gate asks for"
        yield _of_the_gate(model, "gate-loose", Kind.WARNING, what, "a broken model reaches that")
    elif not figures.is_assumed and figures.reference - figures.guarded >= LOOSE:
        below = points(figures.reference - figures.guarded)
        what = f"the threshold is {below} below the healthy {accuracy(figures.reference)}"
        why = f"most runs pass after a drop of {points(LOOSE)}"
        yield _of_the_gate(model, "gate-loose", Kind.WARNING, what, why)


def _of_the_gate(model: Modelled, identity: str, kind: Kind, what: str, why: str) -> Finding:
    where = model.place("gate.floor" if "gate.floor" in model.places else "gate")
    return Finding(id=identity, kind=kind, where=where, what=what, why=why)


def asleep(rows: Iterable[Covered], *, now: datetime, days: int = DAYS, typed: Sequence[str] = ()) -> Iterator[Finding]:
    """`gate-never-ran` and `gate-not-run`: rows of matrices without a verdict, or without one for so many days.

    `typed` are words that a command needs to find the matrix.
    """
    for row in rows:
        command = shlex.join(["gatekit", "run", "--matrix", row.matrix, "--only", row.name, *typed])
        since = None if row.last is None else (now - row.last).days
        if since is None:
            yield Finding(
                id="gate-never-ran",
                kind=Kind.WARNING,
                where=row.where,
                what=f"{row.name} of matrix {row.matrix} has never given a verdict",
                why="a gate that does not run guards nothing",
                hint=command,
            )
        elif since >= days:
            assert row.last is not None, "since is counted from it"
            yield Finding(
                id="gate-not-run",
                kind=Kind.WARNING,
                where=row.where,
                what=f"{row.name} of matrix {row.matrix} gave its last verdict {since} days ago",
                why=f"on {row.last.astimezone(UTC):%Y-%m-%d}; its coverage shrank without anybody saying so",
                hint=command,
            )
