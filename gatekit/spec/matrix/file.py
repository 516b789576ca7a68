"""A matrix file as it is written: its rows, exclusions and inclusions, each with its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gatekit.errors import ConfigError, Problem
from gatekit.records.secrets import masked_url
from gatekit.service_keys import without_keys
from gatekit.spec import schema, texts
from gatekit.spec.checked import is_inside
from gatekit.spec.matrix.values import override
from gatekit.spec.reader import Document, KeyPath, Mark, display

GROUPS = ("model", "hw", "engine", "protocol", "task", "gate", "history")
_LISTS = ("rows", "exclude", "include")
_PATH = re.compile(r"[a-z]+(\.[A-Za-z_][A-Za-z0-9_-]*)+")
_KEY_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A word and its place."""

    name: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What an entry says about one group: names, or what those that are meant have in common."""

    group: str
    where: str
    names: tuple[Named, ...] = ()
    selector: Mapping[str, Any] | None = None
    excepted: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value that an entry sets, as an override."""

    override: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row, an exclusion or an inclusion; one that is not `whole` sets less than it says.

    Of a `doubtful` one nobody knows all that it asks for: only the values that it sets can be looked at.
    """

    where: str
    whole: bool
    choices: tuple[Choice, ...]
    settings: tuple[Setting, ...]
    because: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFile:
    """What can be read of a matrix file. `whole` where nothing in it is wrong by itself."""

    description: str
    rows: tuple[Entry, ...]
    exclude: tuple[Entry, ...]
    include: tuple[Entry, ...]
    broken_rows: tuple[Mapping[str, Any], ...]
    problems: tuple[Problem, ...]


def matrix_file(document: Document, *, unread: Collection[KeyPath] = ()) -> MatrixFile:
    """The entries of a matrix file; those that are wrong by themselves are left out, with their problems.

    Nor are there those with a value at an `unread` place, which is wrong in a way that was said already.
    """
    faults = [fault for fault in schema.faults_by("matrix", document.data) if not is_inside(fault.path, unread)]
    spoiling = [fault.path for fault in faults if not _is_harmless(fault)]
    broken = {path[:depth] for path in (*spoiling, *unread) for depth in (1, 2)}
    problems = [fault.located(partial(_locate, document)) for fault in _said_better(faults)]
    problems += _secrets(document)
    doubtful = {fault.path[:2] for fault in faults} - broken
    reading = _Reading(document=document, problems=problems, doubtful=doubtful, broken_rows=[])
    entries = {name: tuple(reading.entries(name, broken)) for name in _LISTS}
    description = document.data.get("description")
    return MatrixFile(
        description=description if isinstance(description, str) else "",
        **entries,
        broken_rows=tuple(reading.broken_rows),
        problems=tuple(problems),
    )


def _is_harmless(fault: schema.Fault) -> bool:
    """Whether what is wrong with a row leaves the values that it sets to be looked at."""
    in_a_row = len(fault.path) == 3 and fault.path[0] in ("rows", "include")
    return in_a_row and (fault.at_key or fault.path[2] == "because")


def _secrets(document: Document) -> Iterator[Problem]:
    """Keys of services, but for those among the values that an entry sets, which are told there."""
    for path, is_key in texts.secret_places(document.data):
        if path[2:3] != ("set",) or len(path) < 4:
            yield _secret(_locate(document, path, key=is_key), schema.dotted(path), "looks like a secret")


def _secret(where: str, name: str, what: str) -> Problem:
    hint = "name an environment variable instead (history.url_env, engine.api_key_env), and change this secret"
    return Problem(where=where, what=f"{name}: {what}", reason=texts.SECRET, hint=hint)


def _said_better(faults: Sequence[schema.Fault]) -> Iterator[schema.Fault]:
    incomplete = {fault.place for fault in faults if fault.reason == "missing-key"}
    for fault in faults:
        is_count = fault.reason == "bad-value"
        if is_count and fault.path == ("rows",):
            hint = "add a row such as `- {model: laguna_int4, hw: b200}`"
            yield replace(fault, what="rows: the list names no spec", reason="empty-matrix", hint=hint)
        elif is_count and fault.path[:1] == ("exclude",) and len(fault.path) == 2:
            if fault.path not in incomplete:
                what = f"{schema.dotted(fault.path)}: it names nothing, and would drop everything"
                yield replace(fault, what=what, hint="name a model, a machine, ...")
        else:
            yield fault


def _locate(document: Document, path: KeyPath, *, key: bool = False) -> str:
    """The place of a value, or of what it would stand in."""
    marks = document.keys if key else document.values
    mark = next((marks[path[:depth]] for depth in range(len(path), -1, -1) if path[:depth] in marks), Mark(1, 1))
    return f"{display(document.path)}:{mark.line}:{mark.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    document: Document
    problems: list[Problem]
    doubtful: set[KeyPath]
    broken_rows: list[Mapping[str, Any]]

    def entries(self, name: str, broken: set[KeyPath]) -> Iterator[Entry]:
        listed = self.document.data.get(name)
        for index, content in enumerate(listed if isinstance(listed, list) else [listed]):
            path: KeyPath = (name, index)
            said = content if isinstance(content, dict) else {}
            found = len(self.problems)
            settings = tuple(self._settings(said.get("set"), path))
            if said and path not in broken:
                whole = len(self.problems) == found and path not in self.doubtful
                yield self._entry(said, path, settings, whole=whole)
            elif name == "rows":
                self.broken_rows.append(said)

    def _entry(self, content: Mapping[str, Any], path: KeyPath, settings: tuple[Setting, ...], *, whole: bool) -> Entry:
        return Entry(
            where=self._where(path),
            whole=whole,
            choices=tuple(self._choice(group, content[group], path) for group in GROUPS if group in content),
            settings=settings,
            because=str(content.get("because", "")),
            doubtful=path in self.doubtful,
        )

    def _choice(self, group: str, value: Any, path: KeyPath) -> Choice:
        place = (*path, group)
        where = self._where(place)
        if isinstance(value, str):
            return Choice(group=group, where=where, names=(Named(name=value, where=where),))
        if isinstance(value, list):
            return Choice(group=group, where=where, names=self._names(value, place))
        selector = {key: wanted for key, wanted in value.items() if key != "except"}
        excepted = self._names(value.get("except", []), (*place, "except"))
        return Choice(group=group, where=where, selector=selector, excepted=excepted)

    def _names(self, names: list[str], path: KeyPath) -> tuple[Named, ...]:
        return tuple(Named(name=name, where=self._where((*path, index))) for index, name in enumerate(names))

    def _settings(self, values: Any, path: KeyPath) -> Iterator[Setting]:
        for key, value in values.items() if isinstance(values, dict) else ():
            place = (*path, "set", key)
            where = self._where(place)
            try:
                self._check_key(key, place)
                self._check_secret(key, value, where)
                yield Setting(override=override(key, value, where=where), where=where)
            except ConfigError as error:
                self.problems.extend(error.problems)

    def _check_key(self, key: str, path: KeyPath) -> None:
        section, dot, rest = key.partition(".")
        if _PATH.fullmatch(key) and section in schema.SECTIONS:
            return
        where = _locate(self.document, path, key=True)
        hint = "keys look like task.n"
        parts = key.split(".")
        index = next((depth for depth, part in enumerate(parts) if depth and part.isdecimal()), None)
        suggests = len(self.problems) < schema.MOST_SUGGESTIONS
        near = difflib.get_close_matches(section, schema.SECTIONS, n=1, cutoff=0.6) if suggests else []
        if key in GROUPS:
            hint = f"{key} is a key of the row itself"
        elif index is not None and section in schema.SECTIONS:
            hint = f"items of a list cannot be set one by one: set the whole list, {'.'.join(parts[:index])}: [...]"
        elif near:
            hint = f"did you mean {near[0] + dot + rest!r}?"
        raise ConfigError.one(
            f"set: unknown key {without_keys(key)[:_KEY_CHARACTERS]!r}", where=where, reason="unknown-key", hint=hint
        )

    def _check_secret(self, key: str, value: Any, where: str) -> None:
        is_url = key == "history.url" and isinstance(value, str)
        if is_url and masked_url(value) != value:
            raise ConfigError([_secret(where, f"set: {key}", "holds a password")])
        if any(True for _ in texts.secret_places({key: value})):
            raise ConfigError([_secret(where, f"set: {key}", "looks like a secret")])

    def _where(self, path: KeyPath) -> str:
        return _locate(self.document, path)
