"""`gatekit history`: the runs that were remembered, one of them explained, and the index made anew."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from gatekit.cli.arguments import Parser
from gatekit.errors import ExitCode
from gatekit.history.run_row import RunRow
from gatekit.report.escape import escape_terminal

_CELL_CHARACTERS = 60
_MAX_LIMIT = 1_000_000
_HEADINGS = ("RUN", "FINISHED", "SPEC", "ENGINE", "CORRECT", "ACCURACY", "OUTCOME")


def run(arguments: Sequence[str], *, stdout: TextIO) -> ExitCode:
    """List, show or re-index the runs of a history folder. PASS, or INFRA after a rebuild with problems.

    Raises ConfigError on wrong arguments and unknown runs, InfraError when the history cannot be read.
    """
    options = _parser().parse_args(arguments)
    command = {"list": _list, "show": _show, "rebuild": _rebuild}[options.command]
    return command(options, stdout)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("gatekit history", "The runs that were remembered.")
    _add_dir(parser, default=".gatekit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{list,show,rebuild}")
    listing = commands.add_parser("list", help="the newest runs")
    listing.add_argument("--limit", type=_limit, default=20, metavar="N", help="how many (default 20)")
    listing.add_argument("--model", metavar="M", help="only runs of this model")
    listing.add_argument("--spec", metavar="S", help="only runs of this spec")
    showing = commands.add_parser("show", help="one run's verdict, explained")
    showing.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    showing.add_argument("--wrong", action="store_true", help="the questions that were not answered right")
    rebuilding = commands.add_parser("rebuild", help="index every record file")
    for command in (listing, showing):
        command.add_argument("--json", action="store_true", help="print one JSON document")
    for command in (listing, showing, rebuilding):
        _add_dir(command, default=argparse.SUPPRESS)
    return parser


def _add_dir(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--dir", type=Path, default=default, metavar="DIR", help="history folder (default .gatekit)")


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MAX_LIMIT:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to {_MAX_LIMIT}")


def _list(options: argparse.Namespace, stdout: TextIO) -> ExitCode:
    from gatekit.history import index

    rows = index.list_runs(options.dir, limit=options.limit + 1, spec_name=options.spec, model=options.model)
    shown, has_older = rows[: options.limit], len(rows) > options.limit
    if options.json:
        _write_json({"dir": str(options.dir), "runs": [_plain_row(row) for row in shown]}, stdout)
        return ExitCode.PASS
    lines = _table([_HEADINGS, *(_cells(row) for row in shown)]) if shown else [_nothing(options)]
    if has_older:
        lines.append(f"(older runs are not shown: --limit is {options.limit})")
    stdout.write("\n".join(lines) + "\n")
    return ExitCode.PASS


def _show(options: argparse.Namespace, stdout: TextIO) -> ExitCode:
    from gatekit.history.index import find
    from gatekit.history.records_folder import read_stored

    stored = read_stored(options.dir / find(options.dir, options.run).path)
    if options.json:
        _write_json(stored.plain, stdout)
        return ExitCode.PASS
    if options.wrong:
        from gatekit.report.wrong import wrong_answers

        stdout.write(wrong_answers(stored.record))
        return ExitCode.PASS
    from gatekit.report.terminal import explain

    stdout.write(explain(stored.record, stored_at=str(stored.path)).rstrip("\n") + "\n")
    return ExitCode.PASS


def _rebuild(options: argparse.Namespace, stdout: TextIO) -> ExitCode:
    from gatekit.history.remember import rebuild

    rebuilt = rebuild(options.dir)
    stdout.write(f"added {rebuilt.added} runs to the index, {rebuilt.known} were in it\n")
    for problem in rebuilt.problems:
        stdout.write(f"not added: {escape_terminal(problem)}\n")
    return ExitCode.INFRA if rebuilt.problems else ExitCode.PASS


def _nothing(options: argparse.Namespace) -> str:
    filters = ((name, getattr(options, name)) for name in ("spec", "model"))
    named = " and ".join(f"{name} {escape_terminal(value, 60)}" for name, value in filters if value is not None)
    place = escape_terminal(str(options.dir))
    return f"no runs of {named} in {place}" if named else f"no runs yet in {place}"


def _plain_row(row: RunRow) -> dict[str, object]:
    is_accuracy = row.n > 0 and row.lost == 0
    return {**asdict(row), "accuracy": row.correct / row.n if is_accuracy else None}


def _cells(row: RunRow) -> tuple[str, ...]:
    cells = (
        row.run_id,
        row.finished_at,
        row.spec_name,
        row.engine if row.build is None else f"{row.engine} {row.build}",
        f"{row.correct}/{row.n}",
        _accuracy(row),
        row.outcome + (" (simulated)" if row.simulated else ""),
    )
    return (row.run_id, *(escape_terminal(cell, _CELL_CHARACTERS) for cell in cells[1:]))


def _accuracy(row: RunRow) -> str:
    """In per cent; with lost answers the range from all of them wrong to all of them right."""
    if row.n == 0:
        return "-"
    low, high = 100 * row.correct / row.n, 100 * (row.correct + row.lost) / row.n
    return f"{low:.2f} %" if row.lost == 0 else f"{low:.2f} to {high:.2f} %"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in padded]


def _write_json(document: object, stdout: TextIO) -> None:
    # ASCII only: every control and bidi character of foreign text is escaped, DEL excepted, which is inert.
    stdout.write(json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n")
