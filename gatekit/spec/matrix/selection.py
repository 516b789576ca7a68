"""Which options a choice of a matrix means: those it names, or those that match its selector."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatekit.errors import ConfigError, Problem
from gatekit.spec import schema
from gatekit.spec.library import Library
from gatekit.spec.matrix.file import Choice, Named

_SHOWN_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a group, where it was asked for, and whether a selector brought it."""

    group: str
    name: str
    where: str
    selected: bool


@dataclass(slots=True, kw_only=True)
class Facts:
    """What the config files say about the options of the groups that can be selected from, each composed once."""

    library: Library
    _known: dict[str, tuple[dict[str, Mapping[str, Any]], tuple[Problem, ...]]] = field(default_factory=dict)

    def of(self, group: str) -> tuple[Mapping[str, Mapping[str, Any]], tuple[Problem, ...]]:
        """What every option of the group says about itself, and what is wrong with those that cannot say it."""
        if group not in self._known:
            facts: dict[str, Mapping[str, Any]] = {}
            problems: list[Problem] = []
            for name in self.library.options(group):
                try:
                    composition = self.library.compose([f"{group}={name}"])
                    problems += schema.problems(composition)
                    said = composition.data.get(group)
                    # An empty model file says nothing that a selector could look at: what is missing is told.
                    facts[name] = said if isinstance(said, dict) else {}
                except ConfigError as error:
                    problems += error.problems
            self._known[group] = facts, tuple(problems)
        return self._known[group]


@dataclass(slots=True, kw_only=True)
class Catalogue:
    """The options that the choices of one matrix mean, and what is wrong with those choices."""

    facts: Facts
    problems: list[Problem] = field(default_factory=list)
    _used: set[str] = field(default_factory=set)

    def options(self, choice: Choice) -> tuple[Option, ...]:
        """The options that the choice means, in its order; what is wrong with it goes to `problems`."""
        if choice.selector is None:
            return tuple(
                Option(group=choice.group, name=named.name, where=named.where, selected=False)
                for named in choice.names
                if self._exists(choice.group, named)
            )
        excepted = {named.name for named in choice.excepted if self._exists(choice.group, named)}
        matching = [name for name, facts in self._of(choice.group).items() if _matches(facts, choice.selector)]
        self._check_exceptions(choice, matching, excepted)
        taken = [name for name in matching if name not in excepted]
        if not taken:
            self._nothing_matches(choice, matching)
        return tuple(Option(group=choice.group, name=name, where=choice.where, selected=True) for name in taken)

    def _exists(self, group: str, named: Named) -> bool:
        known = self.facts.library.options(group)
        if named.name in known:
            return True
        suggests = len(self.problems) < schema.MOST_SUGGESTIONS
        hint = (_nearest(named.name, known) if suggests else "") or f"there are {_listed(known)}"
        what = f"{group}={named.name}: no such {group}"
        self.problems.append(Problem(where=named.where, what=what, reason="unknown-option", hint=hint))
        return False

    def _of(self, group: str) -> Mapping[str, Mapping[str, Any]]:
        """What every option of the group says about itself. A file that is broken cannot be told to match or not."""
        facts, problems = self.facts.of(group)
        if group not in self._used:
            self._used.add(group)
            self.problems.extend(problems)
        return facts

    def _check_exceptions(self, choice: Choice, matching: Sequence[str], excepted: set[str]) -> None:
        for named in choice.excepted:
            if named.name in excepted and named.name not in matching:
                what = f"except {named.name}: it does not match anyway"
                self.problems.append(
                    Problem(where=named.where, what=what, reason="except-drops-nothing", hint="remove it")
                )

    def _nothing_matches(self, choice: Choice, matching: Sequence[str]) -> None:
        assert choice.selector is not None, "only a selector can match nothing"
        what = f"no {choice.group} matches the selector"
        hint = "all that match are excepted" if matching else "; ".join(self._hints(choice.group, choice.selector))
        self.problems.append(
            Problem(where=choice.where, what=what, reason="selector-matches-nothing", hint=hint or "widen it")
        )

    def _hints(self, group: str, selector: Mapping[str, Any]) -> Iterator[str]:
        for key, wanted in selector.items():
            field_name = key.removeprefix("min_")
            known = sorted({str(value) for facts in self._of(group).values() for value in _values(facts, field_name)})
            for word in wanted if isinstance(wanted, list) else [wanted]:
                alone = [word] if isinstance(wanted, list) and key == "tags" else word
                if not any(_matches(facts, {key: alone}) for facts in self._of(group).values()):
                    near = _nearest(str(word), known) if isinstance(word, str) else ""
                    yield f"{key} {word}: " + (near or f"there are {_listed(known)}")


def _matches(facts: Mapping[str, Any], selector: Mapping[str, Any]) -> bool:
    return all(_has(facts, key, wanted) for key, wanted in selector.items())


def _has(facts: Mapping[str, Any], key: str, wanted: Any) -> bool:
    if key == "tags":
        return set(wanted) <= set(_values(facts, key))
    if key.startswith("min_"):
        value = facts.get(key.removeprefix("min_"))
        return isinstance(value, (int, float)) and value >= wanted
    return facts.get(key) in (wanted if isinstance(wanted, list) else [wanted])


def _values(facts: Mapping[str, Any], key: str) -> Iterable[Any]:
    value = facts.get(key)
    return value if isinstance(value, list) else () if value is None else (value,)


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def _listed(known: Sequence[str]) -> str:
    more = len(known) - _SHOWN_NAMES
    return ", ".join(known[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "") if known else "none"
