"""`gatekit history export FILE`: the runs as one file for others."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.history.wording import number
from gatekit.cli.output import put, warn
from gatekit.errors import ConfigError, ExitCode, InfraError
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
        "Whole records as JSON lines (history import reads them), or one row a run as CSV or Parquet.\n"
        "In CSV a text that begins with = + - @ tab, CR or ' gets a leading ': take one away to read it back."
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="a new file; - is stdout")
    add("--format", choices=_FORMATS, help="default: by the ending of FILE, else jsonl")
    add("--spec", metavar="S", help="only runs of this spec")
    add("--model", metavar="M", help="only runs of this model")
    add("--key", metavar="K", help="only runs under this comparability key, or the beginning of it")
    add("--force", action="store_true", help="replace a file that exists")
    add("--json", action="store_true", help="say as one JSON document on stdout what was written")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Write the file and say on stderr how many runs it holds, or with --json on stdout."""
    from gatekit.history.exporting import Chosen, chosen_runs, export

    format_ = _format(options)
    if options.json and options.file == _STDOUT:
        hint = "name a FILE, or leave --json out"
        raise ConfigError.one("stdout cannot hold the runs and the summary", reason="bad-arguments", hint=hint)
    rows = chosen_runs(place, Chosen(spec_name=options.spec, model=options.model, key=options.key))
    if options.file == _STDOUT:
        _to_stdout(place, rows, format_)
    else:
        export(place, rows, Path(options.file), format_, force=options.force)
        if options.json:
            put(json.dumps({"file": options.file, "format": format_.value, "runs": len(rows)}, indent=2))
        else:
            warn(f"{number(len(rows), 'run')} written to {options.file}")
    return ExitCode.PASS


def _format(options: argparse.Namespace) -> Format:
    from gatekit.history.exporting import Format

    ending = Path(options.file).suffix.removeprefix(".").lower()
    found = Format(options.format or (ending if ending in _FORMATS else "jsonl"))
    if options.file == _STDOUT and found is Format.PARQUET:
        raise ConfigError.one("Parquet goes to a file, not to stdout", reason="bad-arguments", hint="name a FILE")
    return found


def _to_stdout(place: Place, rows: Sequence[RunRow], format_: Format) -> None:
    from gatekit.history.exporting import write_to

    try:
        write_to(place, rows, sys.stdout.buffer, format_)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # a reader that went away has enough
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    except OSError as error:
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise InfraError(f"cannot write to stdout: {error.strerror}", reason="stdout-failed") from None
