"""The earlier runs that a verdict may rest on, from the index alone: no record file is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

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
    from gatekit.history.index import KeySeries, OtherKey, PastRow

MOST_CHANGES = 10
"""How many other keys of a model are described; more say nothing new."""


_NO_MEASUREMENT_OF_HEALTH = frozenset({Outcome.INFRA.value, Outcome.FAIL.value})


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
    """What was decided about the runs of one key, as of a moment. `after` is the digest behind which the norm
    starts, and `since` when that was decided; None where it never was."""

    as_of: AsOf
    superseded: Mapping[str, str]
    quarantined: frozenset[str]
    since: str | None = None
    after: str | None = None


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
    answers or cut off too many, that a later record supersedes, that are quarantined or came before the last
    rebaseline; and the model's runs under another key, by the fields that differ. `as_of`, a UTC date or moment in
    ISO 8601, drops every run that was finished and every act that was made after it.

    Raises InfraError when the index cannot be read, ConfigError for an `as_of` that is neither.
    """
    from gatekit.history import index
    from gatekit.history.database import reading

    moment = as_of_moment(as_of)
    with reading(place) as connection:
        if connection is None:
            return Past(key=comparability)
        rows = index.past_rows(connection, comparability.key)
        superseded = index.superseded(connection, comparability.key)
        acts = index.acts_of(connection)
        others = index.other_keys_of(connection, model=spec.model.name, key=comparability.key)
    seen = [row for row in rows if row.run_id != exclude_run_id and moment.has(row.finished_at)]
    past = _past(seen, _standing(acts, comparability.key, superseded, moment), comparability)
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

    moment = as_of_moment(as_of)
    acts = index.acts(place)
    for series in index.all_keys(place, after=after, until=until):
        yield from _stored(series, acts, moment)


def _stored(series: KeySeries, acts: Sequence[Act], moment: AsOf) -> Iterator[StoredSeries]:
    seen = [row for row in series.rows if moment.has(row.finished_at)]
    comparability = Comparability(key=series.key, fields=key_fields(series.fields))
    past = _past(seen, _standing(acts, series.key, series.superseded, moment), comparability)
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


def _standing(acts: Iterable[Act], key: str, superseded: Mapping[str, str], moment: AsOf) -> _Standing:
    known = [act for act in acts if moment.has(act.made_at)]
    standing = _Standing(as_of=moment, superseded=superseded, quarantined=quarantined_runs(known))
    rebaselines = [act for act in known if act.kind is ActKind.REBASELINE and act.target == key]
    if not rebaselines:
        return standing
    return replace(standing, since=rebaselines[-1].made_at, after=rebaselines[-1].after)


def _past(rows: Sequence[PastRow], standing: _Standing, comparability: Comparability) -> Past:
    runs: list[PastRun] = []
    excluded: Counter[str] = Counter()
    left_out: dict[str, str] = {}
    start = _start(rows, standing)
    for place, row in enumerate(rows):
        why = "before the rebaseline" if place < start else _unusable(row, standing)
        if why is None:
            runs.append(past_run(row))
        else:
            excluded[why] += 1
            left_out[row.run_id] = _set_aside(row, standing) or why
    return Past(runs=tuple(runs), excluded=dict(excluded), key=comparability, left_out=left_out)


def _start(rows: Sequence[PastRow], standing: _Standing) -> int:
    """Where the norm starts: behind the run that was the last when it was decided.

    Where that run is not in the index, behind the last one that was finished by then.
    """
    if standing.since is None or standing.after is None:
        return 0
    until = AsOf(text=standing.since[:19])
    named_run = [place for place, row in enumerate(rows) if row.digest == standing.after]
    earlier = named_run or [place for place, row in enumerate(rows) if until.has(row.finished_at)]
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
    return "too many truncated" if row.reason_code == "too-many-truncated" else None


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
