"""`gatekit thresholds COMMAND`: which subcommand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from gatekit.cli.arguments import HelpWanted
from gatekit.errors import ConfigError, ExitCode

_COMMANDS = {"recompute": "recomputing", "rebaseline": "rebaselining", "show": "showing"}

_HELP = """\
gatekit thresholds: the counts that comparable history supports, in lock files that are reviewed and committed

  python -m gatekit thresholds recompute [GROUP=OPTION] ...   derive them, and show what changes
  python -m gatekit thresholds rebaseline ... --reason TEXT   the norm of a series starts anew behind its last run
  python -m gatekit thresholds show [GROUP=OPTION] ...        the lock in force, and its verdict on the last run

`gatekit thresholds COMMAND --help` says more. A spec is judged by its lock with gate=locked.
"""


class Subcommand(Protocol):
    """What a module of this package offers."""

    def run(self, arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
        """Do it and print the result."""


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Run one subcommand. Raises ConfigError on wrong input, InfraError where the history cannot be used."""
    at = next((index for index, word in enumerate(arguments) if word in _COMMANDS), None)
    if at is not None:
        rest = [*arguments[:at], *arguments[at + 1 :]]
        return _load(_COMMANDS[arguments[at]]).run(rest, environ=environ)
    if not arguments or {"-h", "--help"} & set(arguments):
        raise HelpWanted(_HELP)
    what = "which of recompute, rebaseline and show?"
    raise ConfigError.one(what, reason="bad-arguments", hint="see gatekit thresholds --help")


def _load(module: str) -> Subcommand:
    return cast("Subcommand", import_module(f"gatekit.cli.thresholds.{module}"))
