"""What is wrong with the combinations of a matrix: told once each, where the matrix asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gatekit.errors import ConfigError, Problem
from gatekit.spec.empty_folders import REASON as EMPTY_FOLDER
from gatekit.spec.matrix.combinations import Combination
from gatekit.spec.selection import OF_THE_MACHINE


def is_of_the_machine(error: ConfigError) -> bool:
    """Whether nothing but the machine is wrong."""
    return {problem.reason for problem in error.problems} <= OF_THE_MACHINE


@dataclass(slots=True)
class Complaints:
    """The problems of combinations: a mistake in a model file is one line, however many combinations it spoils."""

    _rows: dict[Problem, list[str]] = field(default_factory=dict)

    def add(self, combination: Combination, problems: Iterable[Problem]) -> None:
        """Keep the problems of one combination; what is wrong with a folder is no row's."""
        for problem in problems:
            if problem.reason == EMPTY_FOLDER:
                continue
            found = _placed(problem, combination)
            rows = self._rows.setdefault(found, [])
            if combination.entry.where not in rows:
                rows.append(combination.entry.where)

    def problems(self) -> Iterator[Problem]:
        """All of them; one that lies in another file says which row asks for it."""
        for problem, rows in self._rows.items():
            file = rows[0].rsplit(":", 2)[0]
            if problem.where.startswith(f"{file}:"):
                yield problem
            else:
                more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
                yield replace(problem, what=f"{problem.what} (asked for at {rows[0]}{more})")


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, those of a file together and by their lines."""
    once = list(dict.fromkeys(problems))
    files = list(dict.fromkeys(_parts(problem.where)[0] for problem in once))
    return sorted(once, key=lambda problem: (files.index(_parts(problem.where)[0]), *_parts(problem.where)[1:]))


def _parts(where: str) -> tuple[str, int, int]:
    """File, line and column of a place; any other place is one of its own."""
    file, *numbers = where.rsplit(":", 2)
    if len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers):
        return file, int(numbers[0]), int(numbers[1])
    return where, 0, 0


def _placed(problem: Problem, combination: Combination) -> Problem:
    if problem.reason in OF_THE_MACHINE:
        where = next((option.where for option in combination.options if option.group == "hw"), combination.entry.where)
        return replace(problem, where=where, what=f"{combination.choices}: {problem.what}")
    return replace(problem, where=combination.place(problem.where))
