"""`gatekit history compare A B`: two runs, question by question."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import replace

from gatekit.cli.cache_dir import cache_dir
from gatekit.cli.output import put
from gatekit.cli.quantities import whole
from gatekit.errors import ConfigError, ExitCode, GatekitError
from gatekit.history.place import Place
from gatekit.records.run import RunRecord

_MOST_QUESTIONS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and how much of their answers."""
    parser.add_argument("before", metavar="A", help="run id, or a beginning that only one run has")
    parser.add_argument("after", metavar="B", help="the run to compare with it")
    limit = "how many of the questions that changed sides (default 20)"
    parser.add_argument("--limit", type=whole(0, _MOST_QUESTIONS), default=20, metavar="N", help=limit)
    parser.add_argument("--full", action="store_true", help="whole questions and answers instead of their ends")
    parser.add_argument("--json", action="store_true", help="print one JSON document with everything")


def run(options: argparse.Namespace, place: Place, *, environ: Mapping[str, str] = os.environ) -> ExitCode:
    """Print what differs. It is a report: no difference makes it fail."""
    from gatekit.report.comparison import compare

    before, after = _records(options, place)
    found = compare(before, after, _questions(before, environ) or _questions(after, environ))
    if options.json:
        from gatekit.records.canonical import to_plain

        put(json.dumps(to_plain(found), indent=2, allow_nan=False))
    else:
        from gatekit.report.comparison_text import comparison_text

        put(comparison_text(found, limit=options.limit, full=options.full))
    return ExitCode.PASS


def _records(options: argparse.Namespace, place: Place) -> tuple[RunRecord, RunRecord]:
    from gatekit.history.index import find
    from gatekit.history.rebuild_hint import history_command
    from gatekit.history.records_folder import read_record, record_path

    rows = [find(place, options.before), find(place, options.after)]
    if rows[0].run_id == rows[1].run_id:
        raise ConfigError.one(
            f"both are run {rows[0].run_id}: a run does not differ from itself",
            reason="same-run",
            hint=f"name another run; `{history_command(place, 'list')}` shows them",
        )
    before, after = (read_record(record_path(place.dir, row.run_id)) for row in rows)
    return before, after


def _questions(record: RunRecord, environ: Mapping[str, str]) -> Mapping[int, str]:
    """The texts of the record's questions as far as they are on this machine; nothing is downloaded.

    They are those that were asked, by their digest, or none.
    """
    from gatekit.task.dataset import GSM8K, load

    task, cache = record.spec.task, cache_dir(environ)
    task = replace(task, dataset=record.dataset.name, path=task.path if record.dataset.name == GSM8K else None)
    pin = task.files.get("test")
    if task.dataset == GSM8K and task.path is None:
        if pin is None:
            return {}
        task = replace(task, path=str(cache / GSM8K / pin.sha256))  # a folder is read, a missing one not filled
    try:
        loaded = load(task, cache_dir=cache)
    except (GatekitError, OSError, ValueError):
        return {}
    is_asked = loaded.digests.get("test") == record.dataset.digests.get("test")
    return {question.id: question.text for question in loaded.test} if is_asked else {}
