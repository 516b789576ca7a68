"""Runs from elsewhere into a history, with the acts about them: all of a file, or nothing of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gatekit.errors import ConfigError, InfraError
from gatekit.history.acts import act_path, read_act, record_act
from gatekit.history.durable_files import is_there
from gatekit.history.foreign_records import ActLine, RecordLine, checked_lines, read_again
from gatekit.history.importing_acts import new_acts
from gatekit.history.place import Place
from gatekit.history.score_check import NO_READERS, Readers
from gatekit.history.superseding import Standing, known_standings, why_not_superseding
from gatekit.history.taking_in import Imported, refuse_other, stored_run, take_in
from gatekit.history.wrong_clock import odd_date
from gatekit.records.act import ActKind

_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    line: int
    mark: bytes
    digest: str


@dataclass(slots=True, kw_only=True)
class _File:
    """What the first reading of a file found: its runs and acts by id, the keys of its runs, and who supersedes."""

    path: Path
    runs: dict[str, _Seen] = field(default_factory=dict)
    acts: dict[str, ActLine] = field(default_factory=dict)
    keys: dict[str, Mapping[str, object]] = field(default_factory=dict)
    key_of: dict[str, str] = field(default_factory=dict)
    supersedes: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)


def import_records(place: Place, path: Path, *, now: datetime, readers: Readers = NO_READERS) -> Imported:
    """Bring in the whole records of a file that `history export` wrote, in its order, and its acts.

    Every line is checked before the first record is written, its answers by those of the extractors `readers` that
    read them. Raises ConfigError naming the line that is not a whole, intact record or act, contradicts itself or
    holds a secret; InfraError when a run or act id has other content here, with both digests, and as `take_in`.
    """
    from gatekit.history import index

    known, known_acts = index.known_digests(place), index.act_digests(place)
    found = _File(path=path)
    for one in checked_lines(path, readers):
        if isinstance(one, ActLine):
            _see_act(found, one)
        elif _see_run(found, one):
            run_id = one.record.run_id
            _refuse_taken(place, f"{path}:{one.line}", run_id, one.digest, known)
            found.flags += wrong_clock(one.line, one.record.finished_at, now)
    if not found.runs:
        raise ConfigError.one("no records in this file", where=str(path), reason="bad-import")
    _check_superseding(place, found)
    for act in found.acts.values():
        _check_act(place, found, act, known_acts)
    news = new_acts(place, found.acts, known_acts, now=now)
    wanted = {seen.line: seen.mark for seen in found.runs.values()}
    added, there = take_in(place, read_again(path, wanted), total=len(wanted))
    for decided in news.acts:
        record_act(place, decided)
    ids = list(found.runs)
    return Imported(
        added=added,
        known=there,
        first=ids[0],
        last=ids[-1],
        acts=len(news.acts),
        flags=(*found.flags, *news.flags),
        changes=news.changes,
    )


def wrong_clock(line: int, finished_at: str, now: datetime) -> list[str]:
    """What to say of a run whose clock was wrong: the order of arrival counts, so that it is taken."""
    odd = odd_date(finished_at, now)
    return [] if odd is None else [f"line {line}: {odd}"]


def _see_run(found: _File, one: RecordLine) -> bool:
    """Whether this is the first line of its run. Raises InfraError where another line says something else."""
    record = one.record
    first = found.runs.setdefault(record.run_id, _Seen(line=one.line, mark=one.mark, digest=one.digest))
    if first.digest != one.digest:
        refuse_other(f"{found.path}:{one.line}", record.run_id, one.digest, f"line {first.line}", first.digest)
    found.keys.setdefault(record.comparability.key, record.comparability.fields)
    found.key_of[record.run_id] = record.comparability.key
    if record.supersedes is not None:
        found.supersedes[record.run_id] = record.supersedes
    return first.line == one.line


def _see_act(found: _File, one: ActLine) -> None:
    first = found.acts.setdefault(one.act.act_id, one)
    if first.digest != one.digest:
        _refuse_act(f"{found.path}:{one.line}", one, f"line {first.line}", first.digest)


def _refuse_taken(place: Place, where: str, run_id: str, its_digest: str, known: Mapping[str, str]) -> None:
    if known.get(run_id, its_digest) != its_digest:
        refuse_other(where, run_id, its_digest, "the index", known[run_id])
    stored = stored_run(place, run_id)
    if stored is not None and stored.digest != its_digest:
        refuse_other(where, run_id, its_digest, str(stored.path), stored.digest)


def _check_superseding(place: Place, found: _File) -> None:
    """Raise ConfigError for the first run that cannot take the place of the one it names."""
    if not found.supersedes:
        return
    elsewhere = [target for target in found.supersedes.values() if target not in found.runs]
    standings = known_standings(place, elsewhere) | {
        run_id: Standing(fields=found.keys[key], supersedes=found.supersedes.get(run_id))
        for run_id, key in found.key_of.items()
    }
    for run_id in found.supersedes:
        why = why_not_superseding(run_id, standings)
        if why is not None:
            hint = "nothing was imported; export the history whole, or import the runs that it rests on first"
            where = f"{found.path}:{found.runs[run_id].line}"
            raise ConfigError.one(f"run {run_id} is refused: {why}", where=where, reason="bad-import", hint=hint)


def _check_act(place: Place, found: _File, one: ActLine, known: Mapping[str, str]) -> None:
    """Raise ConfigError for an act about something else than the runs of the file, InfraError for another one here."""
    act, where = one.act, f"{found.path}:{one.line}"
    if act.target not in (found.keys if act.kind is ActKind.REBASELINE else found.runs):
        what = f"act {act.act_id} is about {act.target[:_SHOWN_CHARACTERS]!r}, of which this file holds no run"
        raise ConfigError.one(what, where=where, reason="bad-import", hint="nothing was imported")
    there = known.get(act.act_id)
    if there is None and is_there(act_path(place, act.act_id)):
        there = read_act(act_path(place, act.act_id)).digest
    if there is not None and there != one.digest:
        _refuse_act(where, one, "the history", there)


def _refuse_act(where: str, one: ActLine, there: str, other_digest: str) -> None:
    raise InfraError(
        f"{where}: act {one.act.act_id} is {one.digest}, but {there} holds {other_digest}; an act is never changed",
        reason="act-id-taken",
        hint="nothing was imported",
    )
