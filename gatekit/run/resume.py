"""Which run goes on, under which id, and whether what it kept still fits what is asked now."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NoReturn

from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import is_there, open_regular, storage_error, write_once
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import explain_command, resume_command
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
from gatekit.run.journal_lines import Header, Kept, kind_and_value, line_of
from gatekit.run.kept_text import TOO_LARGE

# Where a run is kept and how fast it is asked may change on the way: neither moves a score.
MAY_DIFFER = ("history", "client")
_SHOWN_KEYS = 5
_SHOWN_IDS = 3
_LONGEST_ID = 128
_NUMBER = re.compile(r"-r[0-9]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoesOn:
    """The id under which a run goes on, and where that is still to be begun the run whose answers it takes over."""

    run_id: str
    takes_over: str | None = None

    @property
    def kept_by(self) -> str:
        """The run that holds the answers and the spec."""
        return self.takes_over or self.run_id


def going_on(history_dir: Path, run_id: str) -> GoesOn:
    """How a run goes on: under its own id while it has no record, else as a run that takes its answers.

    Only a run whose record is INFRA and lacks answers goes on so, because a record never changes; what was begun of
    the next run is found and goes on. Nothing is written.

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
            hint = f"`{explain_command(Place(dir=history_dir), run_id)}` shows it"
            raise ConfigError.one(what, reason="run-finished", hint=hint)
        _refuse_spoiled(kept)
        following, is_begun = _following(history_dir, kept)
        if not is_begun:
            return GoesOn(run_id=following, takes_over=run_id)
        run_id = following
    return GoesOn(run_id=run_id)


def asked_again(history_dir: Path, run_id: str) -> GoesOn:
    """What a command means that names its run itself and is repeated: a run whose record is INFRA and lacks answers
    goes on, as with `going_on`; any other id stays what it is.

    Raises as `going_on`, and ConfigError where the run has a record and cannot go on.
    """
    path = record_path(history_dir, run_id)
    if not is_there(path):
        return GoesOn(run_id=run_id)
    record = read_record(path)
    explained = f"`{explain_command(Place(dir=history_dir), run_id)}` shows it"
    try:
        if _lacks_answers(record):
            return going_on(history_dir, run_id)
    except InfraError as error:
        explained = f"{error.message}, so that it cannot go on"
    what = f"run id {run_id!r} is taken: {path} exists, its verdict is {record.verdict.outcome.value}"
    hint = f"{explained}; choose another --run-id, or leave it out"
    raise ConfigError.one(what, reason="run-id-taken", hint=hint)


def worth_going_on(history_dir: Path, record: RunRecord) -> Kept | None:
    """What was kept of a run, where the answers that it lacks can be asked for later and others need not be."""
    if not _lacks_answers(record) or not 0 < record.counts.lost < record.counts.n:
        return None
    try:
        kept = kept_answers(history_dir, record.run_id)
    except (ConfigError, InfraError):
        return None
    return kept if kept.spoiled is None and answered(kept) else None


def take_over(history_dir: Path, header: Header, source: str) -> None:
    """Begin the journal of a run with the answers of another one, if they fit what is asked now.

    Raises as `refuse_other`, before anything is written.
    """
    kept = kept_answers(history_dir, source)
    refuse_other(kept, replace(header, run_id=source))
    _copy(history_dir, kept, replace(kept.header, run_id=header.run_id, continues=source, spec=header.spec))


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
    _refuse_spoiled(kept)
    names = list(_differences(kept.header, header))
    if names:
        more = ", ..." if len(names) > _SHOWN_KEYS else ""
        what = f"run {run_id} was begun with another {', '.join(names[:_SHOWN_KEYS])}{more}"
        command = resume_command(Place(dir=Path(header.spec.history.dir)), run_id)
        hint = f"`{command}` goes on as it was, where only client.* and history.* may be set anew"
        raise ConfigError.one(what, reason="resume-differs", hint=f"{hint}; else choose another --run-id")


def _refuse_spoiled(kept: Kept) -> None:
    if kept.spoiled is not None:
        what = f"run {kept.header.run_id} cannot be resumed: {kept.spoiled}"
        hint = "its answers are of two servers, which are never pooled: run again under another run id"
        raise InfraError(what, reason="server-changed", hint=hint)


def _differences(before: Header, now: Header) -> Iterator[str]:
    """The names of what differs: record format, keys of the spec, else fields of the comparability key."""
    if before.record != now.record:
        yield f"record format ({before.record}, this gatekit writes {now.record})"
    keys = list(_unequal(_asked(before.spec), _asked(now.spec)))
    yield from keys or _unequal(before.comparability.fields, now.comparability.fields)


def _asked(spec: Spec) -> Mapping[str, Plain]:
    plain = to_plain(spec)
    return dict(_flat({key: value for key, value in plain.items() if key not in MAY_DIFFER}, ""))


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
    near = difflib.get_close_matches(run_id, unfinished, n=_SHOWN_IDS, cutoff=0.3)
    shown = [*near, *(other for other in reversed(unfinished) if other not in near)][:_SHOWN_IDS]
    more = f" and {len(unfinished) - len(shown)} more" if len(unfinished) > len(shown) else ""
    hint = f"unfinished there: {', '.join(shown)}{more}" if shown else "no run is unfinished there"
    hint = f"{hint}; another folder: --dir DIR"
    raise ConfigError.one(f"there is no run {run_id} in {history_dir}", reason="no-such-run", hint=hint)


def _lacks_answers(record: RunRecord) -> bool:
    """Whether answers are missing that the server or the network kept from coming."""
    verdict, counts = record.verdict, record.counts
    is_full = verdict.reason_code == TOO_LARGE
    return verdict.outcome is Outcome.INFRA and not is_full and counts.lost + counts.unasked > 0


def _following(history_dir: Path, kept: Kept) -> tuple[str, bool]:
    """The id of the run that goes on with the answers of another, `night-r2` behind `night`, and whether it began."""
    run_id = kept.header.run_id
    stem = _NUMBER.sub("", run_id) if kept.header.continues else run_id
    for number in count(2):
        tail = f"-r{number}"
        following = stem[: _LONGEST_ID - len(tail)] + tail
        path = record_path(history_dir, following)
        if not is_there(path.with_name(JOURNAL_NAME)):
            if not is_there(path):
                return following, False
        elif kept_answers(history_dir, following).header.continues == run_id:
            return following, True
    raise AssertionError("numbers do not end")


def _copy(history_dir: Path, kept: Kept, header: Header) -> None:
    """Begin the journal of the next run with the answers of this one; a process that was faster did the same.

    That this one was done is left out: the next one is begun because answers are missing.
    """
    source = record_path(history_dir, kept.header.run_id).parent / JOURNAL_NAME
    target = create_run_dir(history_dir, header.run_id) / JOURNAL_NAME
    try:
        with os.fdopen(open_regular(source), "rb") as file:
            file.seek(kept.body)
            lines = file.read(kept.size - kept.body).split(b"\n")
            kept_lines = [line + b"\n" for line in lines if line and kind_and_value(line)[0] != "done"]
            end = [] if kept.done is None else [line_of("end", "its verdict")]
            write_once(target, b"".join([line_of("header", header), *kept_lines, *end]))
    except OSError as error:
        raise storage_error("copy", source, error) from error


def answered(kept: Kept) -> int:
    """How many questions brought an answer."""
    return sum(seen.status is not Status.LOST for seen in kept.answers)
