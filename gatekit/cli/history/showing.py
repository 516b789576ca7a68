"""`gatekit history show RUN`: one run's verdict, explained."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import hint_here

if TYPE_CHECKING:
    from gatekit.history.records_folder import StoredRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and what of it."""
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    parser.add_argument("--wrong", action="store_true", help="the questions that were not answered right")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Print the explanation, the wrong answers, or the whole record."""
    from gatekit.history.index import find, quarantine_of
    from gatekit.history.records_folder import read_stored, record_path

    stored = read_stored(record_path(place.dir, find(place, options.run).run_id))
    if options.json:
        put(json.dumps(stored.plain, indent=2, allow_nan=False), as_it_is=True)
    elif options.wrong:
        from gatekit.report.wrong import wrong_answers

        put(wrong_answers(stored.record))
    else:
        decision = quarantine_of(place, stored.record.run_id)
        line = "" if decision is None else f"  {decision.line()}\n"
        put(_explained(stored, place).removesuffix("\n") + f"\n{line}")
    return ExitCode.PASS


def _explained(stored: StoredRecord, place: Place) -> str:
    from gatekit.cli.history.imported import imported_text, is_imported
    from gatekit.report.terminal import explain

    write = imported_text if is_imported(stored.record.verdict.reason_code) else explain
    record, verdict = stored.record, stored.record.verdict
    hint = hint_here(verdict.hint, place, record.run_id)
    return write(replace(record, verdict=replace(verdict, hint=hint)), stored_at=str(stored.path))
