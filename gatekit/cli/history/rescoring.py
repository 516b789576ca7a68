"""`gatekit history rescore RUN...`: saved answers read again by an extractor, no server asked."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gatekit.history.rescore import Reader
    from gatekit.records.run import RunRecord

_ALL = 2**62


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, by which extractor, and why."""
    parser.description = (
        "The saved answers of runs, read again by an extractor. Each becomes a new record that supersedes the old\n"
        "one, under the comparability key of that extractor; the old one is kept."
    )
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="run id, or a beginning that only one run has")
    add("--all", action="store_true", help="every run that was not superseded, oldest first")
    add("--extractor", metavar="NAME", help="default: each run's own, as it reads today")
    add("--reason", metavar="TEXT", help="why; kept with the new records")


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """One line per run, and how many were scored anew."""
    from gatekit.history import index
    from gatekit.history.acts import quarantined_runs
    from gatekit.history.records_folder import read_stored
    from gatekit.history.rescore import is_read_by, is_rescored, rescore, why_not
    from gatekit.spec.locks import lock_for

    if bool(options.runs) is options.all:
        raise ConfigError.one("name runs, or give --all", reason="bad-arguments", hint="see history rescore --help")
    new, set_aside = 0, quarantined_runs(index.acts(place))
    for path in _paths(options, place):
        stored = read_stored(place.dir / path)
        reader = _reader(options.extractor or stored.record.spec.protocol.extractor)
        run_id = stored.record.run_id
        if is_read_by(stored.record, reader):
            put(f"{run_id}: {reader.version} has read it already")
        elif is_rescored(place, run_id, reader):
            put(f"{run_id}: scored anew by {reader.version} before")
        elif run_id in set_aside:
            put(f"{run_id}: left out, it is quarantined")
        elif options.all and (why := why_not(stored.record)) is not None:
            put(f"{run_id}: left out, {why}")
        else:
            lock = lock_for(stored.record.spec)
            done = rescore(place, stored, reader, now=datetime.now(UTC), reason=options.reason, lock=lock)
            put(_changed(stored.record, done))
            new += 1
    put(f"{new} runs scored anew")
    return ExitCode.PASS


def _paths(options: argparse.Namespace, place: Place) -> Iterator[str]:
    from gatekit.history import index

    if not options.all:
        yield from dict.fromkeys(index.find(place, run_id).path for run_id in options.runs)
        return
    rows = index.list_runs(place, limit=_ALL)
    superseded = {row.supersedes for row in rows}
    yield from (row.path for row in reversed(rows) if row.run_id not in superseded)


def _reader(name: str) -> Reader:
    from gatekit.history.rescore import Reader
    from gatekit.task.rescore import rescore
    from gatekit.task.score import EXTRACTORS

    extractor = EXTRACTORS.get(name)
    if extractor is None:
        shown: Sequence[str] = sorted(EXTRACTORS)
        what = f"no extractor {name[:40]!r}"
        raise ConfigError.one(what, reason="unknown-extractor", hint=f"use one of {', '.join(shown)}")
    return Reader(name=name, version=extractor.version, score=lambda seen: rescore(seen, extractor))


def _changed(old: RunRecord, new: RunRecord) -> str:
    counts = f"{old.counts.correct} -> {new.counts.correct} of {new.counts.n} right"
    verdicts = f"{old.verdict.outcome} -> {new.verdict.outcome}"
    return escape_terminal(f"{old.run_id}: {counts}, {verdicts}, as run {new.run_id}")
