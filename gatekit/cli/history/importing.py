"""`gatekit history import FILE`: runs from elsewhere, all of a file or nothing of it."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.history.readers import readers
from gatekit.cli.history.wording import add_json, number
from gatekit.cli.output import put, warn
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gatekit.history.importing_totals import Under
    from gatekit.history.taking_in import Imported

_MOST_CHANGES = 10
_LINE_CHARACTERS = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which file, what it holds, and under which spec old totals were measured."""
    parser.description = (
        "Whole records as history export writes them, or old nightly numbers (--format totals): JSON lines or CSV\n"
        "with finished_at, n, and correct or accuracy; optionally run_id and build. Times without a zone are UTC.\n"
        "GROUP=OPTION and KEY=VALUE say, as for a run, under which spec the totals were measured:\n\n"
        "  python -m gatekit history import old.csv --format totals model=laguna_int4 hw=b200"
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the file")
    add("overrides", nargs="*", metavar="GROUP=OPTION", help="the spec of the totals")
    add("--format", choices=("jsonl", "totals"), default="jsonl", help="what the file holds (default jsonl)")
    add("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own config groups")
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Import it, and say how many runs are new and what is odd about them."""
    from gatekit.history.importing import import_records
    from gatekit.history.importing_totals import import_totals

    now = datetime.now(UTC)
    if options.format == "totals" and not options.overrides:
        what = "old totals need the spec that they were measured under"
        raise ConfigError.one(what, reason="bad-arguments", hint="add model=... hw=... as for a run")
    if options.format == "totals":
        imported = import_totals(place, Path(options.file), _under(options.overrides, options.config_dir), now=now)
    elif options.overrides or options.config_dir:
        what = f"{(options.overrides or ['--config-dir'])[0]!r}: whole records bring their own spec"
        raise ConfigError.one(what, reason="bad-arguments", hint="overrides belong to --format totals")
    else:
        imported = import_records(place, Path(options.file), now=now, readers=readers())
    _say(place, imported, as_json=options.json)
    return ExitCode.PASS


def _say(place: Place, imported: Imported, *, as_json: bool) -> None:
    for flag in imported.flags:
        warn(flag)
    if as_json:
        put(json.dumps(asdict(imported), indent=2))
        return
    were = "was" if imported.known == 1 else "were"
    acts = f"; added {number(imported.acts, 'act')}" if imported.acts else ""
    runs = f"added {number(imported.added, 'run')}, {imported.known} {were} in the history"
    put(f"{runs}{acts}{_ids(imported)}")
    for change in imported.changes[:_MOST_CHANGES]:
        put(escape_terminal(change, _LINE_CHARACTERS))
    left = len(imported.changes) - _MOST_CHANGES
    if left > 0:
        put(f"and {number(left, 'other change')} of what counts; `{history_command(place, 'acts')}` lists every act")


def _ids(imported: Imported) -> str:
    if imported.first == imported.last:
        return f"; run {imported.first}"
    return f"; runs {imported.first} to {imported.last}"


def _under(overrides: Sequence[str], config_dir: Sequence[str]) -> Under:
    from gatekit.cli.cache_dir import cache_dir
    from gatekit.cli.shadowed import announce
    from gatekit.history.importing_totals import Under
    from gatekit.run.asked import asked_of
    from gatekit.spec.resolve import config_dirs, resolve

    dirs = config_dirs(config_dir, os.environ)
    spec = resolve(overrides, dirs=dirs)
    announce(dirs, [overrides])
    asked = asked_of(spec, cache_dir=cache_dir(os.environ))
    return Under(spec=spec, dataset=asked.dataset, comparability=asked.comparability)
