"""Which series a command speaks of: specs, the history of each, and the key that a run of it would have."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.cli.cache_dir import cache_dir
from gatekit.cli.shadowed import announce
from gatekit.errors import ConfigError, ExitCode, GatekitError
from gatekit.history.acts import refuse_password
from gatekit.history.durable_files import is_folder
from gatekit.history.place import DEFAULT_DIR, Place, place_of
from gatekit.records.run import Comparability
from gatekit.records.secrets import masked_url
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.run.asked import comparability_of
from gatekit.spec.folders import naming
from gatekit.spec.library import Library
from gatekit.spec.locks import command_typed
from gatekit.spec.resolve import config_dirs
from gatekit.spec.selection import Selected, every_model, on_some_machine

DIR_OPTION = "--dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What kept a series out: its lines, and the exit code that it asks for."""

    lines: tuple[str, ...]
    code: ExitCode

    @classmethod
    def of(cls, error: GatekitError) -> Failure:
        """The failure that an error stands for."""
        return cls(lines=tuple(error.lines()), code=error.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A spec, its history, and the comparability key of its runs.

    Not `is_own`: it was selected with every other, and comes with gatekit, beside models of the team's own.
    """

    spec: Spec
    place: Place
    key: Comparability
    is_own: bool = True


def add_selection(parser: ArgumentParser, *, what: str) -> None:
    """The arguments that `one` and `every` read."""
    add = parser.add_argument
    add("overrides", nargs="*", metavar="GROUP=OPTION | KEY=VALUE", help=what)
    add("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own config groups")
    add("--dir", type=Path, metavar="DIR", help="history folder, instead of history.dir")
    add("--url", metavar="URL", help="database of its index, instead of history.url")


def one(options: Namespace, environ: Mapping[str, str]) -> Wanted:
    """The one spec that the overrides ask for. Raises ConfigError, InfraError."""
    dirs = config_dirs(options.config_dir, environ)
    selected = on_some_machine(options.overrides, dirs=dirs)
    announce(dirs, [selected.overrides])
    return _wanted(selected, options, environ)


def every(options: Namespace, environ: Mapping[str, str]) -> tuple[list[Wanted], list[Failure]]:
    """The spec that the overrides ask for, or without any every model of conf/; and what kept others out."""
    if options.overrides:
        return [one(options, environ)], []
    dirs = config_dirs(options.config_dir, environ)
    selected, problems = every_model((), dirs=dirs)
    announce(dirs, [each.overrides for each in selected])
    failures = [Failure.of(ConfigError(problems))] if problems else []
    wanted: list[Wanted] = []
    theirs = _of_the_team(selected, Library(dirs))
    for each in selected:
        try:
            wanted.append(replace(_wanted(each, options, environ), is_own=not theirs or each in theirs))
        except GatekitError as error:
            failures.append(Failure.of(error))
    if not wanted and not failures:
        raise ConfigError.one("no model is selected", reason="empty-selection", hint="name one: model=NAME")
    return wanted, failures


def _of_the_team(selected: Sequence[Selected], library: Library) -> list[Selected]:
    """Those whose model stands in a folder of the team's own; none where there is no such folder."""
    shipped = conf_dir().resolve()
    models = [next(word for word in each.overrides if word.startswith("model=")) for each in selected]
    files = [library.files("model", word.removeprefix("model=")) for word in models]
    return [each for each, found in zip(selected, files, strict=True) if not found[0].is_relative_to(shipped)]


def repeated(options: Namespace, *more: str) -> str:
    """The `recompute` command with the same selection as these options, and more; without secrets."""
    return command_typed(options.overrides, (), [*folders_of(options), *more])


def folders_of(options: Namespace) -> list[str]:
    """The words that name the folders, and the database, with which the command was called; without a password."""
    words = naming(options.config_dir)
    words += ["--dir", str(options.dir)] if options.dir is not None else []
    return words + (["--url", masked_url(options.url)] if options.url is not None else [])


def _wanted(selected: Selected, options: Namespace, environ: Mapping[str, str]) -> Wanted:
    spec = selected.spec
    history = spec.history
    if options.dir is not None:
        history = replace(history, dir=str(options.dir))
    if options.url is not None:
        history = replace(history, url=options.url)
    place = place_of(history, environ)
    typed = next((word for word in options.overrides if word.startswith("history.dir=")), None)
    named = typed if options.dir is None else DIR_OPTION
    if named is not None:
        refuse_missing(place, named=named)
    return Wanted(spec=spec, place=place, key=comparability_of(spec, cache_dir=cache_dir(environ)))


def refuse_missing(place: Place, *, named: str) -> None:
    """Raise ConfigError where a history that was `named` has no folder: a typing error must not pass for no runs."""
    if place.url is not None or is_folder(place.dir):
        return
    is_there = os.path.lexists(place.dir)
    why = "it is no folder" if is_there else f"there is no such folder in {place.dir.absolute().parent}"
    hint = f"`gatekit history list --dir DIR` shows what a folder holds; the default one is {DEFAULT_DIR}"
    raise ConfigError.one(f"no history in {place.dir}: {why}", where=named, reason="no-history", hint=hint)


def reason_given(options: Namespace) -> str | None:
    """`--reason`, without spaces around it. Raises ConfigError when it is empty, or holds a password: it is kept."""
    reason: str | None = options.reason
    if reason is None:
        return None
    if not reason.strip():
        hint = "say why, in a sentence"
        raise ConfigError.one("the reason is empty", where="--reason", reason="bad-reason", hint=hint)
    refuse_password(reason)
    return reason.strip()
