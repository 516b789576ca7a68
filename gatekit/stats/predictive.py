"""A threshold from one baseline on other questions: the beta-binomial predictive distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gatekit.stats.exact import Real, exact_probability
from gatekit.stats.weights import Array, from_ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveCount:
    """The threshold with the predictive probabilities of falling below it and below the next count."""

    k_pass: int
    size: float
    size_next: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaBinomial:
    """The count of `n` new questions, of which p are right, p ~ Beta(`a`, `b`)."""

    n: int
    a: float
    b: float


def predictive_pmf(n: int, a: float, b: float) -> Array:
    """P(Y = 0), ..., P(Y = n) for Y ~ BetaBinomial(n, a, b).

    Hypothesis: p ~ Beta(a, b), and given p the n answers are independent. Formula: neighbours have the
    ratio (n-y)(a+y) / ((y+1)(b+n-y-1)). Reference: Skellam 1948. Valid for a, b >= 0, not both 0 (a = 0
    puts all on 0, b = 0 all on n), else ValueError.

    >>> predictive_pmf(2, 1, 1)  # a uniform p makes all counts equally likely
    array([0.33333333, 0.33333333, 0.33333333])
    """
    if a < 0 or b < 0 or a + b == 0:
        raise ValueError(f"Beta({a}, {b}) is no distribution")
    if a == 0 or b == 0:
        certain = np.zeros(n + 1)
        certain[0 if a == 0 else n] = 1.0
        return certain
    y = np.arange(n, dtype=np.float64)
    return from_ratios((n - y) * (a + y) / ((y + 1) * (b + n - y - 1)))


def predictive_count(
    baseline_correct: int,
    baseline_n: int,
    n: int,
    alpha: Real,
    prior_a: float = 0.5,
    prior_b: float = 0.5,
) -> PredictiveCount:
    """The largest k with P(Y < k) <= alpha, Y the count of n new questions predicted from one baseline.

    Hypotheses: baseline and new run are independent samples of one accuracy; the prior is Beta(a, b),
    Jeffreys' by default. Unlike a binomial at the observed accuracy it allows for the error of the
    baseline, whose neglect multiplies false alarms by 15. Formula: Y ~ BetaBinomial(n, a + s0, b + n0 -
    s0). Reference: Thatcher 1964. Valid for 0 <= s0 <= n0, else ValueError; conservative on a fixed
    question set.

    >>> predictive_count(0, 0, 1, 0.5, 1, 1)  # P(Y = 0) = 1/2: a tie is "at most"
    PredictiveCount(k_pass=1, size=0.5, size_next=1.0)
    """
    below = _below(predicted_counts(baseline_correct, baseline_n, n, prior_a, prior_b))
    k = _reject(below, alpha)
    return PredictiveCount(k_pass=k, size=float(below[k]), size_next=float(below[min(k + 1, n + 1)]))


def predicted_counts(
    baseline_correct: float, baseline_n: int, n: int, prior_a: float = 0.5, prior_b: float = 0.5
) -> BetaBinomial:
    """The count of n new questions as one baseline predicts it. Hypotheses, reference, errors: as `predictive_count`.

    >>> predicted_counts(180, 200, 100)
    BetaBinomial(n=100, a=180.5, b=20.5)
    """
    if not 0 <= baseline_correct <= baseline_n:
        raise ValueError(f"the baseline {baseline_correct} of {baseline_n} is no measurement")
    return BetaBinomial(n=n, a=prior_a + baseline_correct, b=prior_b + baseline_n - baseline_correct)


def predictive_tail(counts: BetaBinomial, correct: int) -> float:
    """P(Y <= correct): the p-value of a drop. Hypotheses, formula, reference: as `predictive_pmf`.

    >>> [predictive_tail(BetaBinomial(n=1, a=1, b=1), count) for count in (-1, 0, 1)]
    [0.0, 0.5, 1.0]
    """
    return float(_kept(counts)[min(max(correct, -1), counts.n) + 1])


def predictive_reject(counts: BetaBinomial, alpha: Real) -> int:
    """The largest k with P(Y < k) <= alpha: fewer right answers are a drop at level alpha; a tie is "at most".

    >>> predictive_reject(BetaBinomial(n=1, a=1, b=1), 0.5)
    1
    """
    return _reject(_kept(counts), alpha)


def _reject(below: Array, alpha: Real) -> int:
    limit = float(exact_probability(alpha, "alpha"))
    return int(np.searchsorted(below, limit, side="right")) - 1


@lru_cache(maxsize=8)
def _kept(counts: BetaBinomial) -> Array:
    """As `_below`; kept, because a chart asks for one of each of its runs."""
    return _below(counts)


def _below(counts: BetaBinomial) -> Array:
    """P(Y < 0), ..., P(Y < n + 1)."""
    pmf = predictive_pmf(counts.n, counts.a, counts.b)
    below = np.minimum(1.0, np.concatenate(([0.0], np.cumsum(pmf))))
    below[-1] = 1.0
    below.setflags(write=False)
    return below
