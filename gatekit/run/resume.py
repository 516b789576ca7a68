"""Which run goes on, under which id, and whether what it kept still fits what is asked now."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NoReturn

from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import is_there, storage_error, write_once
from gatekit.history.records_folder import (
    JOURNAL_NAME,
    create_run_dir,
    read_record,
    record_path,
    unfinished_runs,
)
from gatekit.records.answers import Status
from gatekit.records.canonical import Plain, to_plain
from gatekit.records.run import RunRecord
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome
from gatekit.run.journal import read_journal
from gatekit.run.journal_lines import Header, Kept, line_of

# Where a run is kept and how fast it is asked may change on the way: neither moves a score.
_MAY_DIFFER = ("history", "client")
_SHOWN_KEYS = 5
_SHOWN_IDS = 3
_LONGEST_ID = 128
_NUMBER = re.compile(r"-r[0-9]+$")


def going_on(history_dir: Path, run_id: str) -> str:
    """The id under which a run goes on: its own while it has no record, else that of a run that takes its answers.

    Only a run whose record is INFRA and lacks answers goes on so, because a record never changes; what was begun of
    the next run is found and goes on.

    Raises ConfigError where there is no such run, it is done, or it kept no answers; InfraError where its files
    cannot be read or are of two servers.
    """
    if not is_there(record_path(history_dir, run_id).parent):
        _refuse_unknown(history_dir, run_id)
    while is_there(path := record_path(history_dir, run_id)):
        record = read_record(path)
        kept = kept_answers(history_dir, run_id) if _lacks_answers(record) else None
        if kept is None or answered(kept) >= record.counts.n:
            what = f"run {run_id} is finished: {record.verdict.outcome.value}"
            raise ConfigError.one(what, reason="run-finished", hint=f"`gatekit explain {run_id}` shows it")
        run_id = _following(history_dir, kept)
    return run_id


def kept_answers(history_dir: Path, run_id: str) -> Kept:
    """What the journal of a run holds. Raises as `going_on`."""
    path = record_path(history_dir, run_id).parent / JOURNAL_NAME
    try:
        kept = read_journal(path)
    except FileNotFoundError:
        kept = None
    if kept is None:
        what = f"run {run_id} kept no answers: there is nothing in {path}"
        raise ConfigError.one(what, reason="nothing-to-resume", hint="run again under another run id")
    return kept


def refuse_other(kept: Kept, header: Header) -> None:
    """Raise where answers that were kept must not be counted with those that would be asked for now.

    ConfigError names what differs: the spec but for its place and pace, the questions, or how answers are read.
    InfraError is for answers of two servers.
    """
    run_id = header.run_id
    if kept.header.run_id != run_id:
        what = f"the journal in the folder of run {run_id} is that of run {kept.header.run_id}"
        raise InfraError(what, reason="journal-broken", hint="run again under another run id")
    if kept.spoiled is not None:
        hint = "its answers are of two servers, which are never pooled: run again under another run id"
        raise InfraError(f"run {run_id} cannot be resumed: {kept.spoiled}", reason="server-changed", hint=hint)
    names = list(_differences(kept.header, header))
    if names:
        more = ", ..." if len(names) > _SHOWN_KEYS else ""
        what = f"run {run_id} was begun with another {', '.join(names[:_SHOWN_KEYS])}{more}"
        hint = f"`gatekit run --resume {run_id}` without overrides goes on as it was; else choose another --run-id"
        raise ConfigError.one(what, reason="resume-differs", hint=hint)


def _differences(before: Header, now: Header) -> Iterator[str]:
    """The names of what differs: record format, keys of the spec, else fields of the comparability key."""
    if before.record != now.record:
        yield f"record format ({before.record}, this gatekit writes {now.record})"
    keys = list(_unequal(_asked(before.spec), _asked(now.spec)))
    yield from keys or _unequal(before.comparability.fields, now.comparability.fields)


def _asked(spec: Spec) -> Mapping[str, Plain]:
    plain = to_plain(spec)
    return dict(_flat({key: value for key, value in plain.items() if key not in _MAY_DIFFER}, ""))


def _flat(value: Plain, place: str) -> Iterator[tuple[str, Plain]]:
    if not isinstance(value, dict) or not value:
        yield place, value
        return
    for key, inner in value.items():
        yield from _flat(inner, f"{place}.{key}" if place else key)


def _unequal(before: Mapping[str, Plain], now: Mapping[str, Plain]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield name


def _refuse_unknown(history_dir: Path, run_id: str) -> NoReturn:
    unfinished = unfinished_runs(history_dir)
    near = difflib.get_close_matches(run_id, unfinished, n=_SHOWN_IDS, cutoff=0.3) or unfinished[-_SHOWN_IDS:]
    hint = f"unfinished there: {', '.join(near)}" if near else "no run is unfinished there; another folder: --dir"
    raise ConfigError.one(f"there is no run {run_id} in {history_dir}", reason="no-such-run", hint=hint)


def _lacks_answers(record: RunRecord) -> bool:
    """Whether answers are missing that the server or the network kept from coming."""
    return record.verdict.outcome is Outcome.INFRA and record.counts.lost + record.counts.unasked > 0


def _following(history_dir: Path, kept: Kept) -> str:
    """The id of the run that goes on with the answers of another, begun if it was not: `night`, `night-r2`, ..."""
    run_id = kept.header.run_id
    stem = _NUMBER.sub("", run_id) if kept.header.continues else run_id
    for number in count(2):
        tail = f"-r{number}"
        following = stem[: _LONGEST_ID - len(tail)] + tail
        path = record_path(history_dir, following)
        if not is_there(path.with_name(JOURNAL_NAME)):
            if not is_there(path):
                _take_over(history_dir, kept, following)
                return following
        elif kept_answers(history_dir, following).header.continues == run_id:
            return following
    raise AssertionError("numbers do not end")


def _take_over(history_dir: Path, kept: Kept, following: str) -> None:
    """Begin the journal of the next run with the answers of this one; a process that was faster did the same."""
    source = record_path(history_dir, kept.header.run_id).parent / JOURNAL_NAME
    header = replace(kept.header, run_id=following, continues=kept.header.run_id)
    target = create_run_dir(history_dir, following) / JOURNAL_NAME
    try:
        with source.open("rb") as file:
            file.seek(kept.body)
            write_once(target, line_of("header", header) + file.read(kept.size - kept.body))
    except OSError as error:
        raise storage_error("copy", source, error) from error


def answered(kept: Kept) -> int:
    """How many questions brought an answer."""
    return sum(seen.status is not Status.LOST for seen in kept.answers)
