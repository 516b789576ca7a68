"""Whether repeated answers to a question hang together inside of a run, and what is certain if they do.

Data: of each question, in each of several runs, how many of its R repeats were right; and of the last run, where it was
cut short or answers of it were lost, how many of them brought an answer, which must not hang on whether it is right.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from gatekit.stats.conditional import strata_tail

Counts = np.ndarray[tuple[int, int], np.dtype[np.int64]]
Answered = np.ndarray[tuple[int], np.dtype[np.int64]]
LEAST_QUESTIONS = 16
"""Of fewer questions that tell anything the statistic is no normal one."""


def within_run_z(right: Counts, repeats: int, last: Answered | None = None) -> float | None:
    """How much more often two repeats of a question are right together in one run than in any two, in standard units.

    `right` has one row per question and one column per run; `last` is how many answers the last run has to each
    question, R where it is None. Hypothesis: given its question, all M answers (runs x R where none is missing) are
    exchangeable. Formula: W counts the pairs of right answers within one run; given the t right ones of a question
    E W = t (t - 1) / (M (M - 1)) sum over runs of C(answers of the run, 2); z = sum (W - E) / sqrt(sum (W - E)^2) over
    questions, which bounds itself and needs no variance (de la Pena, Lai & Shao 2009). About standard normal from 16
    questions with W != E on, and None below that, as with one run or one repeat, where W = E always.

    >>> apart = np.array([[2, 0]] * 32)  # two runs, R = 2: every question all right in one run, all wrong in the other
    >>> round(within_run_z(apart, 2), 3), within_run_z(np.array([[2, 0]] * 15), 2), within_run_z(apart[:, :1], 2)
    (5.657, None, None)
    """
    last = _all(right, repeats) if last is None else last
    before = right.shape[1] - 1
    answers, total = before * repeats + last, right.sum(axis=1)
    pairs = (right * (right - 1)).sum(axis=1)
    # In whole numbers, so that a difference of none is one of none.
    ways = answers * (answers - 1)
    excess = pairs * ways - (before * repeats * (repeats - 1) + last * (last - 1)) * total * (total - 1)
    if np.count_nonzero(excess) < LEAST_QUESTIONS:
        return None
    shares = excess / np.maximum(ways, 1)
    shares /= np.abs(shares).max()
    return float(shares.sum()) / sqrt(float(np.square(shares).sum()))


def whole_question_tail(right: Counts, repeats: int, last: Answered | None = None) -> float:
    """How probable so few right answers in the last run are if its repeats of a question are all one answer.

    Hypothesis: each question has one chance in all runs, questions are independent, and of a question the last run
    has all its answers right or none: of all ways to hang together the one whose total scatters most (Hoeffding 1963).
    Formula: P(sum R_i B_i <= x), R_i the answers of the last run to question i (`last`, as in `within_run_z`), B_i
    Bernoulli with the share of right answers of question i over all runs, this one included; exact where every run
    repeats one answer (the conditional test of whole questions), conservative where only the last one does, as its
    answers are in the shares.

    >>> whole_question_tail(np.array([[4, 4, 4, 0]]), 4), whole_question_tail(np.array([[0, 4]]), 4)  # not fewer
    (0.25, 1.0)
    >>> round(whole_question_tail(np.array([[4, 0], [4, 2]]), 4, np.array([2, 2])), 3)  # right together 2 of 4
    0.333
    """
    last = _all(right, repeats) if last is None else last
    answers = (right.shape[1] - 1) * repeats + last
    total, seen = right.sum(axis=1), int(right[:, -1].sum())
    is_open = (total > 0) & (total < answers)
    always = int(last[total == answers].sum())  # right in every run, and so in this one
    if bool((last == repeats).all()):
        times = np.bincount(total, minlength=right.shape[1] * repeats + 1).tolist()
        return strata_tail(times[1:-1], right.shape[1] * repeats, (seen - always) // repeats)
    return _tail(total[is_open] / answers[is_open], last[is_open], seen - always)


def _tail(shares: np.ndarray[tuple[int], np.dtype[np.float64]], weights: Answered, seen: int) -> float:
    """P(sum weight_i B_i <= seen), B_i Bernoulli with these shares, by the convolution of all of them."""
    if seen < 0:
        return 0.0
    mass = np.zeros(seen + 1)
    mass[0] = 1.0
    for share, weight in zip(shares.tolist(), weights.tolist(), strict=True):
        more = share * mass[: max(seen + 1 - weight, 0)]
        mass *= 1.0 - share
        mass[weight : weight + len(more)] += more
    return min(float(mass.sum()), 1.0)


def _all(right: Counts, repeats: int) -> Answered:
    return np.full(len(right), repeats, dtype=np.int64)
