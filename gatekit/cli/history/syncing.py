"""`gatekit history sync`: what was kept while the database was away, brought into it."""

from __future__ import annotations

import argparse

from gatekit.cli.history.rebuilding import say_rebuilt
from gatekit.cli.history.wording import add_json
from gatekit.errors import ExitCode
from gatekit.history.place import Place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to say it."""
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Index the records that are missing; INFRA when one could not be."""
    from gatekit.history.remember import sync

    return say_rebuilt(sync(place), as_json=options.json)
