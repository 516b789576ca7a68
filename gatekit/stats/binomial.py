"""Binomial tails, and the integer counts that split them.

Hypotheses everywhere in this file: X ~ Bin(n, p), that is n independent questions, each right with the same
probability p. With a fixed question set the p_i differ; then P(X < k) is an upper bound of the true lower
tail for k <= n p (Hoeffding 1956), so a count threshold stays valid and is conservative.
"""

from __future__ import annotations

from fractions import Fraction

from scipy.special import betainc, betaincc

from gatekit.stats.exact import Real, exact_probability

_TIE = 1e-10  # betainc is good to about 1e-13 relative: closer than this to a bound, fractions decide
_EXACT_MAX_N = 20_000  # beyond it the exact sum takes seconds; a tie that far out has no practical weight


def lower_tail(k: int, n: int, p: Real) -> float:
    """P(X < k).

    Formula: the regularised incomplete beta function I_{1-p}(n-k+1, k); 0 for k <= 0 and 1 for k > n.
    Valid for 0 <= p <= 1 and any n >= 0; relative accuracy about 1e-13, also far out in the tail.
    Reference: DLMF 8.17.5. Raises ValueError for p outside [0, 1] or n < 0.

    >>> lower_tail(1, 2, 0.5)  # no right answer in two
    0.25
    """
    value = exact_probability(p, "p")
    return _lower(k, _size(n), float(value), float(1 - value))


def upper_tail(k: int, n: int, p: Real) -> float:
    """P(X >= k).

    Formula: I_p(k, n-k+1), as the lower tail of the n-X wrong answers, so that a small upper tail is as
    accurate as a small lower one. Validity and errors: as `lower_tail`. Reference: DLMF 8.17.5.

    >>> upper_tail(2, 2, 0.5)  # both right
    0.25
    """
    value = exact_probability(p, "p")
    return _lower(n - k + 1, _size(n), float(1 - value), float(value))


def lower_tail_at_most(k: int, n: int, p: Real, bound: Real) -> bool:
    """Whether P(X < k) <= bound, decided exactly: a tie counts as "at most".

    Floats decide unless both sides agree to 1e-10; then the tail is summed in integers (for n <= 20000).

    >>> lower_tail_at_most(1, 1, 0.9, 0.1)  # P(X < 1) is exactly one tenth
    True
    """
    value, limit = exact_probability(p, "p"), exact_probability(bound, "bound")
    return _at_most(k, _size(n), value, float(value), float(1 - value), limit)


def reject_count(n: int, p0: Real, alpha: Real) -> int:
    """The largest k with P(X < k) <= alpha at p = p0: fewer than k right is a drop at level alpha.

    Hypothesis: p0 is the healthy accuracy, known. The smallest such k would trivially be 0; the largest gives
    the level-alpha test its power. Range 0 (this test never fails) to n (n+1 only at alpha = 1).
    Validity: 0 <= p0, alpha <= 1. Cost: O(log n) tails. Reference: Neyman-Pearson for a one-parameter family.

    >>> reject_count(200, 0.9, 0.01)
    170
    >>> reject_count(2, 0.5, 0.25)  # P(X < 1) = 1/4, P(X < 2) = 3/4
    1
    """
    value, limit = exact_probability(p0, "p0"), exact_probability(alpha, "alpha")
    p, q = float(value), float(1 - value)
    low, high = 0, _size(n) + 2  # holds at low, not at high
    while high - low > 1:
        middle = (low + high) // 2
        if _at_most(middle, n, value, p, q, limit):
            low = middle
        else:
            high = middle
    return low


def accept_count(n: int, p1: Real, beta: Real) -> int:
    """The smallest k with P(X >= k) <= beta at p = p1: k right exclude an accuracy of p1 at level beta.

    Formula: n + 1 - reject_count(n, 1 - p1, beta), by counting wrong answers. n + 1 means that even a perfect
    score is not enough. Validity and cost: as `reject_count`. Reference: Neyman-Pearson.

    >>> accept_count(2, 0.5, 0.25)  # P(X >= 2) = 1/4
    2
    >>> accept_count(2, 0.5, 0.2)
    3
    """
    return n + 1 - reject_count(n, 1 - exact_probability(p1, "p1"), beta)


def _size(n: int) -> int:
    if n < 0:
        raise ValueError(f"n must not be negative, not {n}")
    return n


def _lower(k: int, n: int, p: float, q: float) -> float:
    """P(X < k) from p and q = 1 - p, each rounded from the exact value on its own."""
    if k <= 0:
        return 0.0
    if k > n or p == 0.0:
        return 1.0
    if q == 0.0:
        return 0.0
    return float(betainc(n - k + 1, k, q) if q < 0.5 else betaincc(k, n - k + 1, p))


def _at_most(k: int, n: int, value: Fraction, p: float, q: float, limit: Fraction) -> bool:
    if limit == 0:  # a tail below the smallest float is still not zero
        return k <= 0 or (value == 1 and k <= n)
    tail, bound = _lower(k, n, p, q), float(limit)
    if abs(tail - bound) > _TIE * bound or n > _EXACT_MAX_N:
        return tail <= bound
    return _exact_lower(k, n, value) <= limit


def _exact_lower(k: int, n: int, value: Fraction) -> Fraction:
    """P(X < k) as a fraction: integer terms C(n,i) a^i (b-a)^(n-i) over b^n, from the shorter end."""
    right, wrong = value.numerator, value.denominator - value.numerator
    if k <= 0 or k > n or right == 0 or wrong == 0:
        return Fraction(int(_lower(k, n, float(value), float(1 - value))))
    if k > n - k + 1:
        return 1 - _exact_lower(n - k + 1, n, 1 - value)
    term = total = wrong**n
    for i in range(1, k):
        term = term * (n - i + 1) * right // (i * wrong)
        total += term
    return Fraction(total, value.denominator**n)
