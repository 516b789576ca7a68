"""The exact conditional test of a drop, fast enough to be asked after every answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, sqrt

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from gatekit.stats.binomial import lower_tail
from gatekit.stats.exact import Real, exact_probability
from gatekit.stats.weights import Array, from_ratios


def conditional_tail(questions: Sequence[int], right: Sequence[int], *, below: float = 1.0) -> float:
    """The p-value of a drop: how probable so few right answers are among the questions that ever differ.

    `questions[h]` is the number of questions that were right in h of the k earlier runs, h = 0..k, and
    `right[h]` how many of these are right now. Hypotheses, formula and reference: as
    `paired.exact_conditional`; k = 1 is McNemar's test. With `below` under 1/2 a p-value known to be at least
    1/2 is returned as 1, without being worked out: the median of such a sum lies within one of its mean
    (Jogdeo & Samuels 1968). Valid for k >= 1 and 0 <= right[h] <= questions[h], else ValueError.

    >>> conditional_tail([0, 2], [0, 0])  # k = 1: two turned wrong, none right
    0.25
    """
    k = len(questions) - 1
    if k < 1 or len(right) != k + 1 or not all(0 <= r <= m for r, m in zip(right, questions, strict=True)):
        raise ValueError("the conditional test needs an earlier run, and counts within their strata")
    # t right answers in all k + 1 runs: t before and wrong now, or t - 1 before and right now.
    sizes = [questions[t] - right[t] + right[t - 1] for t in range(1, k + 1)]
    seen = sum(right[:k])
    if below < 0.5 and seen * (k + 1) >= sum(t * m for t, m in enumerate(sizes, 1)) + k:
        return 1.0
    if k == 1:
        return lower_tail(seen + 1, sizes[0], 0.5)
    return _sum_tail(sizes, k + 1, seen)


def critical_p(alpha: Real, psi: float, df: float) -> float:
    """The plain p-value at which one widened by the over-dispersion guard is alpha.

    Hypotheses, reference: as `overdispersion.guarded_p`. Formula: Phi(sqrt(psi) T_df^-1(alpha)).
    Valid for 0 < alpha < 1, psi >= 1, df > 0; never above alpha for alpha < 1/2.

    >>> critical_p(0.5, 2.0, 3.0)
    0.5
    """
    level = float(exact_probability(alpha, "alpha"))
    return float(ndtr(sqrt(psi) * (stdtrit(df, level) if df < inf else ndtri(level))))


def widened_p(p: Real, psi: float, df: float) -> float:
    """The p-value widened by the over-dispersion guard: the inverse of `critical_p`.

    Hypotheses, reference: as `overdispersion.guarded_p`. Formula: T_df(Phi^-1(p) / sqrt(psi)). Valid for
    0 <= p <= 1, psi >= 1, df > 0.

    >>> widened_p(0.5, 2.0, 3.0)
    0.5
    """
    score = float(ndtri(float(exact_probability(p, "p")))) / sqrt(psi)
    return float(stdtr(df, score) if df < inf else ndtr(score))


def _sum_tail(sizes: Sequence[int], runs: int, seen: int) -> float:
    """P(sum over t of Bin(sizes[t-1], t/runs) <= seen); all terms are positive, so nothing cancels."""
    pmf = np.ones(1)
    for size, t in sorted((size, t) for t, size in enumerate(sizes, 1) if size):
        pmf = np.convolve(pmf, _binomial_pmf(size, t, runs))
    return float(min(1.0, pmf[: seen + 1].sum())) if seen < len(pmf) - 1 else 1.0


@lru_cache(maxsize=1024)
def _binomial_pmf(n: int, t: int, runs: int) -> Array:
    """Bin(n, t/runs); kept, because one answer more changes few strata."""
    y = np.arange(n, dtype=np.float64)
    pmf = from_ratios((n - y) / (y + 1) * (t / (runs - t)))
    pmf.setflags(write=False)
    return pmf
