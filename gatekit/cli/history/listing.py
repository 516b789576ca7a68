"""`gatekit history list`: the runs that were added last."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator
from dataclasses import asdict

from gatekit.cli.history.imported import is_imported
from gatekit.cli.output import put
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import resume_command
from gatekit.history.records_folder import unfinished_runs
from gatekit.history.run_row import RunRow
from gatekit.report.escape import escape_terminal
from gatekit.report.table import aligned

_MAX_LIMIT = 1_000_000
_HEADINGS = ("RUN", "FINISHED", "SPEC", "ENGINE", "CORRECT", "ACCURACY", "OUTCOME")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and how."""
    parser.add_argument("--limit", type=_limit, default=20, metavar="N", help="how many (default 20)")
    parser.add_argument("--model", metavar="M", help="only runs of this model")
    parser.add_argument("--spec", metavar="S", help="only runs of this spec")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Print the newest runs first."""
    from gatekit.history import index

    set_aside = index.quarantined(place)
    rows = index.list_runs(place, limit=options.limit + 1, spec_name=options.spec, model=options.model)
    shown, has_older = rows[: options.limit], len(rows) > options.limit
    if options.json:
        runs = [_plain_row(row) | {"quarantined": row.run_id in set_aside} for row in shown]
        document = {"dir": str(place.dir), "runs": runs, "unfinished": list(unfinished_runs(place.dir))}
        put(json.dumps(document, indent=2, allow_nan=False))
        return ExitCode.PASS
    lines = aligned([_HEADINGS, *(_cells(row, set_aside) for row in shown)]) if shown else [_nothing(options, place)]
    if has_older:
        lines.append(f"(older runs are not shown: --limit is {options.limit})")
    lines += _unfinished(place)
    put("\n".join(lines))
    return ExitCode.PASS


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MAX_LIMIT:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to {_MAX_LIMIT}")


def _nothing(options: argparse.Namespace, place: Place) -> str:
    filters = ((name, getattr(options, name)) for name in ("spec", "model"))
    named = " and ".join(f"{name} {escape_terminal(value, 60)}" for name, value in filters if value is not None)
    where = escape_terminal(place.shown)
    return f"no runs of {named} in {where}" if named else f"no runs yet in {where}"


def _unfinished(place: Place) -> Iterator[str]:
    """The line about runs that are going on or were cut off, which no filter knows."""
    found = unfinished_runs(place.dir)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        command = resume_command(place, found[-1])
        yield f"(unfinished: {escape_terminal(found[-1])}{more}; `{escape_terminal(command)}` goes on with it)"


def _plain_row(row: RunRow) -> dict[str, object]:
    is_accuracy = row.n > 0 and row.lost == 0 and row.unasked == 0
    return {**asdict(row), "accuracy": row.correct / row.n if is_accuracy else None}


def _cells(row: RunRow, set_aside: Collection[str]) -> tuple[str, ...]:
    return (
        row.run_id,
        row.finished_at,
        row.spec_name,
        row.engine if row.build is None else f"{row.engine} {row.build}",
        f"{row.correct}/{row.n - row.unasked}{' asked' if row.unasked else ''}",
        _accuracy(row),
        " ".join([row.outcome.value, *_marks(row, set_aside)]),
    )


def _marks(row: RunRow, set_aside: Collection[str]) -> Iterator[str]:
    if row.simulated:
        yield "(simulated)"
    if is_imported(row.reason_code):
        yield "(imported)"
    if row.run_id in set_aside:
        yield "(quarantined)"


def _accuracy(row: RunRow) -> str:
    """In per cent; with lost or unasked answers the range from all of them wrong to all of them right."""
    if row.n == 0:
        return "-"
    missing = row.lost + row.unasked
    low, high = 100 * row.correct / row.n, 100 * (row.correct + missing) / row.n
    return f"{low:.2f} to {high:.2f} %" if missing else f"{low:.2f} %"
