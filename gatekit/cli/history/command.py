"""`gatekit history COMMAND`: which subcommand, and which history it speaks of."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from gatekit.cli.arguments import Intermixed, Parser
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.durable_files import is_folder
from gatekit.history.place import DEFAULT_DIR as DEFAULT_DIR
from gatekit.history.place import URL_VARIABLE as URL_VARIABLE
from gatekit.history.place import Place, connected

_OVERRIDES = (("history.dir=", "--dir="), ("history.url=", "--url="))

# Name, module of this package, and its line in the help.
_COMMANDS = (
    ("list", "listing", "the newest runs"),
    ("show", "showing", "one run's verdict, explained"),
    ("compare", "comparing", "two runs, question by question"),
    ("plot", "plotting", "the accuracy of every series over its runs"),
    ("sync", "syncing", "index the records that the database misses"),
    ("rebuild", "rebuilding", "index every record file"),
    ("verify", "verifying", "whether every bit is what was written"),
    ("export", "exporting", "the runs as one file for others"),
    ("import", "importing", "runs from elsewhere, all of a file or nothing"),
    ("acts", "deciding", "what was decided: quarantines, releases, rebaselines"),
    ("rescore", "rescoring", "saved answers read again, no server asked"),
    ("quarantine", "quarantining", "a run does not count any more"),
    ("release", "releasing", "a quarantined run counts again"),
)


_MAKES_ITS_FOLDER = ("import",)
_NEEDS_ONLY_THE_INDEX = ("list", "plot", "verify", "acts")


class Subcommand(Protocol):
    """What a module of this package offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its own arguments; `--dir` and `--url` are there."""

    def run(self, options: argparse.Namespace, place: Place) -> ExitCode:
        """Do it and print the result."""


def run(arguments: Sequence[str], *, environ: Mapping[str, str] = os.environ) -> ExitCode:
    """Run one subcommand. Raises ConfigError on wrong input, InfraError where the history cannot be used."""
    arguments = as_options(arguments)
    options, left = _parser(arguments).parse_known_args(arguments)
    if left:
        Parser(f"gatekit history {options.command}").error(f"unrecognized arguments: {' '.join(left)}")
    place = chosen_place(options, environ)
    _refuse_missing(options.command, place)
    module = next(module for name, module, _ in _COMMANDS if name == options.command)
    with connected(place) as kept:
        return _load(module).run(options, kept)


def add_place(parser: argparse.ArgumentParser, *, default: object = DEFAULT_DIR) -> None:
    """The two options that say which history; used by every command that reads one."""
    url = None if default is not argparse.SUPPRESS else argparse.SUPPRESS
    parser.add_argument("--dir", type=Path, default=default, metavar="DIR", help="history folder (default .gatekit)")
    what = f"database of its index (default ${URL_VARIABLE}, else SQLite in DIR)"
    parser.add_argument("--url", default=url, metavar="URL", help=what)


def chosen_place(options: argparse.Namespace, environ: Mapping[str, str]) -> Place:
    """The history that the options of `add_place` name."""
    url = options.url or environ.get(URL_VARIABLE) or None
    return Place(dir=options.dir, url=url, variable=URL_VARIABLE if url and not options.url else None)


def as_options(arguments: Sequence[str]) -> list[str]:
    """The arguments with the overrides of a run that name its history as the options that do.

    >>> as_options(["list", "history.dir=month", "--limit", "3"])
    ['list', '--dir=month', '--limit', '3']
    """
    return [
        next((option + text.removeprefix(name) for name, option in _OVERRIDES if text.startswith(name)), text)
        for text in arguments
    ]


def _refuse_missing(command: str, place: Place) -> None:
    """A folder that is not there is a mistyped one, and no history without a run, but for the default one's list."""
    if command in _MAKES_ITS_FOLDER or is_folder(place.dir):
        return
    if command in _NEEDS_ONLY_THE_INDEX and place.url is not None:
        return
    if command == "list" and place.dir == Path(DEFAULT_DIR) and not os.path.lexists(place.dir):
        return
    hint = "name the folder with --dir"
    raise ConfigError.one(f"no history in {place.dir}: no such folder", reason="no-history", hint=hint)


def _parser(arguments: Sequence[str]) -> Parser:
    parser = Parser("gatekit history", "The runs that were remembered.")
    add_place(parser)
    names = ",".join(name for name, _, _ in _COMMANDS)
    metavar = f"{{{names}}}"
    commands = parser.add_subparsers(dest="command", required=True, metavar=metavar, parser_class=Intermixed)
    for name, module, line in _COMMANDS:
        command = commands.add_parser(name, help=line)
        add_place(command, default=argparse.SUPPRESS)
        if name in arguments:
            _load(module).add_arguments(command)
    return parser


def _load(module: str) -> Subcommand:
    loaded: Subcommand = import_module(f"gatekit.cli.history.{module}")
    return loaded
