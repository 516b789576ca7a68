"""The one reader of YAML files: bounded, without tags or aliases, and it knows where things stand."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gatekit.errors import ConfigError, Problem
from gatekit.history.durable_files import open_regular
from gatekit.spec.defaults_list import faults_of_list
from gatekit.spec.described import wanted_at
from gatekit.spec.folders import group_of
from gatekit.spec.plainly import hint_for

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000

KeyPath = tuple[str | int, ...]

_INSTANTIATION_KEYS = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})
_PACKAGE_HEADER = re.compile(r"\s*#\s*@")
_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+|\[[0-9]+\])*\}")
_STEP = re.compile(r"[A-Za-z0-9_-]+")


_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# Booleans of YAML 1.1 that its most used reader takes for words. As keys they are the n of a task.
_LETTERS = frozenset("yYnN")


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file, one-based."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML mapping as plain data, and where each of its keys and values stands."""

    path: Path
    data: Mapping[str, Any]
    keys: Mapping[KeyPath, Mark]
    values: Mapping[KeyPath, Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Everything that is wrong with a file, and what can be read of it all the same.

    `document` is None where nothing can: no YAML, not text, too large. In it the values at `broken` places are None
    or unsure, keys that are not allowed are left out, and the rest is as it stands in the file.
    """

    document: Document | None
    problems: tuple[Problem, ...]
    broken: frozenset[KeyPath]

    def sound(self) -> Document:
        """The document of a file without a problem. Raises ConfigError with all of them."""
        if self.document is None or self.problems:
            raise ConfigError(self.problems)
        return self.document


def read(path: Path) -> Document:
    """The mapping in a YAML file.

    Raises ConfigError with every problem found: not a regular file, over 1 MiB, not UTF-8, YAML syntax, tags,
    anchors, duplicate keys, keys that would run code, resolvers, NaN, and values that YAML 1.1 and 1.2 read
    differently.
    """
    return examine(path).sound()


def parse(text: str, path: Path) -> Document:
    """The mapping in a text that stands, or will stand, in the file `path`. Raises ConfigError as `read`."""
    return _Reading(path, text).examined().sound()


def examine(path: Path) -> Examined:
    """What `read` gives and every problem that it would raise, side by side."""
    try:
        text = _text(path)
    except ConfigError as error:
        return Examined(document=None, problems=error.problems, broken=frozenset())
    return _Reading(path, text).examined()


def runs_code(text: str) -> bool:
    """Whether a value asks for a resolver (`${oc.env:...}`); references such as `${model.name}` do not."""
    return "${" in _REFERENCE.sub("", text)


def references(text: str) -> list[tuple[str, ...]]:
    """The key paths that a value refers to.

    >>> references("${model.name} and ${model.architectures[0]}")
    [('model', 'name'), ('model', 'architectures', '0')]
    """
    return [tuple(_STEP.findall(found)) for found in _REFERENCE.findall(text)]


def _text(path: Path) -> str:
    shown = display(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError.one("not a regular file", where=shown, reason="unreadable-file")
        with os.fdopen(open_regular(path), "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError.one(f"cannot be read: {why}", where=shown, reason="unreadable-file") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError.one("larger than 1 MiB", where=shown, reason="file-too-large")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError.one(f"not UTF-8 at byte {error.start}", where=shown, reason="not-utf-8") from None


def display(path: Path) -> str:
    """The path as a user would type it: relative to the working directory when it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class _TooComplex(Exception):  # noqa: N818 - the problem is noted already
    """The file is not read any further."""


class _Reading:
    """One pass over a file's events. Iterative libyaml events keep hostile nesting off the C stack."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text
        self.problems: list[Problem] = []
        self.keys: dict[KeyPath, Mark] = {}
        self.values: dict[KeyPath, Mark] = {}
        self.broken: set[KeyPath] = set()
        self.nodes = 0

    def examined(self) -> Examined:
        self._check_header()
        data: dict[str, Any] | None = None
        try:
            data = self._root()
        except _TooComplex:
            pass
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)
            self._problem(place, f"YAML syntax: {error.problem or error.context}", "yaml-syntax")
        except yaml.YAMLError as error:
            self._problem(Mark(1, 1), f"YAML syntax: {str(error).splitlines()[0]}", "yaml-syntax")
        document = None if data is None else Document(path=self.path, data=data, keys=self.keys, values=self.values)
        return Examined(document=document, problems=tuple(self.problems), broken=frozenset(self.broken))

    def _root(self) -> dict[str, Any] | None:
        events = yaml.parse(self.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        next(events)
        first = next(events)
        if isinstance(first, yaml.StreamEndEvent):
            self._check_defaults(None)
            return {}
        node = next(events)
        data = self._node(node, events, ())
        next(events)
        if not isinstance(next(events), yaml.StreamEndEvent):
            self._problem(Mark(1, 1), "more than one YAML document", "many-documents")
        if data is None:
            self._check_defaults(None)
            return {}
        if not isinstance(data, dict):
            self._problem(_mark(node), "a config file is a mapping of keys to values", "not-a-mapping")
            return None
        found = len(self.problems)
        self._check_defaults(data.get("defaults"))
        if len(self.problems) > found:
            self.broken.add(("defaults",))
        if "hydra" in data:
            self._problem(self.keys[("hydra",)], "'hydra' nodes are not allowed", "hydra-node")
            del data["hydra"]
        return data

    def _check_defaults(self, entries: Any) -> None:
        for index, what, reason, hint in faults_of_list(entries, self.path):
            place: KeyPath = ("defaults",) if index is None else ("defaults", index)
            self._problem(self.values.get(place, Mark(1, 1)), what, reason, hint)

    def _check_header(self) -> None:
        for number, line in enumerate(self.text.splitlines(), start=1):
            if _PACKAGE_HEADER.match(line):
                what = "'# @...' headers are not allowed"
                self._problem(Mark(number, 1), what, "package-header")
            elif line.strip() and not line.lstrip().startswith("#"):
                return

    def _node(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        self.values[path] = _mark(event)
        self._check_limits(event, path)
        found = len(self.problems)
        self._check_event(event)
        value = self._value(event, events, path)
        if len(self.problems) > found and not isinstance(value, (dict, list)):
            self.broken.add(path)
            return None
        return value

    def _value(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(events, path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(events, path)
        return None

    def _check_limits(self, event: Any, path: KeyPath) -> None:
        self.nodes += 1
        if len(path) > MAX_DEPTH or self.nodes > MAX_NODES:
            what = f"nested deeper than {MAX_DEPTH}" if len(path) > MAX_DEPTH else f"over {MAX_NODES} values"
            self._problem(_mark(event), what, "file-too-complex")
            raise _TooComplex

    def _check_event(self, event: Any) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            hint = "write the value out"
            self._problem(_mark(event), "anchors and aliases are not allowed", "yaml-alias", hint)
        elif getattr(event, "tag", None) not in (None, "!"):
            self._problem(_mark(event), f"tag {event.tag!r} is not allowed", "yaml-tag")

    def _sequence(self, events: Iterator[Any], path: KeyPath) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._node(event, events, (*path, len(items))))
        return items

    def _mapping(self, events: Iterator[Any], path: KeyPath) -> dict[str, Any]:
        items: dict[str, Any] = {}
        seen: dict[str, Mark] = {}  # of this mapping alone: one that stands twice has all its keys twice
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            found = len(self.problems)
            key = self._key(event, events, path)
            child = (*path, key)
            is_allowed = len(self.problems) == found
            if key in seen:
                lines = f"lines {seen[key].line} and {event.start_mark.line + 1}"
                self._problem(_mark(event), f"key {key!r} stands twice, on {lines}", "duplicate-key")
                self.broken.add(child)
            self.keys[child] = seen[key] = _mark(event)
            value = self._node(next(events), events, child)
            if is_allowed:
                items[key] = value
        return items

    def _key(self, event: Any, events: Iterator[Any], path: KeyPath) -> str:
        value = self._node(event, events, (*path, "?"))
        if not isinstance(event, yaml.ScalarEvent):
            self._problem(_mark(event), "a key is a plain word", "bad-key")
            return "?"
        is_told = (*path, "?") in self.broken
        self.broken.discard((*path, "?"))
        if event.value in _INSTANTIATION_KEYS:
            self._problem(_mark(event), f"key {event.value!r} is not allowed: configs run no code", "runs-code")
        elif not isinstance(value, str) and not is_told:
            self._problem(_mark(event), f"key {event.value!r} is not a word", "bad-key", "quote it")
        return str(event.value)

    def _scalar(self, event: Any, path: KeyPath) -> Any:
        text, is_key = event.value, path[-1:] == ("?",)
        if text == "???":
            self._problem(_mark(event), "a value is missing", "missing-value", "write it, or leave the key out")
        if runs_code(text):
            self._problem(_mark(event), f"resolver in {text[:80]!r} is not allowed", "resolver")
        if not event.implicit[0]:
            return text
        kind, value = core_scalar(text)
        if _NOT_FINITE.fullmatch(text) or (kind == "float" and not math.isfinite(value)):
            self._problem(_mark(event), f"{text[:80]} is not a finite number", "not-finite")
            return None
        is_letter = text in _LETTERS and not is_key
        if is_letter or is_ambiguous(text):
            what = f"{text[:80]} is read differently by YAML 1.1 and 1.2"
            hint = "quote this value" if is_key else hint_for(text, wanted_at(group_of(self.path), path))
            self._problem(_mark(event), what, "ambiguous-value", hint)
        return value

    def _problem(self, mark: Mark, what: str, reason: str, hint: str = "") -> None:
        where = f"{display(self.path)}:{mark.line}:{mark.column}"
        self.problems.append(Problem(where=where, what=what, reason=reason, hint=hint))


def _mark(event: Any) -> Mark:
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def core_scalar(text: str) -> tuple[str, Any]:
    """Kind and value of a plain scalar in YAML 1.2's core schema."""
    if _NULL.fullmatch(text):
        return "null", None
    if _BOOL.fullmatch(text):
        return "bool", text.lower() == "true"
    if _INT.fullmatch(text) and len(text) <= 40:
        return "int", int(text)
    if _HEX.fullmatch(text) and len(text) <= 40:
        return "int", int(text, 0)
    if _FLOAT.fullmatch(text):
        return "float", float(text)
    return "str", text


def is_ambiguous(text: str) -> bool:
    """Whether YAML 1.1 and 1.2 read a plain scalar differently.

    >>> is_ambiguous("1_0"), is_ambiguous("on"), is_ambiguous("0123"), is_ambiguous("10")
    (True, True, True, False)
    """
    kind, _ = core_scalar(text)
    tag: str = _yaml_1_1().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # stubs
    return kind != tag.removeprefix("tag:yaml.org,2002:") or (kind == "int" and _has_leading_zero(text))


@cache
def _yaml_1_1() -> yaml.SafeLoader:
    return yaml.SafeLoader("")


def _has_leading_zero(text: str) -> bool:
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits.startswith("0") and not digits.startswith("0x")
