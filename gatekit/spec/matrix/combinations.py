"""Every combination of a row's choices, as overrides, with the place of each word."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gatekit.spec.composition import shown_override
from gatekit.spec.matrix.file import Entry
from gatekit.spec.matrix.selection import Catalogue, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An entry whose choices are known: `choices` has the options of each group that it states."""

    entry: Entry
    choices: tuple[tuple[Option, ...], ...]

    @property
    def width(self) -> int:
        """How many combinations it stands for."""
        return math.prod(map(len, self.choices))

    def combinations(self) -> Iterator[Combination]:
        """All of them, the first group slowest."""
        for options in product(*self.choices):
            yield Combination(entry=self.entry, options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One option of each group that the row states."""

    entry: Entry
    options: tuple[Option, ...]

    @property
    def overrides(self) -> tuple[str, ...]:
        """What asks for exactly this spec."""
        choices = (f"{option.group}={option.name}" for option in self.options)
        return (*choices, *(setting.override for setting in self.entry.settings))

    @property
    def choices(self) -> str:
        """Its choices as they are typed."""
        return " ".join(f"{option.group}={option.name}" for option in self.options)

    @property
    def selected(self) -> bool:
        """Whether a selector, rather than a name alone, brought it."""
        return any(option.selected for option in self.options)

    def sets(self, where: str) -> bool:
        """Whether a problem's place is one of the values that the row sets."""
        return where in {f"override {shown_override(one.override)}" for one in self.entry.settings}

    @property
    def places(self) -> dict[str, str]:
        """The place in the matrix of each override that a problem may be located at."""
        places = {f"override {option.group}={option.name}": option.where for option in self.options}
        return places | {f"override {shown_override(one.override)}": one.where for one in self.entry.settings}

    def place(self, where: str) -> str:
        """The place in the matrix of an override that a problem is located at; `where` for any other place."""
        return self.places.get(where, where) or self.entry.where


def rows(entries: Sequence[Entry], catalogue: Catalogue) -> Iterator[Row]:
    """The rows whose choices all mean something; what is wrong with the others is with the catalogue."""
    for entry in entries:
        choices = tuple(catalogue.options(choice) for choice in entry.choices)
        if all(choices):
            yield Row(entry=entry, choices=choices)
