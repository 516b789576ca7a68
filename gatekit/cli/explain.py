"""`gatekit explain RUN`: how a stored verdict follows from its record, and what would change it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from gatekit.cli.arguments import Parser
from gatekit.cli.output import put
from gatekit.errors import ExitCode

_DESCRIPTION = """\
How a stored verdict follows from its record: the rule and its inputs, the formula with the numbers put in, the
counts, the lost answers both ways, and what would change it. Everything is computed anew from the record.

  python -m gatekit explain RUN          RUN as in gatekit history list, or the beginning of one
"""


def run(arguments: Sequence[str]) -> ExitCode:
    """Print the derivation of one run's verdict.

    Always PASS, also where the record gives another verdict today than it holds, which is said. Raises
    ConfigError for an unknown run, InfraError where the history cannot be read.
    """
    options = _parser().parse_args(arguments)
    from gatekit.gate.derivation import derive
    from gatekit.history.index import find
    from gatekit.history.records_folder import read_record

    record = read_record(options.dir / find(options.dir, options.run).path)
    derivation = derive(record)
    if options.json:
        from gatekit.records.canonical import to_plain

        document = {
            "run_id": record.run_id,
            "verdict": to_plain(record.verdict),
            "counts": to_plain(record.counts),
            "derivation": to_plain(derivation),
        }
        put(json.dumps(document, indent=2))
    else:
        from gatekit.report.derivation import derivation_text

        put(derivation_text(record, derivation))
    return ExitCode.PASS


def _parser() -> argparse.ArgumentParser:
    parser = Parser("gatekit explain", _DESCRIPTION)
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    parser.add_argument("--dir", type=Path, default=Path(".gatekit"), help="history folder (default .gatekit)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser
