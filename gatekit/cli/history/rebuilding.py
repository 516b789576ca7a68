"""`gatekit history rebuild`: the index made anew from the record files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.history.remember import Rebuilt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Index every record; INFRA when one could not be."""
    from gatekit.history.remember import rebuild

    return say_rebuilt(rebuild(place))


def say_rebuilt(rebuilt: Rebuilt) -> ExitCode:
    """Print what was added and what could not be."""
    put(f"added {rebuilt.added} runs to the index, {rebuilt.known} were in it")
    for problem in rebuilt.problems:
        put(f"not added: {escape_terminal(problem)}")
    return ExitCode.INFRA if rebuilt.problems else ExitCode.PASS
