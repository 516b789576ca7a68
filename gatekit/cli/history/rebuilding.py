"""`gatekit history rebuild`: the index made anew from the record files."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from gatekit.cli.history.wording import add_json, number
from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.history.remember import Rebuilt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to say it."""
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Index every record; INFRA when one could not be."""
    from gatekit.history.remember import rebuild

    return say_rebuilt(rebuild(place), as_json=options.json)


def say_rebuilt(rebuilt: Rebuilt, *, as_json: bool) -> ExitCode:
    """Print what was added and what could not be."""
    if as_json:
        put(json.dumps(asdict(rebuilt), indent=2))
    else:
        were = "was" if rebuilt.known == 1 else "were"
        put(f"added {number(rebuilt.added, 'run')} to the index, {rebuilt.known} {were} in it")
        for problem in rebuilt.problems:
            put(f"not added: {escape_terminal(problem)}")
    return ExitCode.INFRA if rebuilt.problems else ExitCode.PASS
