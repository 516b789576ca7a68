"""Slow drift of a series: charts of its runs against the frozen norm, which no single run need be far from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gatekit.gate.exchangeable import Exchangeable, marks
from gatekit.gate.from_history import from_history
from gatekit.gate.locked import predicted_by
from gatekit.gate.recompute import derived_gate
from gatekit.gate.rung import Shortage, choose
from gatekit.records.lock import Lock
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate
from gatekit.stats.charts import cusum, ewma, self_starting_p
from gatekit.stats.drift import cusum_arl, cusum_limit, ewma_limit
from gatekit.stats.next_count import NextCount, count_tail

ALLOWANCE = 0.5  # the CUSUM is quickest against a lasting shift of one standard deviation
WEIGHT = 0.2
_SHORTEST, _LONGEST = 20.0, 1e6  # mean runs between false alarms: where the limits can be worked out
_ABOVE_EVERY_LIMIT = 20.0  # that of one false alarm in a million runs is 12
_ANY_LIMIT = 1.0  # a path does not depend on its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the later runs of a series are charted against.

    `runs` are the norm's own, `later` came after it, `predicted` is the next count by the norm, `arl` the mean
    number of runs between two false alarms.
    """

    runs: tuple[PastRun, ...]
    later: tuple[PastRun, ...]
    predicted: NextCount
    arl: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftPoint:
    """One run on the charts; `p` is None where it says nothing: the first two runs, and repeats of a build."""

    run_id: str
    finished_at: str
    correct: int
    is_norm: bool
    p: float | None
    cusum: float
    ewma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The charts of a series. `cusum_alarm` and `ewma_alarm` are the places of the first points over the limit.

    `is_in_alarm` says whether the CUSUM is over its limit at the last point, `since` is the place of the run with
    which the shift seems to start: the first one after the CUSUM was last 0, None where it is 0 now. `text` says
    it in a sentence; no date is estimated from it.
    """

    points: tuple[DriftPoint, ...]
    cusum_limit: float
    ewma_limit: float
    cusum_alarm: int | None
    ewma_alarm: int | None
    is_in_alarm: bool
    since: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A CUSUM over its limit, in a sentence; `is_one_run` where the last run alone brought it there."""

    text: str
    is_one_run: bool


def baseline(gate: Gate, n: int, history: Exchangeable, lock: Lock | None = None) -> Baseline | None:
    """The norm of a series, by its lock where it has one, else by its rung on history; None without history.

    The chart's mean number of runs between false alarms is 1 / alpha, kept within 20 and a million.
    """
    if lock is not None:
        runs, later = _around(lock, history)
        return Baseline(runs=runs, later=later, predicted=predicted_by(lock), arl=_run_length(lock.alpha))
    derived = derived_gate(gate)
    rung = choose(derived, history)
    if isinstance(rung, Shortage):
        return None
    found = from_history(derived, n, rung)
    arl = _run_length(found.rule.alpha)
    return Baseline(runs=history.runs, later=history.later, predicted=found.predicted, arl=arl)


def drift(norm: Baseline) -> Drift:
    """The charts of all runs of the norm and after it, in order of arrival.

    In the norm's own runs each is compared with those before it (self-starting); a later one with the norm as it
    is, by its mid-p. One-sided: only falling counts move a chart up.
    """
    runs = (*norm.runs, *norm.later)
    p = p_values(norm)
    limits = _cusum_limit(norm.arl), _ewma_limit(norm.arl)
    sums, means = cusum(p, ALLOWANCE, h=limits[0]), ewma(p, WEIGHT, c=limits[1])
    points = tuple(
        DriftPoint(
            run_id=run.run_id,
            finished_at=run.finished_at,
            correct=run.correct,
            is_norm=place < len(norm.runs),
            p=p[place],
            cusum=sums.path[place],
            ewma=means.path[place],
        )
        for place, run in enumerate(runs)
    )
    since = _since(sums.path)
    is_in_alarm = bool(sums.path) and sums.path[-1] > limits[0]
    return Drift(
        points=points,
        cusum_limit=sums.limit,
        ewma_limit=means.limit,
        cusum_alarm=sums.alarm,
        ewma_alarm=means.alarm,
        is_in_alarm=is_in_alarm,
        since=since,
        text=_text(runs, sums.path, limits[0], norm.arl, since, is_in_alarm=is_in_alarm),
    )


def p_values(norm: Baseline) -> tuple[float | None, ...]:
    """One p-value per run, of a count as low; None for a run that repeats an earlier one's build or answers."""
    own = self_starting_p([run.correct for run in norm.runs])
    seen = {mark for run in norm.runs for mark in marks(run)}
    found: list[float | None] = list(own)
    for run in norm.later:
        is_new = seen.isdisjoint(marks(run))
        seen.update(marks(run))
        found.append(_mid_p(norm.predicted, run.correct) if is_new else None)
    return tuple(found)


def alarm(norm: Baseline) -> Alarm | None:
    """The alarm of a series whose CUSUM is over its limit at the last run; None for one that is not.

    Quick: over the limit is where the run length of the chart with that limit exceeds the wanted one.
    """
    path = cusum(p_values(norm), ALLOWANCE, h=_ANY_LIMIT).path
    since = _since(path)
    if since is None or (path[-1] < _ABOVE_EVERY_LIMIT and cusum_arl(ALLOWANCE, path[-1]) <= norm.arl):
        return None
    runs = (*norm.runs, *norm.later)
    text = _text(runs, path, _cusum_limit(norm.arl), norm.arl, since, is_in_alarm=True)
    return Alarm(text=text, is_one_run=since == len(runs) - 1)


@lru_cache(maxsize=64)
def _cusum_limit(arl: float) -> float:
    """Kept: it takes a tenth of a second, and is the same for all runs of a gate."""
    return cusum_limit(ALLOWANCE, arl)


@lru_cache(maxsize=64)
def _ewma_limit(arl: float) -> float:
    """As `_cusum_limit`."""
    return ewma_limit(WEIGHT, arl)


def _mid_p(predicted: NextCount, correct: int) -> float:
    """A discrete p-value is too large on average and would hide drift."""
    return (count_tail(predicted, correct) + count_tail(predicted, correct - 1)) / 2


def _around(lock: Lock, history: Exchangeable) -> tuple[tuple[PastRun, ...], tuple[PastRun, ...]]:
    """The runs that a lock rests on, and those that came after the last of them."""
    runs = (*history.runs, *history.later)
    used = frozenset(lock.used)
    end = max((place + 1 for place, run in enumerate(runs) if run.run_id in used), default=0)
    return tuple(run for run in runs[:end] if run.run_id in used), runs[end:]


def _run_length(alpha: float | None) -> float:
    return min(_LONGEST, max(_SHORTEST, 1 / alpha if alpha else _LONGEST))


def _since(path: Sequence[float]) -> int | None:
    """The place after the last 0; None where the path ends at 0."""
    if not path or path[-1] <= 0:
        return None
    return max((place + 1 for place, value in enumerate(path) if value <= 0), default=0)


def _text(
    runs: Sequence[PastRun], path: Sequence[float], limit: float, arl: float, since: int | None, *, is_in_alarm: bool
) -> str:
    if since is None:
        return "no drift: the CUSUM of the counts is 0"
    start = runs[since]
    date = f" ({start.finished_at[:10]})" if start.finished_at else ""
    of = f"run {start.run_id}{date}" if start.run_id else "this run"
    value = f"CUSUM {path[-1]:.3g}, limit {limit:.3g}"
    if not is_in_alarm:
        return f"no drift: {value}"
    return f"drift: low counts add up since {of} ({value}: one false alarm in {arl:.0f} runs)"
