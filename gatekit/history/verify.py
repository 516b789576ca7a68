"""Whether every bit of the history is what was written: record files, act files, and the index over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from gatekit.errors import InfraError
from gatekit.history.acts import StoredAct, act_paths, read_act
from gatekit.history.findings import Finding, Findings
from gatekit.history.leftovers import leftovers
from gatekit.history.place import Place
from gatekit.history.predecessors import Chains, Link, check_predecessors, has_predecessors
from gatekit.history.rebuild_hint import history_command, resume_command
from gatekit.history.record_form import record_contradiction
from gatekit.history.records_folder import StoredRecord, read_stored, record_paths, unfinished_runs
from gatekit.history.run_row import NewRow, run_row
from gatekit.history.score_check import NO_READERS, Readers
from gatekit.history.wrong_clock import is_yet_to_come
from gatekit.records.canonical import digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was found, what is worth knowing, and how many records, acts and rows of the index were looked at."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    records: int
    acts: int
    rows: int
    chains: Chains


def verify(place: Place, *, readers: Readers = NO_READERS, now: datetime | None = None) -> Verified:
    """Check every record, chain, row and act, and on SQLite every byte of the database file; and whether every record
    is of one piece, its answers by those of the extractors `readers` that read them. Acts that are dated after `now`
    are a note.

    What cannot be read is a finding, not an error. Nothing is written, but for an older index that is brought up
    to date as by any command. Others may write meanwhile: what they add is looked at or not, and is no damage.
    """
    from gatekit.history.index_check import Kept, check_file, check_index, check_order, snapshot

    findings = Findings(place=place)
    found = None
    with _adding(findings):
        found = snapshot(place)
    broken: set[str] = set()
    rows = _records(findings, broken, readers)
    acts = _acts(findings, broken)
    links = [_link(row) for row in rows.values()]
    series = {} if found is None else dict(found.series)
    with _adding(findings):
        if found is not None:
            kept = Kept(rows=rows, acts=acts, broken=broken)
            check_index(findings, found, kept)
            check_order(findings, found, kept)
        if not has_predecessors(links, series):  # one may have been added after the first look
            series |= snapshot(place).series
    if place.url is None:
        check_file(findings)
    _note_leftovers(findings)
    _note_unfinished(findings)
    if now is not None:
        _note_early(findings, acts, now)
    chains = check_predecessors(findings, links, series)
    return Verified(
        findings=tuple(dict.fromkeys(findings.found)),
        notes=tuple(findings.notes),
        records=len(rows),
        acts=len(acts),
        rows=0 if found is None else len(found.runs),
        chains=chains,
    )


@contextmanager
def _adding(findings: Findings) -> Iterator[None]:
    """What cannot be read is a finding, and the rest is looked at all the same."""
    try:
        yield
    except InfraError as error:
        findings.add_error(findings.place.shown, error)


def _records(findings: Findings, broken: set[str], readers: Readers) -> dict[str, NewRow]:
    """The row of every record file that is whole, by run id; the folders of the others go into `broken`."""
    found: dict[str, NewRow] = {}
    for path in record_paths(findings.place.dir):
        try:
            stored = read_stored(path)
        except InfraError as error:
            findings.add_error(path, error)
            broken.add(path.parent.name)
            continue
        why = _misplaced(stored)
        if why is not None:
            broken.update((path.parent.name, stored.record.run_id))
            what, hint = f"{path} {why}", "restore the folder from a copy, or move it out of runs/"
            findings.add(path, what, reason="record-broken", hint=hint)
        else:
            _add_contradiction(findings, stored, readers)
            found[stored.record.run_id] = run_row(
                stored.record, stored.digest, gate_section=stored.plain["spec"]["gate"]
            )
    return found


def _note_leftovers(findings: Findings) -> None:
    found = leftovers(findings.place)
    if found:
        what = f"{len(found)} unfinished file{'s' * (len(found) > 1)} of a writer that was killed, such as {found[0]}"
        findings.notes.append(f"{what}; `{history_command(findings.place, 'sync')}` removes what is left so")


def _note_unfinished(findings: Findings) -> None:
    """A run without a record was cut off, or is going on; neither is damage."""
    found = unfinished_runs(findings.place.dir)
    if found:
        some = f"{len(found)} unfinished run{'s' * (len(found) > 1)}, such as {found[0]}: going on, or cut off"
        findings.notes.append(f"{some}; `{resume_command(findings.place, found[0])}` asks what it lacks")


def _note_early(findings: Findings, acts: Mapping[str, StoredAct], now: datetime) -> None:
    """The order of arrival counts, so that a wrong date changes nothing here."""
    early = [stored.act for stored in acts.values() if is_yet_to_come(stored.act.made_at, now)]
    if early:
        some = f"{len(early)} act{'s' * (len(early) > 1)} dated later than now, such as {early[0].act_id}"
        findings.notes.append(f"{some}: a clock was wrong; acts hold in their order of arrival")


def _add_contradiction(findings: Findings, stored: StoredRecord, readers: Readers) -> None:
    """Every bit may be what was written, and what was written not be true."""
    why = record_contradiction(stored.record, readers)
    if why is not None:
        run_id = stored.record.run_id
        command = history_command(findings.place, "quarantine", run_id, "--reason TEXT")
        hint = f"look where it came from; `{command}` sets it aside"
        findings.add(f"run {run_id}", f"contradicts itself: {why}", reason="record-contradicts-itself", hint=hint)


def _misplaced(stored: StoredRecord) -> str | None:
    record = stored.record
    if stored.path.parent.name != record.run_id:
        return f"is the record of run {record.run_id}, in the folder of another run"
    if record.comparability.key != digest(record.comparability.fields):
        return "has a comparability key that is not the digest of its fields"
    return None


def _acts(findings: Findings, broken: set[str]) -> dict[str, StoredAct]:
    found: dict[str, StoredAct] = {}
    for path in act_paths(findings.place):
        try:
            stored = read_act(path)
        except InfraError as error:
            findings.add_error(path, error)
            broken.add(path.stem)
        else:
            found[stored.act.act_id] = stored
    return found


def _link(row: NewRow) -> Link:
    return Link(run_id=row.run_id, key=row.comparability_key, digest=row.digest, previous=row.previous)
