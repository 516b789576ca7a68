"""`gatekit history acts`: what was decided about runs and series, when and why."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gatekit.cli.history.wording import add_json
from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.records.act import Act

_LINE_CHARACTERS = 2400  # a whole reason, and what it is about


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to say it."""
    parser.description = "Every quarantine, release and rebaseline, in the order in which they were recorded."
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """One line per act, the first one first: when, what, about which run or series, and why."""
    from gatekit.history import index
    from gatekit.records.canonical import to_plain

    acts = index.acts(place)
    if options.json:
        put(json.dumps({"dir": str(place.dir), "acts": list(map(to_plain, acts))}, indent=2))
        return ExitCode.PASS
    put("\n".join(map(_line, acts)) if acts else f"nothing was decided in {escape_terminal(place.shown)}")
    return ExitCode.PASS


def _line(act: Act) -> str:
    text = f"{act.made_at}  {act.kind.value:<10}  {act.target}: {act.reason} (act {act.act_id})"
    return escape_terminal(text, _LINE_CHARACTERS)
