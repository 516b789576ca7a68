"""Runs from elsewhere into a history: all of a file, or nothing of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gatekit import __version__
from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import storage_error, write_once
from gatekit.history.foreign_lines import foreign_lines
from gatekit.history.place import Place
from gatekit.history.records_folder import MAX_RECORD_BYTES, StoredRecord, create_run_dir, read_stored, record_path
from gatekit.history.run_row import NewRow, run_row
from gatekit.history.totals import Total, json_flaw, read_totals
from gatekit.records.answers import Counts
from gatekit.records.canonical import Plain, canonical_json, digest
from gatekit.records.run import (
    Comparability,
    Dataset,
    RunRecord,
    Served,
    contradiction,
    record_from_plain,
    record_to_plain,
)
from gatekit.records.secrets import without_secrets
from gatekit.records.spec import Spec
from gatekit.records.verdict import Interval, Outcome, Verdict
from gatekit.resources import schema
from gatekit.stats.interval import wilson

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

IMPORTED = "imported"
"""The reason code of a run that was not judged here: only its total is known."""

MAX_RECORDS_BYTES = 16 * 1024**3
_CONFIDENCE = 0.95
_GSM8K_APPEARED = "2021-10-27"
_TO_THE_SECOND = 19
_ID_DIGITS = 12
_MOST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """Under what old totals were measured, as a run of the same spec would say it."""

    spec: Spec
    dataset: Dataset
    comparability: Comparability


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many runs of the file are new in the history and how many were in it, and what to know about them.

    `prefix` is how the ids of all of them begin: the whole id of a single one, empty where they share nothing.
    """

    added: int
    known: int
    prefix: str
    flags: tuple[str, ...] = ()


def import_records(place: Place, path: Path, *, now: datetime) -> Imported:
    """Bring in the whole records of a file that `history export` wrote, in its order.

    Every line is checked before the first record is written. Raises ConfigError naming the line that is not a
    whole, intact record; InfraError when a run id has other content here, with both digests.
    """
    from gatekit.history import index

    known = index.known_digests(place)
    seen: dict[str, tuple[int, str]] = {}
    flags: list[str] = []
    for line, plain in _records(path):
        where, run_id, its_digest = f"{path}:{line}", plain["run_id"], plain["digest"]
        first = seen.setdefault(run_id, (line, its_digest))
        if first[1] != its_digest:
            _refuse_other(where, run_id, its_digest, f"line {first[0]}", first[1])
        if first[0] == line:
            _refuse_known_as_other(known, where, run_id, its_digest)
            _refuse_stored_as_other(place, where, run_id, its_digest)
            flags += _flags(line, plain["finished_at"], now)
    if not seen:
        raise ConfigError.one("no records in this file", where=str(path), reason="bad-import")
    return _kept(place, _once(path, seen), flags, prefix=_common_start(seen))


def import_totals(place: Place, path: Path, under: Under, *, now: datetime) -> Imported:
    """Bring in old totals as runs without answers, in the order of the file.

    They are never judged: INCONCLUSIVE, `imported`. Raises ConfigError naming each line that is refused;
    InfraError when a run id has other content here.
    """
    found = read_totals(path, n=len(under.dataset.question_ids))
    records: dict[str, RunRecord] = {}
    flags = [f"column left out: {name}" for name in found.left_out]
    for total in found.totals:
        record = _total_record(total, under, path)
        first = records.setdefault(record.run_id, record)
        if not _is_same_total(first, record):
            what = f"run {record.run_id} is there twice with different content"
            raise ConfigError.one(what, where=f"{path}:{total.line}", reason="bad-import", hint="nothing was imported")
        flags += _flags(total.line, total.finished_at, now)
    flags += [*_inexact_flags(found.totals), *_nameless_flags(found.totals)]
    return _kept_totals(place, records, path, flags)


def _common_start(run_ids: Iterable[str]) -> str:
    """How all of them begin: what the first and the last in alphabetical order share."""
    ids = list(run_ids)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(min(ids), max(ids), strict=False)))


def _inexact_flags(totals: Sequence[Total]) -> Iterator[str]:
    lines = [str(total.line) for total in totals if total.others]
    if lines:
        more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
        which = f"line{'s' if len(lines) > 1 else ''} {', '.join(lines[:_MOST_LINES])}{more}"
        yield f"accuracy of {which} has too few digits for one count: the nearest was taken"


def _nameless_flags(totals: Sequence[Total]) -> Iterator[str]:
    """Nights of one build are one observation, and nothing tells the builds of these apart."""
    nameless = sum(total.build is None for total in totals)
    if nameless > 1:
        what = f"{nameless} of {len(totals)} totals name no build (column `build`)"
        yield f"{what}: all of them together are one observation, because one build is one vote"


def _total_record(total: Total, under: Under, path: Path) -> RunRecord:
    spec, served = under.spec, None
    if total.build is not None:
        served = Served(
            engine=spec.engine.name,
            build=total.build,
            model=spec.model.name,
            base_url=IMPORTED,
            simulated=spec.simulated,
            details={},
        )
    bounds = wilson(total.correct, total.n, _CONFIDENCE)
    wrong = total.n - total.correct
    seen = f"{total.correct} of {total.n}"
    also = f"; its accuracy would fit {total.others} other counts" if total.others else ""
    return RunRecord(
        run_id=total.run_id or _id_of(total, under.comparability),
        gatekit_version=__version__,
        started_at=total.finished_at,
        finished_at=total.finished_at,
        spec=without_secrets(spec),
        dataset=under.dataset,
        comparability=under.comparability,
        served=served,
        counts=Counts(n=total.n, correct=total.correct, wrong=wrong, no_answer=0, truncated=0, lost=0),
        observations=(),
        verdict=Verdict(
            outcome=Outcome.INCONCLUSIVE,
            reason_code=IMPORTED,
            reason=f"{seen}, measured elsewhere and imported: only the total is known, and it was not judged",
            interval=Interval(low=bounds.low, high=bounds.high, confidence=_CONFIDENCE),
        ),
        events=(f"imported from {path.name} line {total.line}{also}",),
    )


def _id_of(total: Total, comparability: Comparability) -> str:
    """An id that follows from the content, so that the same total is the same run."""
    content = [comparability.key, total.finished_at, total.n, total.correct, total.build]
    moment = total.finished_at[:_TO_THE_SECOND].replace("-", "").replace(":", "")
    return f"{moment}Z-{IMPORTED}-{digest(content).removeprefix('sha256:')[:_ID_DIGITS]}"


def _is_same_total(one: RunRecord, other: RunRecord) -> bool:
    """Whether both say the same; from which file and when it came here is not part of it."""
    return _meaning(one) == _meaning(other)


def _meaning(record: RunRecord) -> tuple[object, ...]:
    build = record.served.build if record.served else None
    counts = record.counts
    return (record.comparability.key, record.finished_at, counts.n, counts.correct, build, len(record.observations))


def _kept_totals(place: Place, records: Mapping[str, RunRecord], path: Path, flags: Iterable[str]) -> Imported:
    """New ones are chained to what is there; one that is known as the same total stays what it is."""
    from gatekit.history import index
    from gatekit.history.database import reading

    with reading(place) as connection:
        key = next(iter(records.values())).comparability.key
        head = None if connection is None else index.head(connection, key)
    known = index.known_digests(place)
    kept: list[Plain] = []
    for run_id, record in records.items():
        plain = record_to_plain(replace(record, previous=head))
        stored = _stored(place, run_id)
        if stored is None:
            _refuse_known_as_other(known, str(path), run_id, plain["digest"])
            head = plain["digest"]
            kept.append(plain)
        elif _is_same_total(stored.record, record):
            kept.append(stored.plain)
        else:
            _refuse_other(str(path), run_id, plain["digest"], str(stored.path), stored.digest)
    return _kept(place, kept, flags, prefix=_common_start(records))


def _kept(place: Place, plains: Iterable[Plain], flags: Iterable[str], *, prefix: str) -> Imported:
    """Each record in its file as it is, then all of them in the index, in their order."""
    from gatekit.history import index

    added = index.add_many(place, (_kept_row(place, plain) for plain in plains))
    if added.problems:
        raise InfraError(added.problems[0], reason="run-id-taken", hint="two runs need two run ids")
    return Imported(added=added.added, known=added.known, prefix=prefix, flags=tuple(flags))


def _kept_row(place: Place, plain: Plain) -> NewRow:
    """The row of a record that is in its file now: its bytes are those of `plain`, whichever gatekit wrote it."""
    record = record_from_plain(plain)
    path = create_run_dir(place.dir, record.run_id) / "record.json"
    try:
        is_new = write_once(path, canonical_json(plain) + b"\n")
    except OSError as error:
        raise storage_error("write", path, error) from error
    if not is_new:
        _refuse_stored_as_other(place, "the import", record.run_id, plain["digest"])
    return run_row(record, plain["digest"], gate_section=plain["spec"]["gate"])


def _stored(place: Place, run_id: str) -> StoredRecord | None:
    path = record_path(place.dir, run_id)
    return read_stored(path) if path.exists() else None


def _records(path: Path) -> Iterator[tuple[int, Plain]]:
    """Each whole record with its line. Raises ConfigError for the first line that is not one."""
    for number, text in _lines(path):
        yield number, _record(f"{path}:{number}", text)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    lines = foreign_lines(path, line_limit=MAX_RECORD_BYTES, file_limit=MAX_RECORDS_BYTES, errors="surrogatepass")
    return ((number, text) for number, text in lines if text.strip())


def _record(where: str, text: str) -> Plain:
    try:
        plain = json.loads(text.rstrip(), object_pairs_hook=_once_each, parse_constant=_no_number)
        flaw = next(_validator().iter_errors(plain), None)
        why = contradiction(record_from_plain(plain)) if flaw is None else f"{flaw.json_path}: {flaw.message}"
        if why is None:
            return plain
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError, OverflowError) as error:
        why = json_flaw(error)
    hint = "nothing was imported; old totals need --format totals"
    raise ConfigError.one(f"not a whole run record: {why[:200]}", where=where, reason="bad-import", hint=hint)


def _once_each(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema("record"))


def _once(path: Path, seen: Mapping[str, tuple[int, str]]) -> Iterator[Plain]:
    """The records of a second reading, each run once; a digest that was seen is that of a checked record."""
    wanted = dict(seen.values())
    for line, text in _lines(path):
        if line in wanted:
            plain = _as_checked(text, wanted.pop(line))
            if plain is None:
                _refuse_changed(path)
            yield plain
    if wanted:
        _refuse_changed(path)


def _as_checked(text: str, its_digest: str) -> Plain:
    """The record in a line; None when it is not the one with this digest."""
    try:
        plain = json.loads(text)
        content = {key: value for key, value in plain.items() if key != "digest"}
        return plain if plain.get("digest") == digest(content) == its_digest else None
    except (ValueError, AttributeError, RecursionError):
        return None


def _refuse_changed(path: Path) -> NoReturn:
    what = f"{path} changed while it was read"
    raise ConfigError.one(what, reason="bad-import", hint="import it again; known runs count once")


def _refuse_stored_as_other(place: Place, where: str, run_id: str, its_digest: str) -> None:
    stored = _stored(place, run_id)
    if stored is not None and stored.digest != its_digest:
        _refuse_other(where, run_id, its_digest, str(stored.path), stored.digest)


def _refuse_known_as_other(known: Mapping[str, str], where: str, run_id: str, its_digest: str) -> None:
    if known.get(run_id, its_digest) != its_digest:
        _refuse_other(where, run_id, its_digest, "the index", known[run_id])


def _refuse_other(where: str, run_id: str, its_digest: str, there: str, other_digest: str) -> NoReturn:
    raise InfraError(
        f"{where}: run {run_id} is {its_digest}, but {there} holds {other_digest}; a run is never changed",
        reason="run-id-taken",
        hint="nothing was imported; two runs need two run ids",
    )


def _flags(line: int, finished_at: str, now: datetime) -> list[str]:
    """A clock that was wrong: the order of arrival counts, so that such a run is taken, and told of."""
    if finished_at[:_TO_THE_SECOND] > now.isoformat()[:_TO_THE_SECOND]:
        return [f"line {line}: dated {finished_at}, which is yet to come"]
    if finished_at < _GSM8K_APPEARED:
        return [f"line {line}: dated {finished_at}, before GSM8K existed"]
    return []
