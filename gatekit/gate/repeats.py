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
from gatekit.stats.within_run import Counts, whole_question_tail, within_run_z

TOO_ALIKE_Z = 4.0  # one healthy run in 30,000 is beyond it
_ALPHA = 0.001  # of a rule that states none


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """How alike the repeats of one run are: `z` from so many whole questions of this run and `runs` earlier ones.

    Where that is too much, `drop_p` and `rise_p` are how probable so few, or so many, right answers are if all repeats
    of a question are one answer; 1 elsewhere.
    """

    z: float
    runs: int
    questions: int
    drop_p: float
    rise_p: float

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

    `statuses` are in asking order, all questions once before any comes again. Only questions with an answer to each
    repeat count. None where nothing can be said: without repeats, without such runs, and of too few questions whose
    answers differ.
    """
    earlier = [run.outcomes for run in runs if run.outcomes is not None and run.n == len(statuses)]
    if repeats == 1 or not earlier or len(statuses) % repeats:
        return None
    answered = np.array([status is not None and status is not Status.LOST for status in statuses])
    now = bytes(status is Status.CORRECT for status in statuses)
    whole = answered.reshape(repeats, -1).all(axis=0)
    right = _right(*earlier, now, repeats=repeats)[whole]
    z = within_run_z(right, repeats)
    if z is None:
        return None
    return Dependence(
        z=z,
        runs=len(earlier),
        questions=len(right),
        drop_p=whole_question_tail(right, repeats) if z > TOO_ALIKE_Z else 1.0,
        rise_p=whole_question_tail(repeats - right, repeats) if z > TOO_ALIKE_Z else 1.0,
    )


def interval_of_shares(statuses: Statuses, repeats: int, confidence: float) -> Interval:
    """From the low end if every open answer were wrong to the high end if every one were right, by question."""
    correct = np.array([status is Status.CORRECT for status in statuses])
    is_open = np.array([status is None or status is Status.LOST for status in statuses])
    worst, best = (found.reshape(repeats, -1).sum(axis=0).tolist() for found in (correct, correct | is_open))
    low, high = wilson_of_shares(worst, repeats, confidence).low, wilson_of_shares(best, repeats, confidence).high
    return Interval(low=low, high=high, confidence=confidence)


def _right(*runs: bytes, repeats: int) -> Counts:
    """How many repeats of each question were right, one column a run."""
    cells = np.frombuffer(b"".join(runs), dtype=np.uint8).reshape(len(runs), repeats, -1)
    right: Counts = cells.sum(axis=1, dtype=np.int64).T
    return right
