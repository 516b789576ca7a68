"""`gatekit history rescore RUN...`: saved answers read again by an extractor, no server asked."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatekit.cli.history.readers import readers
from gatekit.cli.history.wording import add_json, number
from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gatekit.history.records_folder import StoredRecord
    from gatekit.history.rescore import Reader
    from gatekit.records.run import RunRecord

_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """What became of a run, in words, and the id of the new record where there is one."""

    run_id: str
    text: str
    rescored_as: str | None = None


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
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """One line per run, and how many were scored anew; with --json the same as a document at the end."""
    from gatekit.history import index
    from gatekit.history.acts import refuse_password
    from gatekit.history.records_folder import read_stored

    refuse_password(options.reason or "")
    if bool(options.runs) is options.all:
        hint = "see gatekit history rescore --help"
        raise ConfigError.one("name runs, or give --all", reason="bad-arguments", hint=hint)
    runs: list[_Done] = []
    set_aside = index.quarantined(place)
    for path in _paths(options, place):
        stored = read_stored(place.dir / path)
        runs.append(_one(options, place, stored, is_set_aside=stored.record.run_id in set_aside))
        if not options.json:
            put(escape_terminal(f"{runs[-1].run_id}: {runs[-1].text}"))
    new = sum(one.rescored_as is not None for one in runs)
    put(json.dumps({"rescored": new, "runs": list(map(asdict, runs))}, indent=2) if options.json else _count(new))
    return ExitCode.PASS


def _count(new: int) -> str:
    return f"{number(new, 'run')} scored anew"


def _one(options: argparse.Namespace, place: Place, stored: StoredRecord, *, is_set_aside: bool) -> _Done:
    """Score one run anew where that is called for. A run without texts that was named is refused by `rescore`."""
    from gatekit.history.rescore import is_read_by, is_rescored, rescore, why_not
    from gatekit.spec.locks import lock_for

    old, run_id = stored.record, stored.record.run_id
    reader = _reader(options.extractor or old.spec.protocol.extractor)
    why = why_not(old)
    if why is None and is_read_by(old, reader):
        return _Done(run_id=run_id, text=f"{reader.version} has read it already")
    if is_rescored(place, run_id, reader):
        return _Done(run_id=run_id, text=f"scored anew by {reader.version} before")
    if is_set_aside:
        return _Done(run_id=run_id, text="left out, it is quarantined")
    if options.all and why is not None:
        return _Done(run_id=run_id, text=f"left out, {why}")
    now = datetime.now(UTC)
    new = rescore(place, stored, reader, now=now, reason=options.reason, lock=lock_for(old.spec))
    return _Done(run_id=run_id, text=_changed(old, new), rescored_as=new.run_id)


def _paths(options: argparse.Namespace, place: Place) -> Iterator[str]:
    from gatekit.history import index

    if not options.all:
        yield from dict.fromkeys(index.find(place, run_id).path for run_id in options.runs)
        return
    rows = index.list_runs(place, limit=_ALL)
    superseded = {row.supersedes for row in rows}
    yield from (row.path for row in reversed(rows) if row.run_id not in superseded)


def _reader(name: str) -> Reader:
    known = readers()
    if name not in known:
        what = f"no extractor {name[:40]!r}"
        raise ConfigError.one(what, reason="unknown-extractor", hint=f"use one of {', '.join(sorted(known))}")
    return known[name]


def _changed(old: RunRecord, new: RunRecord) -> str:
    counts = f"{old.counts.correct} -> {new.counts.correct} of {new.counts.n} right"
    verdicts = f"{old.verdict.outcome} -> {new.verdict.outcome}"
    return f"{counts}, {verdicts}, as run {new.run_id}"
