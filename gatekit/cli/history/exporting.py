"""`gatekit history export FILE`: the runs as one file for others."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.history.wording import number
from gatekit.cli.output import bytes_out, put, warn
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gatekit.history.exporting import Format
    from gatekit.history.run_row import RunRow

_FORMATS = ("jsonl", "csv", "parquet")
_STDOUT = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, how, and which runs."""
    parser.description = (
        "Whole records and the acts about them as JSON lines (history import reads them), or one row a run as CSV or\n"
        "Parquet. A run that was scored anew brings the one whose place it took into the JSON lines.\n"
        "In CSV a text that begins with = + - @ tab, CR or ' gets a leading ': take one away to read it back."
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="a new file; - is stdout")
    add("--format", choices=_FORMATS, help="default: by the ending of FILE, else jsonl")
    add("--spec", metavar="S", help="only runs of this spec")
    add("--model", metavar="M", help="only runs of this model")
    add("--key", metavar="K", help="only runs under this comparability key, or the beginning of it")
    add("--only-here", action="store_true", help="leave out runs whose records are on other machines")
    add("--force", action="store_true", help="replace a file that exists")
    add("--json", action="store_true", help="say as one JSON document on stdout what was written")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Write the file and say on stderr how many runs it holds, or with --json on stdout."""
    from gatekit.history.exporting import Chosen, Format, acts_about, chosen_runs, export

    format_ = _format(options)
    if options.json and options.file == _STDOUT:
        hint = "name a FILE, or leave --json out"
        raise ConfigError.one("stdout cannot hold the runs and the summary", reason="bad-arguments", hint=hint)
    is_whole = format_ is Format.JSONL
    chosen = Chosen(spec_name=options.spec, model=options.model, key=options.key)
    rows: Sequence[RunRow] = chosen_runs(place, chosen, with_superseded=is_whole)
    if options.only_here:
        rows = _here(place, rows)
    if options.file == _STDOUT:
        _to_stdout(place, rows, format_)
    else:
        export(place, rows, Path(options.file), format_, force=options.force)
        acts = len(acts_about(place, rows)) if is_whole else 0
        if options.json:
            said = {"file": options.file, "format": format_.value, "runs": len(rows), "acts": acts}
            put(json.dumps(said, indent=2))
        else:
            also = f" and {number(acts, 'act')}" if acts else ""
            warn(f"{number(len(rows), 'run')}{also} written to {options.file}")
    return ExitCode.PASS


def _here(place: Place, rows: Sequence[RunRow]) -> Sequence[RunRow]:
    """The runs whose records are here; on stderr how many are not. Raises ConfigError when none is."""
    from gatekit.history.exporting import only_here

    kept = only_here(place, rows)
    if not kept:
        what = f"none of {number(len(rows), 'run')} has its record in {place.dir / 'runs'}"
        raise ConfigError.one(what, reason="nothing-to-export", hint="export on the machine that made them")
    if len(kept) < len(rows):
        warn(f"{number(len(rows) - len(kept), 'run')} left out, whose records are on other machines")
    return kept


def _format(options: argparse.Namespace) -> Format:
    from gatekit.history.exporting import Format

    ending = Path(options.file).suffix.removeprefix(".").lower()
    found = Format(options.format or (ending if ending in _FORMATS else "jsonl"))
    if options.file == _STDOUT and found is Format.PARQUET:
        raise ConfigError.one("Parquet goes to a file, not to stdout", reason="bad-arguments", hint="name a FILE")
    return found


def _to_stdout(place: Place, rows: Sequence[RunRow], format_: Format) -> None:
    from gatekit.history.exporting import write_to

    with bytes_out() as out:
        write_to(place, rows, out, format_)
