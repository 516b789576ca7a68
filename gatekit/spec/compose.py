"""From overrides to plain data, through Hydra's Compose API. Hydra and OmegaConf stop here."""

from __future__ import annotations

import difflib
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra import version as hydra_version
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, OverrideType, RangeSweep
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gatekit.errors import ConfigError, Problem
from gatekit.spec.composition import Composition, shown_override
from gatekit.spec.folders import can_be_chosen, naming
from gatekit.spec.misfit import nearest_of, no_such
from gatekit.spec.override_values import parsed
from gatekit.spec.reader import Document, KeyPath, display, references, runs_code
from gatekit.spec.source import CheckedSource

ROOT = "config"
MOST_REFERENCES = 32
MOST_COPIED_VALUES = 10_000
MOST_COPIED_CHARACTERS = 1024 * 1024
MOST_SPECS = 1000
# Hydra's parser takes a millisecond for every few items of a list.
MOST_OVERRIDE_CHARACTERS = 16 * 1024
_MOST_NAME_CHARACTERS = 80
# What a group is called elsewhere.
_OTHER_NAMES = {
    "hardware": "hw",
    "machine": "hw",
    "gpu": "hw",
    "server": "engine",
    "dataset": "task",
    "prompt": "protocol",
}
_VALUES = "write KEY=VALUE with the value itself"
MATRIX = "matrix"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_NOTHING = object()
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def compose(overrides: Sequence[str], *, config_dirs: Sequence[Path]) -> Composition:
    """The config that `overrides` ask for, composed from the folders; earlier folders shadow later ones.

    Raises ConfigError for unknown groups, options and keys, hostile overrides and broken references.
    """
    with _hydra(config_dirs) as loader, _as_config_errors(loader, overrides):
        return _compose(_all_checked(_parse(overrides, loader), loader), loader)


def sweep(overrides: Sequence[str], *, config_dirs: Sequence[Path]) -> tuple[tuple[str, ...], ...]:
    """Every combination of a sweep in Hydra's grammar (`model=a,b task.n=range(1,4)`), each as overrides."""
    with _hydra(config_dirs) as loader, _as_config_errors(loader, overrides):
        asked = _parse(overrides, loader)
        for override in asked:
            _refuse_hostile(override, loader)
        widths = [_width(override, loader) for override in asked]
        if 0 in widths:
            shown = shown_override(asked[widths.index(0)].input_line or "")
            raise ConfigError.one(f"override {shown!r}: sweeps over nothing", reason="bad-override")
        if math.prod(widths) > MOST_SPECS:
            raise ConfigError.one(f"the sweep asks for over {MOST_SPECS} specs", reason="sweep-too-large")
        return tuple(tuple(batch) for batch in BasicSweeper.split_arguments(asked, None)[0])


def values(overrides: Sequence[str], *, config_dirs: Sequence[Path]) -> list[tuple[tuple[str, ...], Any]]:
    """The key path and the value of each override, none of which chooses an option, refers to another or deletes."""
    with _hydra(config_dirs) as loader, _as_config_errors(loader, overrides):
        asked = _parse(overrides, loader)
        _all_checked(asked, loader)
        for override in asked:
            if override.type is OverrideType.DEL or "${" in (override.input_line or ""):
                shown = shown_override(override.input_line or "")
                raise ConfigError.one(f"override {shown!r} sets no value", reason="bad-override", hint=_VALUES)
        return [(tuple(override.key_or_group.split(".")), override.value()) for override in asked]


def _width(override: Override, loader: ConfigLoader) -> int:
    """How many values an override sweeps over, without making them. Raises ConfigError for an endless range."""
    value: object = override.value()
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    if isinstance(value, Glob):
        group = override.key_or_group
        names = value.filter(loader.get_group_options(group, ObjectType.CONFIG))
        if not names:
            raise ConfigError.one(f"{group}: no option matches", reason="unknown-option")
        return len(names)
    if isinstance(value, RangeSweep):
        start, stop, step = (float(number or 0) for number in (value.start, value.stop, value.step))
        width = (stop - start) / step if step else math.inf
        if not math.isfinite(width):
            shown = shown_override(override.input_line or "")
            raise ConfigError.one(f"override {shown!r}: the range has no end", reason="bad-override")
        return max(math.ceil(width), 0)
    return 1


def options(group: str, *, config_dirs: Sequence[Path]) -> tuple[str, ...]:
    """The names of a group's options, sorted."""
    with _hydra(config_dirs) as loader:
        return tuple(loader.get_group_options(group, ObjectType.CONFIG))


@contextmanager
def _hydra(config_dirs: Sequence[Path]) -> Iterator[ConfigLoader]:
    """A Hydra of our own sources, leaving no global state behind."""
    _plugins().register(CheckedSource)
    hydra_version.setbase("1.3")
    *team, shipped = [f"{CheckedSource.scheme()}://{folder.resolve()}" for folder in config_dirs]
    path = create_config_search_path(shipped)
    for folder in reversed(team):
        path.prepend("team", folder)
    GlobalHydra.instance().clear()
    try:
        hydra = Hydra.create_main_hydra2(task_name="gatekit", config_search_path=path)
        yield hydra.config_loader
    finally:
        GlobalHydra.instance().clear()


def _plugins() -> Plugins:
    """Hydra's own plugins: those that it would find beside the configs, or wherever Python looks, run code."""
    absent = "hydra_plugins"
    kept = sys.modules.get(absent)
    sys.modules[absent] = None  # type: ignore[assignment]  # so it cannot be imported
    try:
        return Plugins.instance()
    finally:
        del sys.modules[absent]
        if kept is not None:
            sys.modules[absent] = kept


@contextmanager
def _as_config_errors(loader: ConfigLoader, overrides: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except MissingConfigException as error:
        raise _missing_option(error, loader) from None
    except (HydraException, OmegaConfBaseException, RecursionError) as error:
        # Hydra wraps whatever a source raises; a ConfigError of the reader says it better.
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ConfigError):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        for text in overrides:
            value = text.partition("=")[2].strip()
            first = first.replace(value, "...") if value and shown_override(text) != text else first
        if isinstance(error, RecursionError):
            first = "nested too deeply, or a defaults list that leads back to its own file"
        where = next((display(document.path) for _, document in _documents(loader)), "")
        raise ConfigError.one(first, where=where, reason="cannot-compose") from None


def _missing_option(error: MissingConfigException, loader: ConfigLoader) -> ConfigError:
    """What a defaults list asks for and no folder has, at the line that asks for it."""
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    known = loader.get_group_options(group, ObjectType.CONFIG) if group in loader.list_groups("") else []
    where = ""
    for _, document in _documents(loader):
        entries = document.data.get("defaults") or []
        for path, mark in document.values.items():
            if path[:1] == ("defaults",) and len(path) > 1 and _entry_names(entries[int(path[1])], name):
                where = f"{display(document.path)}:{mark.line}:{mark.column}"
    found = no_such(group, name, known)
    return ConfigError.one(found.what, where=where, reason=found.reason, hint=found.hint)


def _entry_names(entry: object, name: str) -> bool:
    return entry == name or (isinstance(entry, dict) and name in entry.values())


def _parse(overrides: Sequence[str], loader: ConfigLoader) -> list[Override]:
    if sum(map(len, overrides)) > MOST_OVERRIDE_CHARACTERS:
        longest = shown_override(max(overrides, key=len).partition("=")[0])[:_MOST_NAME_CHARACTERS]
        what = f"override {longest!r} is too long: all of them have over {MOST_OVERRIDE_CHARACTERS} characters"
        raise ConfigError.one(what, reason="bad-override", hint="write it into a config file")
    return _each(lambda text: parsed(text, loader), overrides)


def _refuse_hostile(override: Override, loader: ConfigLoader) -> None:
    raw = override.input_line or ""
    text = shown_override(raw)
    key = override.key_or_group
    if key == "hydra" or key.startswith(("hydra.", "hydra/")):
        raise ConfigError.one(f"override {text!r}: Hydra's own settings are not allowed", reason="hydra-node")
    if key.split("/")[0].split(".")[0] == MATRIX:
        name = raw.partition("=")[2]
        shown = name if key == MATRIX and _PLAIN_NAME.fullmatch(name) else "NAME"
        own = shlex.join(naming(_own_folders(loader)))
        tail = f" {own}" if own else ""
        hint = f"`gatekit run --matrix {shown}{tail}` runs it, `gatekit plan {shown}{tail}` shows it"
        raise ConfigError.one("a matrix is no part of a spec", where="override matrix", reason="matrix", hint=hint)
    if override.package is not None:
        raise ConfigError.one(f"override {text!r}: packages are not allowed", reason="package-header")
    if runs_code(raw):
        raise ConfigError.one(f"override {text!r}: resolvers are not allowed", reason="resolver")
    if "_target_" in raw:
        raise ConfigError.one(f"override {text!r}: '_target_' is not allowed: configs run no code", reason="runs-code")


def _own_folders(loader: ConfigLoader) -> list[str]:
    """The config folders before the shipped one, as they are typed."""
    folders = [Path(source.path) for source in loader.get_sources() if isinstance(source, CheckedSource)]
    return [display(folder) for folder in folders[:-1]]


def _all_checked(asked: Sequence[Override], loader: ConfigLoader) -> list[str]:
    """All of them as Hydra shall see them. Raises ConfigError with what is wrong with each."""
    return _each(lambda override: _checked(override, loader), asked)


def _each(make: Callable[[_Given], _Made], given: Iterable[_Given]) -> list[_Made]:
    """What is made of each. Raises ConfigError with all the problems of all of them."""
    made: list[_Made] = []
    problems: list[Problem] = []
    for one in given:
        try:
            made.append(make(one))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return made


def _checked(override: Override, loader: ConfigLoader) -> str:
    """The override as Hydra shall see it: choices checked, values set whether or not the key was there."""
    _refuse_hostile(override, loader)
    text = override.input_line or ""
    key = override.key_or_group
    groups = loader.list_groups("")
    if override.is_sweep_override():
        raise ConfigError.one(
            f"override {shown_override(text)!r} asks for several values", reason="sweep", hint="add -m to sweep"
        )
    if key in groups:
        _check_option(override, loader.get_group_options(key, ObjectType.CONFIG))
        return text
    section = key.split(".")[0].split("/")[0]
    if section not in (*groups, "client"):
        near = _OTHER_NAMES.get(section) or _nearest(section, [*groups, "client"])
        known = ", ".join(sorted(g for g in groups if g not in ("hydra", MATRIX)))
        hint = f"did you mean {near!r}?" if near else f"groups are {known}"
        raise ConfigError.one(
            f"override {shown_override(text)!r}: unknown group or key {section!r}", reason="unknown-group", hint=hint
        )
    if override.type is OverrideType.DEL:
        return text
    return "++" + text.lstrip("+")


def _check_option(override: Override, known: list[str]) -> None:
    name = override.value()
    group = override.key_or_group
    known = [option for option in known if can_be_chosen(option)]
    if override.type is OverrideType.DEL or not isinstance(name, str):
        shown = shown_override(override.input_line or "")
        what = f"override {shown!r}: group {group!r} takes the name of one option"
        raise ConfigError.one(what, reason="bad-option", hint=f"one of {', '.join(known)}")
    if name not in known:
        hint = nearest_of(name, known)
        hint += f" (your own: {group}/{name}.yaml in a folder given by --config-dir)" if name.isidentifier() else ""
        raise ConfigError.one(f"{group}={name}: no such {group}", reason="unknown-option", hint=hint)


def _nearest(word: str, known: Sequence[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.6)), None)


def _compose(overrides: list[str], loader: ConfigLoader) -> Composition:
    config = hydra_compose(ROOT, overrides=overrides, return_hydra_config=True)
    choices = OmegaConf.to_container(config.hydra.runtime.choices)
    assert isinstance(choices, dict)
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    composition = Composition(
        data=_plain(config, resolve=False),
        choices={str(k): str(v) for k, v in choices.items() if not str(k).startswith("hydra/")},
        overrides=tuple(overrides),
        documents=tuple(_documents(loader)),
    )
    _refuse_bad_references(composition)
    return replace(composition, data=_plain(config, resolve=True))


def _plain(config: DictConfig, *, resolve: bool) -> dict[str, Any]:
    data = OmegaConf.to_container(config, resolve=resolve)
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items()}


def _refuse_bad_references(composition: Composition) -> None:
    """A reference leads to a plain value: not to nothing, not to a resolver, and not to another reference.

    Without chains there are no cycles, and a short file cannot grow into gigabytes.
    """
    found = [(path, text) for path, text in _texts(composition.data, ()) if "${" in text or text == "???"]
    _refuse_growth([target for _, text in found for target in references(text)], composition.data)
    problems = [
        Problem(where=composition.locate(path), what=f"{'.'.join(map(str, path))}: {what}", reason=reason)
        for path, text in found
        for what, reason in _reference_faults(text, composition.data)
    ]
    if problems:
        raise ConfigError(problems)


def _refuse_growth(targets: Sequence[tuple[str, ...]], data: dict[str, Any]) -> None:
    """References copy what they refer to: how often, and how much, is bounded before anything is copied."""
    if len(targets) > MOST_REFERENCES:
        raise ConfigError.one(f"the config has over {MOST_REFERENCES} references", reason="reference-bomb")
    characters = 0
    copied = chain.from_iterable(_values(_at(data, target)) for target in targets)
    for values, value in enumerate(copied, start=1):
        characters += len(value) if isinstance(value, str) else 0
        if values > MOST_COPIED_VALUES or characters > MOST_COPIED_CHARACTERS:
            what = f"references copy over {MOST_COPIED_VALUES} values or {MOST_COPIED_CHARACTERS} characters"
            raise ConfigError.one(what, reason="reference-bomb")


def _values(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(inner)


def _at(data: dict[str, Any], target: tuple[str, ...]) -> Any:
    value: Any = data
    for part in target:
        if isinstance(value, list):
            value = dict(zip(map(str, range(len(value))), value, strict=True))
        value = value.get(part, _NOTHING) if isinstance(value, dict) else _NOTHING
    return value


def _reference_faults(text: str, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if text == "???":
        yield "a value is missing", "missing-value"
    elif runs_code(text):
        yield "resolvers are not allowed", "resolver"
    for target in references(text):
        name = ".".join(target)
        value = _at(data, target)
        if value is _NOTHING:
            yield f"refers to {name}, which is not there", "bad-reference"
        elif any("${" in inner for _, inner in _texts(value, ())):
            yield f"refers to {name}, which is a reference itself (a cycle or a chain)", "bad-reference"


def _texts(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _texts(item, (*path, key))


def _documents(loader: ConfigLoader) -> Iterator[tuple[KeyPath, Document]]:
    """The files that were read with the key path they are placed at, the ones that win first."""
    read = [
        (name, document)
        for source in loader.get_sources()
        if isinstance(source, CheckedSource)
        for name, document in source.documents.items()
    ]
    for name, document in sorted(read, key=lambda item: _rank(item[0])):
        yield (() if name.startswith("model/") or "/" not in name else (name.split("/")[0],)), document


def _rank(name: str) -> int:
    """Model files override group files, which override the root file."""
    return 0 if name.startswith("model/") else 1 if "/" in name else 2
