"""Repeats of a question that hang together inside of a run: no rule may take them for answers of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gatekit.gate.strata import Statuses
from gatekit.records.answers import Status
from gatekit.records.past import PastRun
from gatekit.records.verdict import Interval, Outcome
from gatekit.stats.interval import wilson_of_shares
from gatekit.stats.within_run import Answered, Counts, whole_question_tail, within_run_z

TOO_ALIKE_Z = 4.0  # one healthy run in 30,000 is beyond it
_ALPHA = 0.001  # of a rule that states none


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """How alike the repeats of one run are: `z` from so many whole questions of this run and `runs` earlier ones.

    Where that is too much, `drop_p` and `rise_p` are how probable so few, or so many, right answers are if all repeats
    of a question are one answer; 1 elsewhere. `suspects` are the earlier runs that it may be instead of this one: the
    only one there is, or those without any of which alone the rest is not too alike.
    """

    z: float
    runs: int
    questions: int
    drop_p: float
    rise_p: float
    suspects: tuple[str, ...] = ()

    def overrules(self, outcome: Outcome, alpha: float | None) -> bool:
        """Whether an outcome falls: repeats are too alike to count each, and as whole questions they do not carry it.

        A change moves all repeats of a question at once, and so looks like dependence: what is certain from run to
        run stands. Outcomes that say nothing have nothing to lose.
        """
        if self.z <= TOO_ALIKE_Z or outcome not in (Outcome.PASS, Outcome.FAIL):
            return False
        certain = self.drop_p if outcome is Outcome.FAIL else self.rise_p
        return certain > (_ALPHA if alpha is None else alpha)


def dependence(statuses: Statuses, repeats: int, runs: Sequence[PastRun]) -> Dependence | None:
    """How alike the repeats of each question are within a run, this one and those of `runs` whose answers are known.

    `statuses` are in asking order, all questions once before any comes again. Questions count that have an answer in
    this run, with as many repeats as were answered. None where nothing can be said: without repeats, without such
    runs, and of too few questions whose answers differ.
    """
    data = _data(statuses, repeats, runs)
    z = None if data is None else within_run_z(data.right, repeats, data.last)
    if data is None or z is None:
        return None
    return Dependence(
        z=z,
        runs=data.right.shape[1] - 1,
        questions=len(data.right),
        drop_p=data.tail(Outcome.FAIL, repeats) if z > TOO_ALIKE_Z else 1.0,
        rise_p=data.tail(Outcome.PASS, repeats) if z > TOO_ALIKE_Z else 1.0,
        suspects=data.suspects(repeats) if z > TOO_ALIKE_Z else (),
    )


def is_carried(
    outcome: Outcome, statuses: Statuses, repeats: int, runs: Sequence[PastRun], alpha: float | None
) -> bool:
    """Whether the answers so far carry an outcome even if all repeats of a question are one answer.

    What a run may end with before all is asked: of a part of it dependence may not be seen yet. Always where the
    verdict is not guarded against dependence: without repeats, and without earlier runs whose answers are known.
    """
    data = _data(statuses, repeats, runs)
    return data is None or data.tail(outcome, repeats) <= (_ALPHA if alpha is None else alpha)


def interval_of_shares(statuses: Statuses, repeats: int, confidence: float) -> Interval:
    """From the low end if every open answer were wrong to the high end if every one were right, by question."""
    correct = np.array([status is Status.CORRECT for status in statuses])
    is_open = np.array([status is None or status is Status.LOST for status in statuses])
    worst, best = (found.reshape(repeats, -1).sum(axis=0).tolist() for found in (correct, correct | is_open))
    low, high = wilson_of_shares(worst, repeats, confidence).low, wilson_of_shares(best, repeats, confidence).high
    return Interval(low=low, high=high, confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """Right answers by question and run, this run last, and how many this run has of each question: not none."""

    runs: tuple[str, ...]
    right: Counts
    last: Answered

    def suspects(self, repeats: int) -> tuple[str, ...]:
        """Earlier runs without which the others and this one are not too alike."""
        others = (np.delete(self.right, place, axis=1) for place in range(len(self.runs)))
        found = [within_run_z(right, repeats, self.last) or 0.0 for right in others]
        return tuple(run for run, z in zip(self.runs, found, strict=True) if z <= TOO_ALIKE_Z)

    def tail(self, outcome: Outcome, repeats: int) -> float:
        """The chance of so few right answers, or for a PASS of so few wrong ones."""
        if outcome is Outcome.FAIL:
            return whole_question_tail(self.right, repeats, self.last)
        wrong = repeats - self.right
        wrong[:, -1] = self.last - self.right[:, -1]
        return whole_question_tail(wrong, repeats, self.last)


def _data(statuses: Statuses, repeats: int, runs: Sequence[PastRun]) -> _Data | None:
    earlier = {run.run_id: run.outcomes for run in runs if run.outcomes is not None and run.n == len(statuses)}
    if repeats == 1 or not earlier or len(statuses) % repeats:
        return None
    answered = np.array([status is not None and status is not Status.LOST for status in statuses])
    last: Answered = answered.reshape(repeats, -1).sum(axis=0, dtype=np.int64)
    now = bytes(status is Status.CORRECT for status in statuses)
    right = _right(*earlier.values(), now, repeats=repeats)
    return _Data(runs=tuple(earlier), right=right[last > 0], last=last[last > 0])


def _right(*runs: bytes, repeats: int) -> Counts:
    """How many repeats of each question were right, one column a run."""
    cells = np.frombuffer(b"".join(runs), dtype=np.uint8).reshape(len(runs), repeats, -1)
    right: Counts = cells.sum(axis=1, dtype=np.int64).T
    return right
