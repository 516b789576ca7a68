"""Old totals into a history, as runs without answers: all of a file, or nothing of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gatekit import __version__
from gatekit.errors import ConfigError
from gatekit.history.foreign_secrets import text_secret
from gatekit.history.importing import wrong_clock
from gatekit.history.place import Place
from gatekit.history.taking_in import Imported, refuse_other, stored_run, take_in
from gatekit.history.totals import Total, read_totals
from gatekit.records.answers import Counts
from gatekit.records.canonical import Plain, digest
from gatekit.records.run import Comparability, Dataset, RunRecord, Served, record_to_plain
from gatekit.records.secrets import without_secrets
from gatekit.records.spec import Spec
from gatekit.records.verdict import Interval, Outcome, Verdict
from gatekit.stats.interval import wilson

IMPORTED = "imported"
"""The reason code of a run that was not judged here: only its total is known."""

_CONFIDENCE = 0.95
_TO_THE_SECOND = 19
_ID_DIGITS = 12
_MOST_LINES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """Under what old totals were measured, as a run of the same spec would say it."""

    spec: Spec
    dataset: Dataset
    comparability: Comparability


def import_totals(place: Place, path: Path, under: Under, *, now: datetime) -> Imported:
    """Bring in old totals as runs without answers, in the order of the file.

    They are never judged: INCONCLUSIVE, `imported`. Raises ConfigError naming each line that is refused;
    InfraError when a run id has other content here.
    """
    found = read_totals(path, n=len(under.dataset.question_ids), repeats=under.spec.protocol.repeats)
    records: dict[str, RunRecord] = {}
    flags = [f"column left out: {name}" for name in found.left_out]
    for total in found.totals:
        _refuse_secret(f"{path}:{total.line}", total)
        record = _total_record(total, under, path)
        first = records.setdefault(record.run_id, record)
        if not _is_same_total(first, record):
            what = f"run {record.run_id} is there twice with different content"
            raise ConfigError.one(what, where=f"{path}:{total.line}", reason="bad-import", hint="nothing was imported")
        flags += wrong_clock(total.line, total.finished_at, now)
    flags += [*_inexact_flags(found.totals), *_nameless_flags(found.totals)]
    plains = _chained(place, records, path)
    added, known = take_in(place, plains, total=len(plains))
    ids = list(records)
    return Imported(added=added, known=known, first=ids[0], last=ids[-1], flags=tuple(flags))


def _refuse_secret(where: str, total: Total) -> None:
    secret = None if total.build is None else text_secret(total.build)
    if secret is not None:
        what = f"build holds {secret}, and it would be kept"
        raise ConfigError.one(what, where=where, reason="bad-import", hint="nothing was imported; leave it out")


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


def _chained(place: Place, records: Mapping[str, RunRecord], path: Path) -> list[Plain]:
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
        stored = stored_run(place, run_id)
        if stored is None:
            if known.get(run_id, plain["digest"]) != plain["digest"]:
                refuse_other(str(path), run_id, plain["digest"], "the index", known[run_id])
            head = plain["digest"]
            kept.append(plain)
        elif _is_same_total(stored.record, record):
            kept.append(stored.plain)
            if run_id not in known:  # an import that was stopped had come so far
                head = stored.digest
        else:
            refuse_other(str(path), run_id, plain["digest"], str(stored.path), stored.digest)
    return kept
