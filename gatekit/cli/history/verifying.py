"""`gatekit history verify`: whether every bit of the history is what was written."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatekit.cli.history.readers import readers
from gatekit.cli.history.wording import number
from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.history.verify import Verified


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to say it."""
    parser.description = (
        "Every record and act file, byte by byte; the status of every answer against its text, and every outcome\n"
        "against its counts; every chain of records; every row of the index against its file;\n"
        "and the SQLite file, byte by byte, against its seal. Journals and server logs are not kept evidence and\n"
        "are not looked at. Exit 3 when anything is not what was written."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """One line per finding and a count at the end; INFRA when there is a finding."""
    from gatekit.history.verify import verify

    verified = verify(place, readers=readers(), now=datetime.now(UTC))
    if options.json:
        from gatekit.records.canonical import to_plain

        put(json.dumps({"place": place.shown, "dir": str(place.dir), **to_plain(verified)}, indent=2))
    else:
        lines = [finding.line() for finding in verified.findings]
        lines += [f"note: {note}" for note in verified.notes]
        put("\n".join(map(escape_terminal, [*lines, _count_line(verified)])))
    return ExitCode.INFRA if verified.findings else ExitCode.PASS


def _count_line(verified: Verified) -> str:
    chains, findings = verified.chains, len(verified.findings)
    looked_at = (("record", verified.records), ("row", verified.rows), ("act", verified.acts))
    chained = (("series", chains.series), ("start", chains.starts), ("fork", chains.forks))
    looked, found = (", ".join(number(count, what) for what, count in one) for one in (looked_at, chained))
    return f"{number(findings, 'finding') if findings else 'all is well'}: {looked}; {found}"
