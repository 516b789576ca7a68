"""Which earlier runs are the norm: one per distinct build, on hardware that counts as equal, the first ones only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median

from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Gate
from gatekit.stats.next_count import binomial_variance

HARDWARE = "hardware "
AFTER = "after the baseline"
_OUTLIER_SIGMAS = 5.0  # run-to-run noise is 0.15 to 0.67 of the binomial one: this is no noise
_MOST_TO_NAME = 3
_MOMENT_CHARACTERS = 19  # to the second; UTC is written as Z or +00:00


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchangeable:
    """The runs that count, in order of arrival, how many others do not, by reason, and what to know about them.

    `later` are the fitting runs that came after the baseline: they are judged by it and never move it.
    """

    runs: tuple[PastRun, ...]
    excluded: Mapping[str, int]
    notes: tuple[str, ...] = ()
    later: tuple[PastRun, ...] = ()


def exchangeable(gate: Gate, hw: str, n: int, past: Past) -> Exchangeable:
    """The norm of a gate on the hardware named `hw` at n questions: one run per distinct build of the baseline.

    Nights of one deterministic build are one observation: ten of them, taken as ten, turn a false-alarm rate of
    0.1 % into 14 %. Hence only the first run of a build counts; a run whose answers are those of an earlier one
    question by question does not count either (the numerics did not change), and neither does one without known
    build or answers, but for the first. The usual advice is the most recent run of each build. But the norm is
    frozen, and one in which last night's run of a build took the place of that of the night before would move every
    night, follow a build whose machine decays, and leave no lock current. Hardware other than `hw` or
    `gate.exchangeable_hardware` is left out. So is a total more than five binomial standard deviations from the
    median of three or more: named in a note, because one broken run would widen every margin. Order is that of
    insertion, not of dates.

    The baseline ends with the run that brings the number of such observations to `gate.baseline_builds`. What comes
    later, a new run of a build of the baseline included, is `later`: a norm that moved with the runs that passed
    would follow a slow drift down and never see it.
    """
    excluded = Counter(past.excluded)
    fitting = [run for run in past.runs if not _left_out(_unfit(gate, hw, n, run), excluded)]
    distinct, end = _baseline(fitting, gate.baseline_builds, excluded)
    outliers = _outliers(distinct, n)
    excluded["outlier"] += len(outliers)
    excluded[AFTER] += len(fitting) - end
    runs = tuple(run for run in distinct if run not in outliers)
    return Exchangeable(
        runs=runs,
        excluded={why: number for why, number in excluded.items() if number},
        notes=(*_outlier_notes(outliers), *_clock_notes(runs)),
        later=tuple(fitting[end:]),
    )


def _left_out(why: str | None, excluded: Counter[str]) -> bool:
    if why is not None:
        excluded[why] += 1
    return why is not None


def _unfit(gate: Gate, hw: str, n: int, run: PastRun) -> str | None:
    if run.n != n:
        return f"n={run.n}"
    if run.hardware != hw and run.hardware not in gate.exchangeable_hardware:
        return HARDWARE + run.hardware
    return None


def _baseline(runs: Sequence[PastRun], builds: int, excluded: Counter[str]) -> tuple[list[PastRun], int]:
    """The first `builds` runs that repeat none before them, and how many runs, from the first, hold them."""
    distinct: list[PastRun] = []
    seen: set[tuple[str, object]] = set()
    for place, run in enumerate(runs):
        if len(distinct) == builds:
            return distinct, place
        own = set(marks(run))
        if seen.isdisjoint(own):
            distinct.append(run)
        else:
            excluded[_repeated(run, own & seen)] += 1
        seen |= own  # of a repeat too: what answers like one build and is called another is one with both
    return distinct, len(runs)


def _repeated(run: PastRun, common: Container[tuple[str, object]]) -> str:
    if ("build", run.build) not in common:
        return "same answers"
    return "same build" if run.build is not None else "unknown build"


def marks(run: PastRun) -> Iterator[tuple[str, object]]:
    """What makes a run the repeat of another: its build, its answers; all nameless totals are one build."""
    if run.build is not None or run.outcomes is None:
        yield "build", run.build
    if run.outcomes is not None:
        yield "answers", run.outcomes


def _outliers(runs: Sequence[PastRun], n: int) -> tuple[PastRun, ...]:
    if len(runs) < 3:
        return ()
    middle = median(run.correct for run in runs)
    limit = _OUTLIER_SIGMAS * sqrt(binomial_variance(middle, n))
    return tuple(run for run in runs if abs(run.correct - middle) > limit)


def _outlier_notes(outliers: Sequence[PastRun]) -> Iterator[str]:
    for run in outliers[:_MOST_TO_NAME]:
        where = f"more than {_OUTLIER_SIGMAS:g} binomial standard deviations from the median of the others"
        yield f"outlier left out: run {run.run_id} with {run.correct} of {run.n}, {where}"


def _clock_notes(runs: Sequence[PastRun]) -> Iterator[str]:
    turned = [
        (before, after)
        for before, after in pairwise(runs)
        if after.finished_at[:_MOMENT_CHARACTERS] < before.finished_at[:_MOMENT_CHARACTERS]
    ]
    for before, after in turned[:_MOST_TO_NAME]:
        dates = f"run {after.run_id} of {after.finished_at} came after run {before.run_id} of {before.finished_at}"
        yield f"a clock was wrong: {dates}; the order is that of arrival"
