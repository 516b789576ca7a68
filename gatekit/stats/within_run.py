"""Whether repeated answers to a question hang together inside of a run, and what is certain if they do.

Data: of each question, in each of several runs, how many of its R repeats were right.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from gatekit.stats.conditional import strata_tail

Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]
LEAST_QUESTIONS = 16
"""Of fewer questions that tell anything the statistic is no normal one."""


def within_run_z(right: Counts, repeats: int) -> float | None:
    """How much more often two repeats of a question are right together in one run than in any two, in standard units.

    `right` has one row per question and one column per run. Hypothesis: given its question, all M = runs x R answers
    are exchangeable. Formula: W counts the pairs of right answers within one run; given the t right ones of a question
    E W = runs C(R, 2) t (t - 1) / (M (M - 1)); z = sum (W - E) / sqrt(sum (W - E)^2) over questions, which bounds
    itself and needs no variance (de la Pena, Lai & Shao 2009). About standard normal from 16 questions with W != E on,
    and None below that, as with one run or one repeat, where W = E always.

    >>> apart = np.array([[2, 0]] * 32)  # two runs, R = 2: every question all right in one run, all wrong in the other
    >>> round(within_run_z(apart, 2), 3), within_run_z(np.array([[2, 0]] * 15), 2), within_run_z(apart[:, :1], 2)
    (5.657, None, None)
    """
    runs = right.shape[1]
    answers, total = runs * repeats, right.sum(axis=1)
    pairs = (right * (right - 1)).sum(axis=1)
    # In whole numbers, so that a difference of none is one of none.
    excess = pairs * (answers * (answers - 1)) - runs * repeats * (repeats - 1) * total * (total - 1)
    if np.count_nonzero(excess) < LEAST_QUESTIONS:
        return None
    shares = excess / np.abs(excess).max()
    return float(shares.sum()) / sqrt(float(np.square(shares).sum()))


def whole_question_tail(right: Counts, repeats: int) -> float:
    """How probable so few right answers in the last run are if its repeats of a question are all one answer.

    Hypothesis: each question has one chance in all runs, questions are independent, and of a question the last run
    has all R answers right or none: of all ways to hang together the one whose total scatters most (Hoeffding 1963).
    Formula: P(R sum B_i <= x), B_i Bernoulli with the share of right answers of question i over all runs, this one
    included; exact where every run repeats one answer (the conditional test of whole questions), conservative where
    only the last one does, as its answers are in the shares.

    >>> whole_question_tail(np.array([[4, 4, 4, 0]]), 4), whole_question_tail(np.array([[0, 4]]), 4)  # not fewer
    (0.25, 1.0)
    """
    answers = right.shape[1] * repeats
    times = np.bincount(right.sum(axis=1), minlength=answers + 1).tolist()
    always = times[-1]  # right in every run, and so in this one
    return strata_tail(times[1:-1], answers, int(right[:, -1].sum()) // repeats - always)
