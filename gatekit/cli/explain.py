"""`gatekit explain RUN`: how a stored verdict follows from its record, and what would change it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gatekit.cli.arguments import Parser
from gatekit.cli.history.command import add_place, as_options, chosen_place
from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode, InfraError

if TYPE_CHECKING:
    from gatekit.history.place import Place
    from gatekit.records.past import Past, PastRun
    from gatekit.records.run import RunRecord

_DESCRIPTION = """\
How a stored verdict follows from its record: the rule and its inputs, the formula with the numbers put in, the
counts, the lost answers both ways, what was served, and what would change it. Everything is computed anew from the
record and, for a rule on history, from the records of the runs that it rests on.

  python -m gatekit explain RUN          RUN as in gatekit history list, or the beginning of one
"""


def run(arguments: Sequence[str], *, environ: Mapping[str, str] = os.environ) -> ExitCode:
    """Print the derivation of one run's verdict.

    Always PASS, also where the record gives another verdict today than it holds, which is said. Raises
    ConfigError for an unknown run, InfraError where the history cannot be read.
    """
    options = _parser().parse_args(as_options(arguments))
    from gatekit.gate.derivation import derive
    from gatekit.history.index import find, quarantine_of
    from gatekit.history.place import connected
    from gatekit.history.records_folder import read_record, record_path

    with connected(chosen_place(options, environ)) as place:
        record = read_record(record_path(place.dir, find(place, options.run).run_id))
        derivation = derive(record, _used(place, record))
        decision = quarantine_of(place, record.run_id)
    if options.json:
        from gatekit.records.canonical import to_plain
        from gatekit.report.served_lines import served_plain

        document = {
            "run_id": record.run_id,
            "verdict": to_plain(record.verdict),
            "counts": to_plain(record.counts),
            "served": served_plain(record),
            "derivation": to_plain(derivation),
            "quarantine": None if decision is None else to_plain(decision.act),
        }
        put(json.dumps(document, indent=2))
    else:
        from gatekit.report.derivation import derivation_text

        line = "" if decision is None else f"{decision.line()}\n"
        put(derivation_text(record, derivation).removesuffix("\n") + f"\n{line}")
    return ExitCode.PASS


def _used(place: Place, record: RunRecord) -> Past:
    """The runs that the verdict rests on, as far as they can be read, and the lock of a locked gate.

    A test question by question rests on the norm, of which the record holds the number of builds alone: the series
    is then the index's, as it was when the run started.
    """
    from gatekit.gate.retrial import past_run
    from gatekit.history.index import find
    from gatekit.history.past import past_runs
    from gatekit.history.records_folder import read_record, record_path
    from gatekit.records.past import Past
    from gatekit.spec.locks import lock_for

    runs: list[PastRun] = []
    rule = record.verdict.rule
    for run_id in rule.used if rule else ():
        with suppress(ConfigError, InfraError):  # what is missing is named in the derivation
            row = find(place, run_id)
            if row.run_id == run_id:
                runs.append(past_run(read_record(record_path(place.dir, row.run_id))))
    if rule is not None and rule.early is not None and rule.early.builds is not None:
        with suppress(ConfigError, InfraError):
            key, started = record.comparability, record.started_at
            earlier = past_runs(place, record.spec, key, exclude_run_id=record.run_id, as_of=started).runs
            read = {run.run_id: run for run in runs}
            later = [run for run in runs if run.run_id not in {one.run_id for one in earlier}]
            runs = [*(read.get(run.run_id, run) for run in earlier), *later]
    try:
        lock = lock_for(record.spec)
    except ConfigError:
        lock = None
    return Past(runs=tuple(runs), lock=lock)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("gatekit explain", _DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser
