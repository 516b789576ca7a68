"""The earlier runs that a verdict may rest on, from the index alone: no record file is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gatekit.gate.locked import Fault
from gatekit.gate.reasons import DEPENDENT
from gatekit.history.acts import quarantined_runs
from gatekit.history.as_of import AsOf, as_of_moment
from gatekit.history.changes import Span, change, differing, key_fields, named
from gatekit.history.place import Place
from gatekit.records.act import Act, ActKind
from gatekit.records.canonical import Plain
from gatekit.records.past import QUARANTINED, SUPERSEDED, Past, PastRun
from gatekit.records.run import Comparability
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome

if TYPE_CHECKING:
    import sqlalchemy as sa

    from gatekit.history.index import KeySeries, OtherKey, PastRow
    from gatekit.history.lineage import Copy

MOST_CHANGES = 10
"""How many other keys of a model are described; more say nothing new."""


_NO_MEASUREMENT_OF_HEALTH = frozenset({Outcome.INFRA.value, Outcome.FAIL.value})
_NO_SAMPLE_OF_HEALTH = {"too-many-truncated": "too many truncated", DEPENDENT: "dependent repeats"}
"""INCONCLUSIVE runs whose answers are not those of a healthy build, by the reason of their verdict."""
UNJUDGED = "without a verdict"
_NO_THRESHOLD = frozenset({fault.value for fault in Fault} | {"gate-cannot-decide", "no-reference"})
"""Why a run was measured and not judged, although its series may have had what judges it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSeries:
    """The runs of one spec name under one key. `past` is what a verdict on its next run may rest on: the healthy
    runs under the key, whatever their spec was called. `gate` is the gate section of its newest run as plain data,
    None where it is not known; `newest` that run, whatever became of it."""

    spec_name: str
    model: str
    hardware: str
    gate: Mapping[str, Plain] | None
    past: Past
    newest: PastRow

    @property
    def key(self) -> Comparability:
        """The comparability key with its fields."""
        assert self.past.key is not None
        return self.past.key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What was decided about the runs of one key, as of a moment. `copies` are those of them that read the answers of
    other runs, `bars` up to which answers these are before a rebaseline. `after` is the digest behind which the norm
    starts, and `since` when that was decided; None where it never was."""

    as_of: AsOf
    superseded: Mapping[str, str]
    quarantined: frozenset[str]
    copies: Mapping[str, Copy]
    bars: Mapping[str, int]
    since: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """The acts that were made by a moment, and what follows from them for the copies of runs."""

    as_of: AsOf
    acts: Sequence[Act]
    quarantined: frozenset[str]
    bars: Mapping[str, int]


def past_runs(
    place: Place,
    spec: Spec,
    comparability: Comparability,
    *,
    exclude_run_id: str | None = None,
    as_of: str | None = None,
) -> Past:
    """The whole, healthy runs under the same comparability key, in the order in which they were added.

    A run never votes on itself. Left out and counted by reason: FAIL and INFRA runs, runs that stopped early, lost
    answers or cut off too many, whose repeats hang together, that a later record supersedes, that are quarantined or
    came before the last rebaseline; and the model's runs under another key, by the fields that differ. `as_of`, a UTC
    date or moment in ISO 8601, drops every run that was finished and every act that was made after it.

    Raises InfraError when the index cannot be read, ConfigError for an `as_of` that is neither.
    """
    from gatekit.history import index
    from gatekit.history.database import reading
    from gatekit.history.lineage import copies_under

    moment = as_of_moment(as_of)
    with reading(place) as connection:
        if connection is None:
            return Past(key=comparability)
        rows = index.past_rows(connection, comparability.key)
        superseded = index.superseded(connection, comparability.key)
        copies = copies_under(connection, comparability.key, comparability.key)
        decided = _decided(connection, index.acts_of(connection), moment, copies)
        others = index.other_keys_of(connection, model=spec.model.name, key=comparability.key)
    seen = [row for row in rows if row.run_id != exclude_run_id and moment.has(row.since)]
    past = _past(seen, _standing(decided, comparability.key, superseded, copies), comparability)
    known = [other for other in others if moment.has(other.first)]
    return replace(
        past,
        excluded={**past.excluded, **_other_series(known, comparability)},
        changes=tuple(_changes(known, comparability, seen)),
    )


def all_series(
    place: Place, *, as_of: str | None = None, after: str = "", until: str | None = None
) -> Iterator[StoredSeries]:
    """Every series of the history, one after another, by comparability key and then by spec name.

    Only a few are in memory at a time; `after` and `until` limit the keys, as in `index.all_keys`. Raises InfraError,
    ConfigError as `past_runs`.
    """
    from gatekit.history import index
    from gatekit.history.database import reading

    moment = as_of_moment(as_of)
    with reading(place) as connection:
        decided = None if connection is None else _decided(connection, index.acts_of(connection), moment)
    if decided is None:
        return
    for series in index.all_keys(place, after=after, until=until):
        yield from _stored(series, decided)


def series_under(place: Place, key: str, *, as_of: str | None = None) -> tuple[StoredSeries, ...]:
    """The series of one comparability key by spec name, as in `all_series`; none where the history holds none."""
    from gatekit.history import index
    from gatekit.history.database import reading

    moment = as_of_moment(as_of)
    with reading(place) as connection:
        decided = None if connection is None else _decided(connection, index.acts_of(connection), moment)
    series = None if decided is None else index.one_key(place, key)
    return () if series is None or decided is None else tuple(_stored(series, decided))


def _stored(series: KeySeries, decided: _Decided) -> Iterator[StoredSeries]:
    seen = [row for row in series.rows if decided.as_of.has(row.since)]
    comparability = Comparability(key=series.key, fields=key_fields(series.fields))
    past = _past(seen, _standing(decided, series.key, series.superseded, series.copies), comparability)
    newest = {row.spec_name: row for row in seen}
    for spec_name, row in sorted(newest.items()):
        gate = None if row.gate is None else series.gates.get(row.gate)
        yield StoredSeries(
            spec_name=spec_name,
            model=row.model,
            hardware=row.hw,
            gate=None if gate is None else json.loads(gate),
            past=past,
            newest=row,
        )


def _decided(
    connection: sa.Connection, acts: Iterable[Act], moment: AsOf, copies: Mapping[str, Copy] | None = None
) -> _Decided:
    """What these acts say by this moment, of copies too; with `copies` only what matters to these."""
    from gatekit.history.lineage import bars, copies_of

    known = [act for act in acts if moment.has(act.made_at)]
    named = quarantined_runs(known)
    keys = {act.target for act in known} if copies is None else {key for one in copies.values() for key in one.keys}
    return _Decided(
        as_of=moment,
        acts=known,
        quarantined=named | copies_of(connection, named).keys(),
        bars=bars(connection, known, keys),
    )


def _standing(decided: _Decided, key: str, superseded: Mapping[str, str], copies: Mapping[str, Copy]) -> _Standing:
    standing = _Standing(
        as_of=decided.as_of,
        superseded=superseded,
        quarantined=decided.quarantined,
        copies=copies,
        bars=decided.bars,
    )
    rebaselines = [act for act in decided.acts if act.kind is ActKind.REBASELINE and act.target == key]
    if not rebaselines:
        return standing
    return replace(standing, since=rebaselines[-1].made_at, after=rebaselines[-1].after)


def _past(rows: Sequence[PastRow], standing: _Standing, comparability: Comparability) -> Past:
    """The runs that count. One that met no threshold (its lock was missing, its gate could decide nothing) counts only
    where no run before it passed one: a week without a lock must not move the norm that its runs were not held to."""
    runs: list[PastRun] = []
    excluded: Counter[str] = Counter()
    left_out: dict[str, str] = {}
    start, is_judged = _start(rows, standing), False
    for place, row in enumerate(rows):
        is_before = place < start or _stays_before(row, standing)
        why = "before the rebaseline" if is_before else _unusable(row, standing)
        why = UNJUDGED if why is None and is_judged and row.reason_code in _NO_THRESHOLD else why
        if why is None:
            runs.append(past_run(row))
            is_judged = is_judged or row.outcome == Outcome.PASS
        else:
            excluded[why] += 1
            left_out[row.run_id] = _set_aside(row, standing) or why
    return Past(runs=tuple(runs), excluded=dict(excluded), key=comparability, left_out=left_out)


def _stays_before(row: PastRow, standing: _Standing) -> bool:
    """A copy stays where its answers stood."""
    from gatekit.history.lineage import is_before

    copy = standing.copies.get(row.run_id)
    return copy is not None and is_before(copy, standing.bars)


def _start(rows: Sequence[PastRow], standing: _Standing) -> int:
    """Where the norm starts: behind the run that was the last when it was decided.

    Where that run is not in the index, behind the last one that was finished by then.
    """
    if standing.since is None or standing.after is None:
        return 0
    until = AsOf(text=standing.since[:19])
    named_run = [place for place, row in enumerate(rows) if row.digest == standing.after]
    earlier = named_run or [place for place, row in enumerate(rows) if until.has(row.since)]
    return earlier[-1] + 1 if earlier else 0


def _set_aside(row: PastRow, standing: _Standing) -> str | None:
    """What was decided about a run after it was finished: it is no measurement, or another scoring took its place."""
    if row.run_id in standing.quarantined:
        return QUARANTINED
    replaced_at = standing.superseded.get(row.run_id)
    return SUPERSEDED if replaced_at is not None and standing.as_of.has(replaced_at) else None


def _unusable(row: PastRow, standing: _Standing) -> str | None:
    decided = _set_aside(row, standing)
    if decided is not None:
        return decided
    if row.outcome in _NO_MEASUREMENT_OF_HEALTH:
        return row.outcome
    if row.unasked or not row.n:
        return "stopped early"
    if row.lost or not row.measured:
        return "answers lost"
    return _NO_SAMPLE_OF_HEALTH.get(row.reason_code)


def past_run(row: PastRow) -> PastRun:
    """A run of the index as a decision sees it."""
    return PastRun(
        run_id=row.run_id,
        build=row.build,
        hardware=row.hw,
        finished_at=row.finished_at,
        n=row.n,
        correct=row.correct,
        outcomes=None if row.right is None else _unpacked(row.right, row.n),
    )


def _unpacked(right: bytes, n: int) -> bytes:
    return np.unpackbits(np.frombuffer(right, dtype=np.uint8), count=n).tobytes()


def _other_series(others: Iterable[OtherKey], comparability: Comparability) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for other in others:
        counts[f"other {named(differing(key_fields(other.fields), comparability.fields))}"] += other.runs
    return counts


def _changes(others: Iterable[OtherKey], comparability: Comparability, rows: Sequence[PastRow]) -> Iterator[str]:
    own = Span(runs=len(rows), first=rows[0].finished_at, last=rows[-1].finished_at) if rows else None
    for other in list(others)[:MOST_CHANGES]:
        span = Span(runs=other.runs, first=other.first, last=other.last)
        yield change(key_fields(other.fields), comparability.fields, other=span, own=own)
