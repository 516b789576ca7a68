"""`gatekit history release RUN --reason TEXT`: a quarantined run counts again."""

from __future__ import annotations

import argparse

from gatekit.cli.history.quarantining import add_arguments as add_arguments
from gatekit.cli.history.quarantining import decree
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.records.act import ActKind


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Record the act and say so."""
    return decree(options, place, ActKind.RELEASE)
