"""What a count threshold can notice, and how many questions it takes to notice it.

Hypothesis everywhere: X ~ Bin(n, p). On a fixed question set the spread is smaller and the true power at a
drop beyond the threshold higher.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

from scipy.special import betainccinv, rel_entr

from gatekit.stats.binomial import lower_tail, lower_tail_at_most, reject_count, upper_tail
from gatekit.stats.exact import Real, exact, exact_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """The first n that meets both error rates, its threshold, and the error rates it really has."""

    n: int
    k_pass: int
    size: float
    miss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaldBounds:
    """Lower bounds on the expected number of questions, when healthy and when dropped."""

    healthy: float
    dropped: float


def power(n: int, p0: Real, alpha: Real, p_true: Real) -> float:
    """P(X < reject_count(n, p0, alpha)) at p = p_true: how often the level-alpha test fails a model.

    Formula: as `lower_tail`. Reference: Neyman-Pearson. Valid for all probabilities in [0, 1].

    >>> round(power(2, 0.5, 0.25, 0.1), 12)  # fails iff both are wrong: 0.9 squared
    0.81
    """
    return lower_tail(reject_count(n, p0, alpha), n, p_true)


def noticed_drop(n: int, k_reject: int, p0: Real, power: Real = 0.9) -> float | None:
    """The smallest drop d with P(X < k_reject | p0 - d) >= power; None when no drop reaches it.

    Formula: p0 - p with I_{1-p}(n-k+1, k) = power, in closed form by the inverse incomplete beta function;
    0 when p0 itself fails that often. Reference: Clopper & Pearson 1934 (it is a one-sided confidence bound).
    Valid for 0 < power < 1; None for k_reject <= 0.

    >>> round(noticed_drop(1, 1, 0.9, 0.5), 12)  # fails iff the one answer is wrong: p = 0.5
    0.4
    >>> noticed_drop(1, 0, 0.9) is None
    True
    """
    if k_reject <= 0:
        return None
    if k_reject > n:
        return 0.0
    reached = float(betainccinv(k_reject, n - k_reject + 1, float(exact_probability(power, "power"))))
    return max(0.0, float(exact_probability(p0, "p0")) - reached)


def wald_bounds(p0: Real, p1: Real, alpha: Real, beta: Real) -> WaldBounds:
    """No test of p0 against p1 with error rates alpha and beta asks fewer questions on average.

    Formula: E0[N] >= [(1-a) ln((1-a)/b) + a ln(a/(1-b))] / KL(p0 || p1), and alike under p1.
    Reference: Wald 1945. Valid for p0 != p1 and 0 < alpha, beta < 1, else ValueError.

    >>> round(wald_bounds(0.9, 0.85, 0.01, 0.01).healthy, 1)
    413.3
    """
    a, b = float(exact(alpha)), float(exact(beta))
    if not (0 < a < 1 and 0 < b < 1) or exact(p0) == exact(p1):
        raise ValueError("Wald's bounds need alpha and beta inside (0, 1) and two different accuracies")
    healthy = (1 - a) * log((1 - a) / b) + a * log(a / (1 - b))
    dropped = (1 - b) * log((1 - b) / a) + b * log(b / (1 - a))
    return WaldBounds(healthy=healthy / _divergence(p0, p1), dropped=dropped / _divergence(p1, p0))


def sample_size(p0: Real, p1: Real, alpha: Real, beta: Real, n_max: int = 100_000) -> SampleSize | None:
    """The first n at which the level-alpha test of p0 misses an accuracy of p1 with probability <= beta.

    The miss rate is a sawtooth in n: a larger n may fail again. The search starts at Wald's bound, below
    which no test exists, and moves k with n, since reject_count(n+1) is reject_count(n) or one more.
    None when no n <= n_max does it. Reference: Chernick & Liu 2002. Valid for p1 < p0, 0 < alpha, beta < 1.

    >>> sample_size(1.0, 0.5, 0.01, 0.25)  # a healthy model is never wrong: two questions, 0.5 squared
    SampleSize(n=2, k_pass=2, size=0.0, miss=0.25)
    """
    if exact(p1) >= exact(p0):
        raise ValueError(f"the dropped accuracy {p1} must be below the healthy one {p0}")
    bounds = wald_bounds(p0, p1, alpha, beta)
    start = max(1, ceil(max(bounds.healthy, bounds.dropped)) - 1)
    if start > n_max:
        return None
    k, dropped = reject_count(start, p0, alpha), 1 - exact_probability(p1, "p1")
    for n in range(start, n_max + 1):
        if lower_tail_at_most(k + 1, n, p0, alpha):
            k += 1
        if lower_tail_at_most(n - k + 1, n, dropped, beta):
            return SampleSize(n=n, k_pass=k, size=lower_tail(k, n, p0), miss=upper_tail(k, n, p1))
    return None


def _divergence(p: Real, q: Real) -> float:
    """KL(p || q) of one question, in nats; infinite where q excludes what p allows."""
    x, y = exact(p), exact(q)
    return float(rel_entr(float(x), float(y)) + rel_entr(float(1 - x), float(1 - y)))
