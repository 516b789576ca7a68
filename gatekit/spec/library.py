"""Many compositions from the same files, quickly: every file is read once, and plain ones are merged without Hydra.

What Hydra does with defaults lists is a large language. The part that configs use almost always (the root's list of
groups, `override /group: option` in a model file, a file that builds on another one of its group, plain overrides)
is composed here, a hundred times faster; whatever lies beyond it, mistakes included, goes to Hydra itself. That both
give the same is tested over all shipped configs and over generated ones.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.resources import schema
from gatekit.spec.checked import checked
from gatekit.spec.composition import Composition
from gatekit.spec.empty_folders import empty_folders
from gatekit.spec.folders import can_be_chosen, is_file
from gatekit.spec.misfit import OVERRIDE, Misfit, misfit, no_such
from gatekit.spec.reader import Document, Examined, KeyPath, display, examine

ROOT = "config"
MODEL = "model"
_ENGINE = "engine"
_NOT_THERE = frozenset({"unknown-option", "unknown-group"})
SUFFIX = ".yaml"
_SELF = "_self_"
_MOST_FILES_OF_A_GROUP = 10

_NAME = re.compile(r"(?!(?:true|false|null|nan|inf)\Z)[A-Za-z_][A-Za-z0-9_-]*", re.IGNORECASE)
_CHOICE = re.compile(r"([a-z]+)=([A-Za-z0-9_-]+)")
_VALUE = re.compile(r"([a-z_]+(?:\.[A-Za-z_][A-Za-z0-9_]*)+)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,8})\.[0-9]{1,9}")
_QUOTED = re.compile(r"'([^'\"\\${}?\x00-\x1f\x7f]+)'")
_ITEM = r"'[^'\"\\${}?\x00-\x1f\x7f]+'|[A-Za-z0-9_.-]+"
_LIST = re.compile(rf"\[(?:(?:{_ITEM})(?:,(?:{_ITEM}))*)?\]")
_ITEMS = re.compile(_ITEM)
_WORDS = {"true": True, "false": False, "null": None}


class _BeyondPlain(Exception):  # noqa: N818 - not an error: Hydra takes over
    """Something that is left to Hydra."""


@dataclass(slots=True)
class _Wanted:
    """What one composition asks for so far, and the files it has read, in the order of reading."""

    options: dict[str, str]
    values: list[tuple[tuple[str, ...], Any]]
    is_salvage: bool = False
    read: dict[str, Document] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    unknown: set[str | None] = field(default_factory=set)  # groups whose option is not known; None: anything


class Library:
    """The config files of some folders, each read at most once; earlier folders shadow later ones."""

    def __init__(self, dirs: Sequence[Path]) -> None:
        self.dirs = tuple(folder.resolve() for folder in dirs)
        self._examined: dict[Path, Examined] = {}
        self._paths: dict[str, Path | None] = {}
        self._options: dict[str, tuple[str, ...]] = {}
        self._engines: frozenset[str] | None = None

    def groups(self) -> tuple[str, ...]:
        """The groups in the order of the root's defaults list, the one that wins last."""
        root = self._found(ROOT)
        return tuple(next(iter(entry)) for entry in root.data["defaults"] if isinstance(entry, dict))

    def options(self, group: str) -> tuple[str, ...]:
        """The names of a group's options in any of the folders, sorted; () for no such group."""
        if group not in self._options:
            names = {path.stem for folder in self.dirs for path in (folder / group).glob(f"*{SUFFIX}")}
            self._options[group] = tuple(sorted(filter(can_be_chosen, names)))
        return self._options[group]

    def files(self, group: str, option: str) -> tuple[Path, ...]:
        """Every file of that option, the one that is used first; the others are shadowed by it."""
        places = (folder / group / f"{option}{SUFFIX}" for folder in self.dirs)
        return tuple(path for path in places if is_file(path))

    def document(self, group: str, option: str) -> Document | None:
        """The file of an option; None if there is none. Raises ConfigError as `reader.read`."""
        return self._document(f"{group}/{option}")

    def examined(self, path: Path) -> Examined:
        """A file with its problems, read once."""
        if path not in self._examined:
            self._examined[path] = examine(path)
        return self._examined[path]

    def compose(self, overrides: Sequence[str]) -> Composition:
        """What `compose.compose` gives for these overrides, with the same errors.

        Where something is not there, all that is not there is told, and the config folders that bring nothing.
        """
        try:
            return self._with_engines(self._compose(overrides))
        except _BeyondPlain:
            from gatekit.spec.compose import compose  # brings Hydra

        try:
            return self._with_engines(compose(overrides, config_dirs=self.dirs))
        except ConfigError as error:
            raise self._whole(overrides, error) from None

    def alone(self, group: str, option: str) -> Mapping[str, Any] | None:
        """What the file of an option and those that it builds on say, as far as they can be read.

        None where only Hydra could tell. Raises ConfigError where a file cannot be read at all.
        """
        data: Mapping[str, Any] = {}
        try:
            for part in self._file(group, option, _Wanted(options={}, values=[], is_salvage=True)):
                data = _merged(data, part, is_salvage=True)
        except _BeyondPlain:
            return None
        return data

    def _whole(self, overrides: Sequence[str], error: ConfigError) -> ConfigError:
        """The error with everything else that is not there: the first one alone is what Hydra tells."""
        if not {problem.reason for problem in error.problems} <= _NOT_THERE:
            return error
        found = list(error.problems)
        with contextlib.suppress(_BeyondPlain, ConfigError):
            found += self._compose(overrides, is_salvage=True).notes
        return ConfigError([*sorted(dict.fromkeys(found), key=_place), *empty_folders(self.dirs)])

    def _with_engines(self, composition: Composition) -> Composition:
        """With the names of all engines, where the model says something of another one than its own."""
        model, engine = (composition.data.get(section) for section in (MODEL, _ENGINE))
        said = [model.get(key) for key in ("server_args", "server_env")] if isinstance(model, dict) else []
        named = {name for each in said if isinstance(each, dict) for name in each}
        own = engine.get("name") if isinstance(engine, dict) else None
        return composition if named <= {own} else replace(composition, engines=self._engine_names())

    def _engine_names(self) -> frozenset[str]:
        if self._engines is None:
            options = self.options(_ENGINE)
            found = [(option, self.examined(self.files(_ENGINE, option)[0]).document) for option in options]
            said = [(option, None if document is None else document.data.get("name")) for option, document in found]
            # A file that cannot be read, or builds on another one, may have its own name.
            self._engines = frozenset(name if isinstance(name, str) else option for option, name in said)
        return self._engines

    def salvage(self, overrides: Sequence[str]) -> Composition:
        """As `compose`, but of what can be read in files with problems; the values that cannot are its broken places.

        Entries of defaults lists that choose nothing are its notes. Raises ConfigError where a file that is needed
        cannot be read at all.
        """
        try:
            return self._with_engines(self._compose(overrides, is_salvage=True))
        except _BeyondPlain:
            return self.compose(overrides)

    def resolve(self, overrides: Sequence[str]) -> Spec:
        """The one Spec that `overrides` ask for. Raises ConfigError with every problem at once."""
        return checked(self.compose(overrides))

    def _document(self, name: str, *, is_salvage: bool = False) -> Document | None:
        path = self._path(name)
        if path is None:
            return None
        found = self.examined(path)
        # A defaults list that cannot be read may say anything.
        is_readable = found.document is not None and not any(place[:1] == ("defaults",) for place in found.broken)
        return found.document if is_salvage and is_readable else found.sound()

    def _path(self, name: str) -> Path | None:
        if name not in self._paths:
            places = (folder / f"{name}{SUFFIX}" for folder in self.dirs)
            self._paths[name] = next((path for path in places if is_file(path)), None)
        return self._paths[name]

    def _found(self, name: str, *, is_salvage: bool = False) -> Document:
        document = self._document(name, is_salvage=is_salvage)
        if document is None:
            raise _BeyondPlain
        return document

    def _compose(self, overrides: Sequence[str], *, is_salvage: bool = False) -> Composition:
        defaults = self._root_defaults()
        wanted = _wanted(overrides, defaults)
        wanted.is_salvage = is_salvage
        wanted.read[ROOT] = root = self._found(ROOT)
        # Hydra walks from the last entry to the first, so that a model chooses for the groups before it.
        parts = {group: self._part(group, defaults[group], wanted) for group in reversed(defaults)}
        data = _body(root)
        # File by file, as Hydra does: a null in one of them forgets what stood before, and nothing else does.
        for group in defaults:
            for part in parts[group]:
                data = _merged(data, part if group == MODEL else {group: part}, is_salvage=is_salvage)
        for path, value in wanted.values:
            data = _with(data, path, value)
        documents = tuple(self._placed(wanted.read))
        references = {path for path, text in _texts(data, ()) if "${" in text or text == "???"}
        is_faulty = is_salvage and (wanted.notes or any(self.examined(one.path).problems for _, one in documents))
        if references and not is_faulty:
            raise _BeyondPlain
        return Composition(
            data=data,
            choices={group: wanted.options.get(group, option) for group, option in defaults.items()},
            overrides=tuple(text if _CHOICE.fullmatch(text) else f"++{text}" for text in overrides),
            documents=documents,
            broken=frozenset(
                (*package, *place) for package, document in documents for place in self.examined(document.path).broken
            )
            | references
            | _unknown(wanted.unknown, documents),
            notes=tuple(dict.fromkeys(wanted.notes)),
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

    def _part(self, group: str, option: str, wanted: _Wanted) -> list[Mapping[str, Any]]:
        return self._file(group, wanted.options.get(group, option), wanted)

    def _file(self, group: str, option: str, wanted: _Wanted) -> list[Mapping[str, Any]]:
        """One file with what it builds on, in the order of its defaults list, itself last unless it says so."""
        name = f"{group}/{option}"
        wanted.read[name] = document = self._found(name, is_salvage=wanted.is_salvage)
        files = sum(other.startswith(f"{group}/") for other in wanted.read)
        entries: list[Any] = document.data.get("defaults") or []
        bases = [entry for entry in entries if isinstance(entry, str)]
        overriding = [entry for entry in entries if not isinstance(entry, str)]
        if files > _MOST_FILES_OF_A_GROUP or entries != bases + overriding or bases.count(_SELF) > 1:
            raise _BeyondPlain
        self._choose(group, document, overriding, wanted)
        order = bases if _SELF in bases else [*bases, _SELF]
        # The last one is read first, as by Hydra: what it chooses wins over what those before it choose.
        parts = {base: self._base(group, base, document, wanted) for base in reversed(order) if base != _SELF}
        return [part for base in order for part in ([_body(document)] if base == _SELF else parts[base])]

    def _base(self, group: str, option: str, document: Document, wanted: _Wanted) -> list[Mapping[str, Any]]:
        if wanted.is_salvage and _NAME.fullmatch(option) and option not in self.options(group):
            wanted.notes.append(_noted(no_such(group, option, self.options(group)), document, option))
            wanted.unknown.add(None)
            return []
        if not _NAME.fullmatch(option) or f"{group}/{option}" in wanted.read:
            raise _BeyondPlain
        return self._file(group, option, wanted)

    def _choose(self, group: str, document: Document, entries: Sequence[Any], wanted: _Wanted) -> None:
        """Keep what `override /group: option` chooses, unless that was chosen already."""
        for entry in entries:
            key, option = next(iter(entry.items()))
            target = key.removeprefix(OVERRIDE)
            found = misfit(key, option, self._root_defaults(), self.options(target)) if group == MODEL else None
            if wanted.is_salvage and found is not None and target != MODEL:
                wanted.notes.append(_noted(found, document, entry))
                wanted.unknown |= {found.group} - set(wanted.options)
                continue
            known = target != MODEL and target in self._root_defaults() and option in self.options(target)
            if group != MODEL or not key.startswith(OVERRIDE) or not known or not _NAME.fullmatch(option):
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
            wanted.values.append((tuple(value[1].split(".")), _plain(value[2])))
        else:
            raise _BeyondPlain
    return wanted


def _plain(text: str) -> Any:
    """What Hydra's grammar makes of a plain value, or of a list of such."""
    return [_scalar(item) for item in _ITEMS.findall(text)] if _LIST.fullmatch(text) else _scalar(text)


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


def _place(problem: Problem) -> tuple[str, list[int]]:
    """File, line and column, by which problems are put in order."""
    file, *numbers = problem.where.rsplit(":", 2)
    return file, [int(number) for number in numbers if number.isdecimal()]


def _body(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.data.items() if key != "defaults"}


def _noted(found: Misfit, document: Document, entry: Any) -> Problem:
    """The problem at the entry of the document's defaults list."""
    place: KeyPath = ("defaults", document.data["defaults"].index(entry), *(entry if isinstance(entry, dict) else ()))
    mark = document.values[place]
    where = f"{display(document.path)}:{mark.line}:{mark.column}"
    return Problem(where=where, what=found.what, reason=found.reason, hint=found.hint)


def _unknown(groups: Collection[str | None], documents: Iterable[tuple[KeyPath, Document]]) -> set[KeyPath]:
    """The keys of groups whose option is not known, but for those that a model file sets itself; () is everything."""
    models = [document for package, document in documents if not package and document.path.stem != ROOT]
    stated = {place for document in models for place in document.values}
    keys = {(group, key) for group in groups if group is not None for key in schema(group)["properties"]}
    return {()} if None in groups else {key for key in keys if key not in stated}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any], *, is_salvage: bool) -> dict[str, Any]:
    """`above` over `below`: mappings are merged key by key, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merged(old, value, is_salvage=is_salvage)
        elif _clash(old, value) and not is_salvage:  # one of them breaks its schema, which is said there
            raise _BeyondPlain
        else:
            merged[key] = value
    return merged


def _clash(old: Any, value: Any) -> bool:
    return isinstance(old, (dict, list)) and isinstance(value, (dict, list)) and type(old) is not type(value)


def _with(data: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The data with `value` at `path`."""
    key, *rest = path
    if not rest:
        if isinstance(value, list) and isinstance(data.get(key), dict):
            raise _BeyondPlain
        return {**data, key: value}
    inner = data.get(key)
    if not isinstance(inner, dict):
        raise _BeyondPlain
    return {**data, key: _with(inner, tuple(rest), value)}


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _texts(inner, (*path, key))
