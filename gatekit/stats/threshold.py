"""Integer thresholds from a typed number, from sigmas, and from a false-alarm budget."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, expm1, floor, log1p, sqrt

from gatekit.stats.exact import Real, exact, exact_probability


def floor_count(floor_accuracy: Real, tolerance: Real, n: int) -> int:
    """The smallest k with k / n >= floor_accuracy - tolerance, at least 0.

    Formula: ceil((floor - tolerance) n) in exact decimal arithmetic; no hypothesis, no error rate of its own.
    Reference: the definition. Valid for all decimals; equality passes.

    >>> floor_count(0.8, 0.1, 10), floor_count(0.29, 0.0, 100), floor_count(0.90, 0.08, 200)
    (7, 29, 164)
    """
    return max(0, ceil((exact(floor_accuracy) - exact(tolerance)) * n))


def sigma_count(n: int, p0: Real, sigmas: Real) -> int:
    """The smallest k with k >= n p0 - sigmas sqrt(n p0 (1 - p0)), at least 0.

    Hypothesis: X ~ Bin(n, p0). "s sigmas" is not an error rate: at p0 = 0.9, n = 200 the exact rate at 2
    sigmas is 2.7 %, not the normal 2.3 %. Compared as squares of fractions, so a threshold that falls on an
    integer is that integer. Reference: the definition. Validity: sigmas >= 0, else ValueError.

    >>> sigma_count(100, 0.9, 1)  # 90 - 3
    87
    >>> sigma_count(200, 0.9, 3)
    168
    """
    p, s = exact_probability(p0, "p0"), exact(sigmas)
    if s < 0:
        raise ValueError(f"sigmas must not be negative, not {sigmas}")
    mean, variance = n * p, n * p * (1 - p)
    guess = max(0, floor(float(mean) - float(s) * sqrt(float(variance))) - 1)
    return next(k for k in range(guess, n + 1) if _is_within(k, mean, variance, s))


def _is_within(k: int, mean: Fraction, variance: Fraction, sigmas: Fraction) -> bool:
    gap = mean - k
    return gap <= 0 or gap * gap <= sigmas * sigmas * variance


def alpha_from_budget(gates: int, nights: int) -> float:
    """The false-alarm rate per run at which `gates` gates give one false alarm in `nights` nights.

    Hypothesis: the gates are independent (Sidak); under dependence there are fewer alarms.
    Formula: alpha = 1 - (1 - 1/N)^(1/M). Reference: Sidak 1967. Validity: gates, nights >= 1, else
    ValueError.

    >>> alpha_from_budget(1, 100)
    0.01
    >>> round(alpha_from_budget(2, 4), 12)  # (1 - a)^2 = 3/4
    0.133974596216
    """
    if gates < 1 or nights < 1:
        raise ValueError(f"a budget needs at least one gate and one night, not {gates} and {nights}")
    return 1.0 if nights == 1 else -expm1(log1p(-1 / nights) / gates)
