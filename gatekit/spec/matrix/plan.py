"""What a matrix comes to: its specs in order, what was left out and why, and all that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gatekit.errors import ConfigError, Problem
from gatekit.records.canonical import canonical_json, to_plain
from gatekit.records.secrets import masked_text
from gatekit.records.spec import Spec
from gatekit.spec import schema
from gatekit.spec.checked import checked
from gatekit.spec.composition import Composition
from gatekit.spec.library import Library
from gatekit.spec.matrix.combinations import Combination, Row, rows
from gatekit.spec.matrix.file import GROUPS, Entry, MatrixFile, matrix_file
from gatekit.spec.matrix.names import unique_names
from gatekit.spec.matrix.problems import Complaints, in_order, is_of_the_machine
from gatekit.spec.matrix.selection import Catalogue, Facts

GROUP = "matrix"
MOST_SPECS = 1000
EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One spec of a matrix: `gatekit run` with its overrides is this row.

    `name` is unique in its plan: the spec's own, and what sets it apart where several share that. `places` are those
    of its overrides in the matrix, by what a problem calls them.
    """

    name: str
    spec: Spec
    overrides: tuple[str, ...]
    where: str
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A combination that a matrix does not run, and why."""

    overrides: tuple[str, ...]
    where: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a matrix comes to: its specs in order, what was left out, and everything that is wrong with it."""

    name: str
    description: str
    planned: tuple[Planned, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]


def matrices(library: Library) -> tuple[str, ...]:
    """The names of all matrices in all folders, sorted."""
    return library.options(GROUP)


def plans(names: Iterable[str], library: Library) -> list[Plan]:
    """What each of the matrices comes to, as `plan` says; what their selectors look at is read once for all."""
    facts = Facts(library=library)
    return [plan(name, library, facts=facts) for name in names]


def plan(name: str, library: Library, *, facts: Facts | None = None) -> Plan:
    """What the matrix comes to. Raises ConfigError only where no folder has such a matrix."""
    if name not in matrices(library):
        raise _no_such(name, matrices(library))
    paths = library.files(GROUP, name)
    if not paths:  # a folder of that name
        raise _no_such(name, [other for other in matrices(library) if other != name])
    examined = library.examined(paths[0])
    if examined.document is None:
        return Plan(name=name, description="", planned=(), left_out=(), problems=examined.problems)
    file = matrix_file(examined.document, unread=examined.broken)
    planning = _Planning(library=library, file=file, catalogue=Catalogue(facts=facts or Facts(library=library)))
    planning.work()
    return Plan(
        name=name,
        description=file.description,
        planned=tuple(_named(planning.planned)),
        left_out=tuple(planning.left_out),
        problems=tuple(in_order([*examined.problems, *file.problems, *planning.problems()])),
    )


def _no_such(name: str, known: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"
    return ConfigError.one(f"no matrix {masked_text(name)!r}", reason="unknown-matrix", hint=hint)


@dataclass(slots=True, kw_only=True)
class _Exclusion:
    entry: Entry
    options: dict[str, frozenset[str]]
    drops: int = 0

    def matches(self, composition: Composition) -> bool:
        return all(composition.choices.get(group) in names for group, names in self.options.items())

    def may_match(self, named: Mapping[str, Collection[str]]) -> bool:
        """Whether a row might be dropped of which no more is known than the options of some groups."""
        return all(group not in named or names.intersection(named[group]) for group, names in self.options.items())


@dataclass(slots=True, kw_only=True)
class _Planning:
    """The work on one matrix: what was found so far."""

    library: Library
    file: MatrixFile
    catalogue: Catalogue
    exclusions: list[_Exclusion] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    complaints: Complaints = field(default_factory=Complaints)
    unclear: list[Mapping[str, Collection[str]]] = field(default_factory=list)
    found: list[Problem] = field(default_factory=list)

    def work(self) -> None:
        listed = [*rows(self.file.rows, self.catalogue)]
        self.unclear += [*self._unclear(listed)]
        added = [*rows(self.file.include, self.catalogue)]
        self.exclusions = [*self._exclusions()]
        if self._too_many([*listed, *added]):
            return
        for row in listed:
            self._row(row, self.exclusions)
        for row in added:
            self._row(row, [])
        self._unused_exclusions()
        self._twice()

    def problems(self) -> Iterator[Problem]:
        yield from self.catalogue.problems
        yield from self.found
        yield from self.complaints.problems()

    def _exclusions(self) -> Iterator[_Exclusion]:
        for row in rows(self.file.exclude, self.catalogue):
            options = {options[0].group: frozenset(option.name for option in options) for options in row.choices}
            yield _Exclusion(entry=row.entry, options=options)

    def _too_many(self, listed: Sequence[Row]) -> bool:
        total = 0
        for row in listed:
            total += row.width
            if total > MOST_SPECS:
                what = f"the matrix asks for over {MOST_SPECS} specs, {row.width} of them here"
                hint = "name fewer options, or make several matrices"
                self._problem(row.entry, what, "matrix-too-large", hint)
                return True
        return False

    def _row(self, row: Row, exclusions: Sequence[_Exclusion]) -> None:
        before, complained = len(self.planned), not row.entry.whole
        for combination in row.combinations():
            if row.entry.doubtful:
                self._look_at_values(combination)
            else:
                complained |= not self._judge(combination, exclusions)
        if len(self.planned) == before and not complained:
            what = f"nothing is left of this row: {self.left_out[-1].what}"
            self._problem(row.entry, what, "row-is-empty", "remove the row, or what excludes it")

    def _look_at_values(self, combination: Combination) -> None:
        """Only what is wrong with the shape of the values that the row sets: what else it asks for is not known."""
        try:
            found = schema.problems(self.library.compose(combination.overrides))
        except ConfigError as error:
            found = list(error.problems)
        self.complaints.add(combination, (problem for problem in found if combination.sets(problem.where)))

    def _judge(self, combination: Combination, exclusions: Sequence[_Exclusion]) -> bool:
        """Whether the combination is in order: planned, or left out for a reason that may be."""
        try:
            composition = self._composed(combination)
            matching = [one for one in exclusions if one.matches(composition)]
            for exclusion in matching:
                exclusion.drops += 1
            if matching:
                self._leave_out(combination, matching[0].entry.because, EXCLUDED)
            else:
                self._plan(combination, checked(composition))
        except ConfigError as error:
            if not (combination.selected and is_of_the_machine(error)):
                self.complaints.add(combination, error.problems)
                return False
            self._leave_out(combination, error.problems[0].what, error.problems[0].reason)
        return True

    def _composed(self, combination: Combination) -> Composition:
        try:
            return self.library.compose(combination.overrides)
        except ConfigError:
            self.unclear.append({option.group: [option.name] for option in combination.options})
            raise

    def _plan(self, combination: Combination, spec: Spec) -> None:
        if not combination.entry.whole:
            return
        where, overrides = combination.entry.where, combination.overrides
        places = combination.places
        self.planned.append(Planned(name=spec.name, spec=spec, overrides=overrides, where=where, places=places))

    def _leave_out(self, combination: Combination, what: str, reason: str) -> None:
        where, overrides = combination.entry.where, combination.overrides
        self.left_out.append(LeftOut(overrides=overrides, where=where, what=what, reason=reason))

    def _unclear(self, listed: Sequence[Row]) -> Iterator[Mapping[str, Collection[str]]]:
        """What the rows that cannot be read name all the same: the options of the groups of which that is known."""
        clear = {row.entry.where for row in listed if not row.entry.doubtful}
        stated = [dict(row) for row in self.file.broken_rows]
        for entry in self.file.rows:
            if entry.where not in clear:
                names = {one.group: [named.name for named in one.names] for one in entry.choices if not one.selector}
                stated.append(names)
        for row in stated:
            said = {group: row[group] for group in GROUPS if group in row}
            named = {group: [names] if isinstance(names, str) else names for group, names in said.items()}
            yield {group: names for group, names in named.items() if self._are_known(group, names)}

    def _are_known(self, group: str, names: Any) -> bool:
        known = self.library.options(group)
        return isinstance(names, list) and all(name in known for name in names)

    def _unused_exclusions(self) -> None:
        """Exclusions that drop nothing, and would drop nothing from the rows that are wrong either."""
        for exclusion in self.exclusions:
            if not exclusion.drops and not any(exclusion.may_match(named) for named in self.unclear):
                self._problem(exclusion.entry, "this exclusion drops nothing", "exclude-drops-nothing", "remove it")

    def _twice(self) -> None:
        first: dict[bytes, Planned] = {}
        for one in self.planned:
            same = first.setdefault(canonical_json(to_plain(one.spec)), one)
            if same is not one:
                what = f"gives the same spec as {same.where}: {one.spec.name}"
                self.found.append(Problem(where=one.where, what=what, reason="duplicate-spec", hint="keep one of them"))

    def _problem(self, entry: Entry, what: str, reason: str, hint: str) -> None:
        self.found.append(Problem(where=entry.where, what=what, reason=reason, hint=hint))


def _named(planned: Sequence[Planned]) -> Iterator[Planned]:
    names = unique_names([(one.spec.name, one.overrides) for one in planned])
    for one, name in zip(planned, names, strict=True):
        yield replace(one, name=name)
