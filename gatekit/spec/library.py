"""Many compositions from the same files, quickly: every file is read once, and plain ones are merged without Hydra.

What Hydra does with defaults lists is a large language. The part that configs use almost always (the root's list of
groups, `override /group: option` in a model file, a file that builds on another one of its group, plain overrides)
is composed here, a hundred times faster; whatever lies beyond it, mistakes included, goes to Hydra itself. That both
give the same is tested over all shipped configs and over generated ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gatekit.errors import ConfigError
from gatekit.records.spec import Spec
from gatekit.spec.checked import checked
from gatekit.spec.composition import Composition
from gatekit.spec.reader import Document, KeyPath, read

ROOT = "config"
MODEL = "model"
SUFFIX = ".yaml"
_SELF = "_self_"
_MOST_FILES_OF_A_GROUP = 10

_NAME = re.compile(r"(?!(?:true|false|null|nan|inf)\Z)[A-Za-z_][A-Za-z0-9_-]*", re.IGNORECASE)
_CHOICE = re.compile(r"([a-z]+)=([A-Za-z0-9_-]+)")
_VALUE = re.compile(r"([a-z_]+(?:\.[A-Za-z_][A-Za-z0-9_]*)+)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,8})\.[0-9]{1,9}")
_QUOTED = re.compile(r"'([^'\"\\${}?\x00-\x1f\x7f]+)'")
_WORDS = {"true": True, "false": False, "null": None}


class _BeyondPlain(Exception):  # noqa: N818 - not an error: Hydra takes over
    """Something that is left to Hydra."""


@dataclass(slots=True)
class _Wanted:
    """What one composition asks for so far, and the files it has read, in the order of reading."""

    options: dict[str, str]
    values: list[tuple[tuple[str, ...], Any]]
    read: dict[str, Document] = field(default_factory=dict)


class Library:
    """The config files of some folders, each read at most once; earlier folders shadow later ones."""

    def __init__(self, dirs: Sequence[Path]) -> None:
        self.dirs = tuple(folder.resolve() for folder in dirs)
        self._documents: dict[str, Document | ConfigError | None] = {}
        self._options: dict[str, tuple[str, ...]] = {}

    def groups(self) -> tuple[str, ...]:
        """The groups in the order of the root's defaults list, the one that wins last."""
        root = self._found(ROOT)
        return tuple(next(iter(entry)) for entry in root.data["defaults"] if isinstance(entry, dict))

    def options(self, group: str) -> tuple[str, ...]:
        """The names of a group's options in any of the folders, sorted; () for no such group."""
        if group not in self._options:
            names = {path.stem for folder in self.dirs for path in (folder / group).glob(f"*{SUFFIX}")}
            self._options[group] = tuple(sorted(names))
        return self._options[group]

    def files(self, group: str, option: str) -> tuple[Path, ...]:
        """Every file of that option, the one that is used first; the others are shadowed by it."""
        places = (folder / group / f"{option}{SUFFIX}" for folder in self.dirs)
        return tuple(path for path in places if path.is_file())

    def document(self, group: str, option: str) -> Document | None:
        """The file of an option; None if there is none. Raises ConfigError as `reader.read`."""
        return self._document(f"{group}/{option}")

    def compose(self, overrides: Sequence[str]) -> Composition:
        """What `compose.compose` gives for these overrides, with the same errors."""
        try:
            return self._compose(overrides)
        except _BeyondPlain:
            from gatekit.spec.compose import compose  # brings Hydra

            return compose(overrides, config_dirs=self.dirs)

    def resolve(self, overrides: Sequence[str]) -> Spec:
        """The one Spec that `overrides` ask for. Raises ConfigError with every problem at once."""
        return checked(self.compose(overrides))

    def _document(self, name: str) -> Document | None:
        if name not in self._documents:
            self._documents[name] = self._first(name)
        found = self._documents[name]
        if isinstance(found, ConfigError):
            raise found
        return found

    def _first(self, name: str) -> Document | ConfigError | None:
        path = next((path for folder in self.dirs if (path := folder / f"{name}{SUFFIX}").is_file()), None)
        if path is None:
            return None
        try:
            return read(path)
        except ConfigError as error:
            return error

    def _found(self, name: str) -> Document:
        document = self._document(name)
        if document is None:
            raise _BeyondPlain
        return document

    def _compose(self, overrides: Sequence[str]) -> Composition:
        defaults = self._root_defaults()
        wanted = _wanted(overrides, defaults)
        wanted.read[ROOT] = root = self._found(ROOT)
        # Hydra walks from the last entry to the first, so that a model chooses for the groups before it.
        parts = {group: self._part(group, defaults[group], wanted) for group in reversed(defaults)}
        data = _body(root)
        for group in defaults:
            data = _merged(data, parts[group] if group == MODEL else {group: parts[group]})
        for path, value in wanted.values:
            data = _with(data, path, value)
        if any("${" in text or text == "???" for text in _texts(data)):
            raise _BeyondPlain
        return Composition(
            data=data,
            choices={group: wanted.options.get(group, option) for group, option in defaults.items()},
            overrides=tuple(text if _CHOICE.fullmatch(text) else f"++{text}" for text in overrides),
            documents=tuple(self._placed(wanted.read)),
        )

    def _root_defaults(self) -> dict[str, str]:
        """The options that the root file chooses, by group, in its order."""
        first, *entries = self._found(ROOT).data.get("defaults") or [None]
        pairs = [next(iter(entry.items())) for entry in entries if isinstance(entry, dict)]
        known = dict(pairs)
        plain = all(_NAME.fullmatch(str(word)) for pair in pairs for word in pair)
        if first != _SELF or len(known) != len(entries) or not plain or not pairs or pairs[-1][0] != MODEL:
            raise _BeyondPlain
        return known

    def _part(self, group: str, option: str, wanted: _Wanted) -> Mapping[str, Any]:
        return self._file(group, wanted.options.get(group, option), wanted)

    def _file(self, group: str, option: str, wanted: _Wanted) -> Mapping[str, Any]:
        """One file with what it builds on, merged in the order of its defaults list, itself last unless it says so."""
        name = f"{group}/{option}"
        wanted.read[name] = document = self._found(name)
        files = sum(other.startswith(f"{group}/") for other in wanted.read)
        entries: list[Any] = document.data.get("defaults") or []
        bases = [entry for entry in entries if isinstance(entry, str)]
        overriding = [entry for entry in entries if not isinstance(entry, str)]
        if files > _MOST_FILES_OF_A_GROUP or entries != bases + overriding or bases.count(_SELF) > 1:
            raise _BeyondPlain
        self._choose(group, overriding, wanted)
        order = bases if _SELF in bases else [*bases, _SELF]
        # The last one is read first, as by Hydra: what it chooses wins over what those before it choose.
        parts = {base: self._base(group, base, wanted) for base in reversed(order) if base != _SELF}
        data: Mapping[str, Any] = {}
        for base in order:
            data = _merged(data, _body(document) if base == _SELF else parts[base])
        return data

    def _base(self, group: str, option: str, wanted: _Wanted) -> Mapping[str, Any]:
        if not _NAME.fullmatch(option) or f"{group}/{option}" in wanted.read:
            raise _BeyondPlain
        return self._file(group, option, wanted)

    def _choose(self, group: str, entries: Sequence[Any], wanted: _Wanted) -> None:
        """Keep what `override /group: option` chooses, unless that was chosen already."""
        for entry in entries:
            key, option = next(iter(entry.items()))
            target = key.removeprefix("override /")
            known = target != MODEL and target in self._root_defaults() and option in self.options(target)
            if group != MODEL or not key.startswith("override /") or not known or not _NAME.fullmatch(option):
                raise _BeyondPlain
            wanted.options.setdefault(target, option)

    def _placed(self, found: Mapping[str, Document]) -> Iterator[tuple[KeyPath, Document]]:
        """The files with the key path they are placed at, the ones that win first."""

        def rank(name: str) -> tuple[int, int]:
            kind = 0 if name.startswith(f"{MODEL}/") else 1 if "/" in name else 2
            return kind, next(i for i, folder in enumerate(self.dirs) if found[name].path.is_relative_to(folder))

        for name in sorted(found, key=rank):
            group = name.partition("/")[0]
            yield () if group in (MODEL, name) else (group,), found[name]


def _wanted(overrides: Sequence[str], groups: Mapping[str, str]) -> _Wanted:
    wanted = _Wanted(options={}, values=[])
    for text in overrides:
        choice = _CHOICE.fullmatch(text)
        value = _VALUE.fullmatch(text)
        if choice and choice[1] in groups and choice[1] not in wanted.options and _NAME.fullmatch(choice[2]):
            wanted.options[choice[1]] = choice[2]
        elif value and value[1].split(".")[0] in (*groups, "client") and "_target_" not in text:
            wanted.values.append((tuple(value[1].split(".")), _scalar(value[2])))
        else:
            raise _BeyondPlain
    return wanted


def _scalar(text: str) -> Any:
    """What Hydra's grammar makes of a plain value."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _NAME.fullmatch(text):
        return text
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        raise _BeyondPlain
    return quoted[1]


def _body(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.data.items() if key != "defaults"}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: mappings are merged key by key, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merged(old, value)
        elif isinstance(old, (dict, list)) and isinstance(value, (dict, list)) and type(old) is not type(value):
            raise _BeyondPlain
        else:
            merged[key] = value
    return merged


def _with(data: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The data with `value` at `path`."""
    key, *rest = path
    if not rest:
        return {**data, key: value}
    inner = data.get(key)
    if not isinstance(inner, dict):
        raise _BeyondPlain
    return {**data, key: _with(inner, tuple(rest), value)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)
