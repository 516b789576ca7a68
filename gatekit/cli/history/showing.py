"""`gatekit history show RUN`: one run's verdict, explained."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place

if TYPE_CHECKING:
    from gatekit.history.records_folder import StoredRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and what of it."""
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    parser.add_argument("--wrong", action="store_true", help="the questions that were not answered right")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Print the explanation, the wrong answers, or the whole record."""
    from gatekit.history.index import find
    from gatekit.history.records_folder import read_stored, record_path

    stored = read_stored(record_path(place.dir, find(place, options.run).run_id))
    if options.json:
        put(json.dumps(stored.plain, indent=2, allow_nan=False))
    elif options.wrong:
        from gatekit.report.wrong import wrong_answers

        put(wrong_answers(stored.record))
    else:
        put(_explained(stored))
    return ExitCode.PASS


def _explained(stored: StoredRecord) -> str:
    from gatekit.cli.history.imported import imported_text, is_imported
    from gatekit.report.terminal import explain

    write = imported_text if is_imported(stored.record.verdict.reason_code) else explain
    return write(stored.record, stored_at=str(stored.path))
