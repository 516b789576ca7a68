"""`gatekit history plot`: the accuracy of every series over its runs, in the terminal."""

from __future__ import annotations

import argparse
import codecs
import json
import shutil
import sys
from typing import TYPE_CHECKING, Any

from gatekit.cli.output import put
from gatekit.cli.quantities import whole
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.history.shown_series import Wish
    from gatekit.records.lock import Lock
    from gatekit.records.spec import Gate
    from gatekit.report.trend import Series

_MOST_RUNS = 100_000
_DEFAULT_RUNS = 500
_WIDEST = 400
_NAME_CHARACTERS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which series, and how much of each."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--spec", metavar="S", help="only series that this spec has runs in")
    which.add_argument("--model", metavar="M", help="only series of this model")
    which.add_argument("--key", metavar="K", help="only the series of this comparability key, or of its beginning")
    newest = f"the newest runs of each series (default {_DEFAULT_RUNS})"
    parser.add_argument("--limit", type=whole(1, _MOST_RUNS), default=_DEFAULT_RUNS, metavar="N", help=newest)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Print one chart per series. It is a report: what it shows does not make it fail."""
    from gatekit.history.shown_series import Wish, shown_series

    wish = Wish(spec=options.spec, model=options.model, key=options.key)
    series = shown_series(place, wish, limit=options.limit, lock_of=_lock_of)
    if not series and str(wish):
        raise _nothing(wish, place)
    if options.json:
        document = {"history": place.shown, "series": [_plain(one) for one in series]}
        put(json.dumps(document, indent=2, allow_nan=False))
    elif not series:
        put(f"no runs yet in {escape_terminal(place.shown)}")
    else:
        from gatekit.report.trend import trend_text

        width = min(_WIDEST, shutil.get_terminal_size().columns)
        put(trend_text(series, width=width, is_unicode=_is_unicode(getattr(sys.stdout, "encoding", None))))
    return ExitCode.PASS


def _lock_of(gate: Gate, spec_name: str) -> Lock | None:
    """The lock that a gate out of a record has now; None where none can be used, or it lies elsewhere."""
    from gatekit.cli.thresholds.lock_folder import lock_folder
    from gatekit.spec.locks import file_name, look

    try:
        folder = lock_folder(gate, spec_name)
    except ConfigError:
        return None
    found = look(folder / file_name(spec_name), spec_name, "")
    return found.lock if found.flaw is None else None


def _is_unicode(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name == "utf-8"
    except LookupError:
        return False


def _nothing(wish: Wish, place: Place) -> ConfigError:
    return ConfigError.one(
        f"no runs of {escape_terminal(str(wish), _NAME_CHARACTERS)} in {place.shown}",
        reason="unknown-series",
        hint=f"see `{history_command(place, 'list')}`",
    )


def _plain(series: Series) -> dict[str, Any]:
    """The series with what the chart says in words; accuracies are None where answers are missing."""
    from statistics import median

    from gatekit.records.canonical import to_plain
    from gatekit.report.trend import accuracies, changes

    found = accuracies(series)
    points = [
        {**to_plain(point), "accuracy_low": point.low, "accuracy_high": point.high, "mark": point.mark}
        for point in series.points
    ]
    return {
        **to_plain(series),
        "points": points,
        "changes": to_plain(changes(series)),
        "whole_runs": len(found),
        "lowest": min(found, default=None),
        "median": median(found) if found else None,
        "last": found[-1] if found else None,
    }
