"""Two-sided intervals for an accuracy seen as `correct` of `n`.

Hypothesis: n independent questions with one probability p. On a fixed question set the run-to-run spread is
smaller, and the interval is about the capability the questions sample, not about the next run. Questions that are
asked several times are a sample of their shares (`wilson_of_shares`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from scipy.special import betainccinv, betaincinv, ndtri

from gatekit.records.verdict import Interval
from gatekit.stats.exact import Real, exact_probability


def clopper_pearson(correct: int, n: int, confidence: Real) -> Interval:
    """The exact interval: coverage is never below the confidence.

    Formula: beta quantiles B(a/2; x, n-x+1) and B(1-a/2; x+1, n-x), a = 1 - confidence; 0 at x = 0 and 1 at
    x = n. Reference: Clopper & Pearson 1934. Valid for every n; [0, 1] at n = 0. Raises ValueError for
    correct > n.

    >>> clopper_pearson(0, 1, 0.9).high  # P(X = 0) = 1 - p = 5 %
    0.95
    """
    side = _side(correct, n, confidence)
    low = 0.0 if correct == 0 else float(betaincinv(correct, n - correct + 1, side))
    high = 1.0 if correct == n else float(betainccinv(correct + 1, n - correct, side))
    return Interval(low=low, high=high, confidence=float(confidence))


def wilson(correct: int, n: int, confidence: Real) -> Interval:
    """The score interval without continuity correction: mean coverage close to the confidence.

    Formula: the p with |x/n - p| <= z sqrt(p(1-p)/n). Reference: Wilson 1927; Brown, Cai & DasGupta 2001.
    Valid for every n >= 1 (coverage dips near 0 and 1); [0, 1] at n = 0. Raises ValueError for correct > n.

    >>> found = wilson(0, 4, 0.9544997361036416)  # z = 2: high = z^2 / (n + z^2)
    >>> found.low, round(found.high, 12)
    (0.0, 0.5)
    """
    z = -float(ndtri(_side(correct, n, confidence)))
    low = _wilson_low(correct, n, z)
    return Interval(low=low, high=1.0 - _wilson_low(n - correct, n, z), confidence=float(confidence))


def wilson_of_shares(right: Sequence[int], repeats: int, confidence: Real) -> Interval:
    """The score interval of m questions asked R times each, `right[i]` of them right: the questions are the sample.

    Hypothesis: questions drawn independently, each with a chance of its own. Formula: Wilson's interval of the mean
    share at the effective size of `effective_answers`, which counts answers for what their spread is worth.
    Reference: Korn & Graubard 1998, with Wilson's interval in place of Clopper and Pearson's (Franco et al. 2019).
    Valid as `effective_answers`. Raises ValueError for R < 1, no question, or a count beyond R.

    >>> every = wilson_of_shares([4, 0], 4, 0.95)  # repeats that tell nothing: as two questions, one of them right
    >>> every == wilson(1, 2, 0.95)
    True
    """
    if repeats < 1 or not right or not all(0 <= count <= repeats for count in right):
        raise ValueError(f"not shares of questions asked {repeats} times each")
    total, planned = sum(right), len(right) * repeats
    z = -float(ndtri(_side(total, planned, confidence)))
    size = effective_answers(right, repeats)
    low = _wilson_low(size * total / planned, size, z)
    high = 1.0 - _wilson_low(size * (planned - total) / planned, size, z)
    return Interval(low=low, high=high, confidence=float(confidence))


def effective_answers(right: Sequence[int], repeats: int) -> float:
    """How many independent answers the mean share of m questions, asked R times each, is as sure as.

    Formula: p (1 - p) / (s^2 / m), s^2 the sample variance of the shares; never under m, which repeats cannot make
    less sure, and never over m R. m where it cannot be told: a single question, or all right, or all wrong.
    Reference: the design effect, Kish 1965. Rough under about 30 questions, where s^2 is itself unsure.

    >>> effective_answers([4, 0, 4, 0], 4), effective_answers([2, 2, 2, 2], 4), effective_answers([4, 4], 4)
    (4.0, 16.0, 2.0)
    """
    m, total = len(right), sum(right)
    if m == 1 or total in (0, m * repeats):
        return float(m)
    share = total / (m * repeats)
    squares = sum(count * count for count in right) - total * total / m  # times R^2
    variance = squares / (m - 1) / m / repeats**2
    return float(m * repeats) if variance <= 0 else min(max(share * (1 - share) / variance, float(m)), m * repeats)


def jeffreys(correct: int, n: int, confidence: Real) -> Interval:
    """The equal-tailed posterior interval under the prior Beta(1/2, 1/2), clamped at x = 0 and x = n.

    Formula: beta quantiles of Beta(x + 1/2, n - x + 1/2); 0 at x = 0 and 1 at x = n.
    Reference: Brown, Cai & DasGupta 2001.
    Valid for every n >= 1; [0, 1] at n = 0. Raises ValueError for correct > n.

    >>> middle = jeffreys(5, 10, 0.95)
    >>> round(middle.low + middle.high, 12)  # symmetric about one half
    1.0
    """
    side = _side(correct, n, confidence)
    low = 0.0 if correct == 0 else float(betaincinv(correct + 0.5, n - correct + 0.5, side))
    high = 1.0 if correct == n else float(betainccinv(correct + 0.5, n - correct + 0.5, side))
    return Interval(low=low, high=high, confidence=float(confidence))


def _side(correct: int, n: int, confidence: Real) -> float:
    """The probability outside the interval on each side."""
    if not 0 <= correct <= n:
        raise ValueError(f"correct must be between 0 and n={n}, not {correct}")
    return float((1 - exact_probability(confidence, "confidence")) / 2)


def _wilson_low(correct: float, n: float, z: float) -> float:
    """The lower root of the score equation, written without the cancellation near 0."""
    if correct == 0:
        return 0.0
    root = z * sqrt(z * z / 4 + correct * (n - correct) / n)
    return correct * correct / n / (correct + z * z / 2 + root)
