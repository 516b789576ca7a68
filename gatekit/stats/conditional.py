"""The exact conditional test of a drop, fast enough to be asked after every answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, log, log1p, sqrt

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri, ndtri_exp, stdtr, stdtrit

from gatekit.stats.binomial import lower_tail
from gatekit.stats.exact import Real, exact_probability
from gatekit.stats.weights import Array, from_ratios

UNDERFLOW = 1e-280
"""Where a float begins to lose a p-value: under it only the logarithm is one."""
_STEPS = 200  # halve any interval of floats to its last bit


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
    sizes, seen = _table(questions, right)
    if below < 0.5 and seen * (k + 1) >= sum(t * m for t, m in enumerate(sizes, 1)) + k:
        return 1.0
    if k == 1:
        return lower_tail(seen + 1, sizes[0], 0.5)
    return strata_tail(sizes, k + 1, seen)


def log_conditional_tail(questions: Sequence[int], right: Sequence[int]) -> float:
    """The natural logarithm of `conditional_tail`, also where that is too small for a float.

    Hypotheses, reference, validity: as `conditional_tail`. Formula, far out: each Bin(m_t, t/(k+1)) is tilted by
    e^theta until the seen sum is its mean; P(sum = j) = P_theta(sum = j) exp(K(theta) - theta j), K(theta) = sum m_t
    ln(1 - p_t + p_t e^theta), and all terms are positive (Esscher 1932).

    >>> round(log_conditional_tail([0, 4000], [0, 0]) / log(2), 9)  # (1/2)^4000
    -4000.0
    """
    plain = conditional_tail(questions, right)
    if plain >= UNDERFLOW:
        return log(plain)
    sizes, seen = _table(questions, right)
    runs = len(questions)
    return _tilted_log([(size, t / runs) for t, size in enumerate(sizes, 1) if size], seen)


def critical_p(alpha: Real, psi: float, df: float) -> float:
    """The plain p-value at which one widened by the over-dispersion guard is alpha.

    Hypotheses, reference: as `overdispersion.guarded_p`. Formula: Phi(sqrt(psi) T_df^-1(alpha)).
    Valid for 0 < alpha < 1, psi >= 1, df > 0; never above alpha for alpha < 1/2.

    >>> critical_p(0.5, 2.0, 3.0)
    0.5
    """
    level = float(exact_probability(alpha, "alpha"))
    return float(ndtr(sqrt(psi) * (stdtrit(df, level) if df < inf else ndtri(level))))


def log_critical_p(alpha: Real, psi: float, df: float) -> float:
    """The natural logarithm of `critical_p`, also where that is too small for a float; as there.

    >>> log_critical_p(0.5, 2.0, 3.0) == log(0.5)
    True
    """
    level = float(exact_probability(alpha, "alpha"))
    return float(log_ndtr(sqrt(psi) * (stdtrit(df, level) if df < inf else ndtri(level))))


def widened_p(p: Real, psi: float, df: float) -> float:
    """The p-value widened by the over-dispersion guard: the inverse of `critical_p`.

    Hypotheses, reference: as `overdispersion.guarded_p`. Formula: T_df(Phi^-1(p) / sqrt(psi)). Valid for
    0 <= p <= 1, psi >= 1, df > 0.

    >>> widened_p(0.5, 2.0, 3.0)
    0.5
    """
    score = float(ndtri(float(exact_probability(p, "p")))) / sqrt(psi)
    return float(stdtr(df, score) if df < inf else ndtr(score))


def widened_log_p(log_p: float, psi: float, df: float) -> float:
    """As `widened_p` of a p-value whose natural logarithm this is; the result is no logarithm.

    >>> widened_log_p(log(0.5), 2.0, 3.0)
    0.5
    """
    score = float(ndtri_exp(log_p)) / sqrt(psi)
    return float(stdtr(df, score) if df < inf else ndtr(score))


def _table(questions: Sequence[int], right: Sequence[int]) -> tuple[list[int], int]:
    """How many questions have t = 1..k right answers in all k + 1 runs, and how many of them are right now."""
    k = len(questions) - 1
    if k < 1 or len(right) != k + 1 or not all(0 <= r <= m for r, m in zip(right, questions, strict=True)):
        raise ValueError("the conditional test needs an earlier run, and counts within their strata")
    # t before and wrong now, or t - 1 before and right now.
    return [questions[t] - right[t] + right[t - 1] for t in range(1, k + 1)], sum(right[:k])


def _tilted_log(terms: Sequence[tuple[int, float]], seen: int) -> float:
    """ln P(sum of Bin(size, p) <= seen), seen below the mean."""
    if seen == 0:
        return sum(size * log1p(-p) for size, p in terms)
    low, high = -1000.0, 0.0
    for _ in range(_STEPS):
        theta = (low + high) / 2
        is_above = sum(size * _tilted(p, theta) for size, p in terms) > seen
        low, high = (low, theta) if is_above else (theta, high)
    theta = low
    pmf, cumulant = np.ones(1), 0.0
    for size, p in sorted(terms):
        y, tilted = np.arange(size, dtype=np.float64), _tilted(p, theta)
        pmf = np.convolve(pmf, from_ratios((size - y) / (y + 1) * (tilted / (1 - tilted))))
        cumulant += size * log1p(p * float(np.expm1(theta)))
    terms_below = pmf[: seen + 1] * np.exp(theta * np.arange(seen, -1, -1))
    return cumulant - theta * seen + log(float(terms_below.sum()))


def _tilted(p: float, theta: float) -> float:
    """p e^theta / (1 - p + p e^theta)."""
    return float(expit(log(p / (1 - p)) + theta))


def strata_tail(sizes: Sequence[int], runs: int, seen: int) -> float:
    """P(sum over t of Bin(sizes[t-1], t/runs) <= seen), t from 1 to runs - 1; 0 for seen < 0.

    All terms are positive, so nothing cancels. Reference: Hodges & Le Cam 1960.

    >>> strata_tail([1, 1], 3, 0)  # neither of one right in a third and one right in two thirds of the runs
    0.2222222222222222
    """
    if seen < 0:
        return 0.0
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
