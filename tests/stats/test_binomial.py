"""Binomial tails and the counts that split them, against sums of exact fractions and scipy.stats."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.binomial import accept_count, lower_tail, lower_tail_at_most, reject_count, upper_tail

DECIMALS = st.integers(0, 100).map(lambda number: number / 100)


def exact_lower(k: int, n: int, percent: int) -> Fraction:
    """P(X < k) at p = percent / 100, by summing the definition."""
    p = Fraction(percent, 100)
    terms = (comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(max(0, min(k, n + 1))))
    return sum(terms, Fraction(0))


@given(st.integers(-2, 42), st.integers(0, 40), st.integers(0, 100))
def test_tails_equal_the_sum_of_their_terms(k: int, n: int, percent: int) -> None:
    """Both tails equal the sum of exact binomial terms, at and beyond every edge, to 1e-12 relative."""
    below = exact_lower(k, n, percent)
    assert lower_tail(k, n, percent / 100) == pytest.approx(float(below), rel=1e-12, abs=0)
    assert upper_tail(k, n, percent / 100) == pytest.approx(float(1 - below), rel=1e-12, abs=0)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 100), st.integers(0, 1000))
def test_reject_count_is_the_largest_count_within_alpha(n: int, percent: int, thousandths: int) -> None:
    """reject_count is the largest k with P(X < k) <= alpha in exact arithmetic, over all k."""
    alpha = Fraction(thousandths, 1000)
    fitting = [k for k in range(n + 2) if exact_lower(k, n, percent) <= alpha]
    assert reject_count(n, percent / 100, thousandths / 1000) == max(fitting)


@settings(deadline=None)
@given(st.integers(0, 40), st.integers(0, 100), st.integers(0, 1000))
def test_accept_count_is_the_smallest_count_within_beta(n: int, percent: int, thousandths: int) -> None:
    """accept_count is the smallest k with P(X >= k) <= beta in exact arithmetic, n + 1 when there is none."""
    beta = Fraction(thousandths, 1000)
    fitting = [k for k in range(n + 2) if 1 - exact_lower(k, n, percent) <= beta]
    assert accept_count(n, percent / 100, thousandths / 1000) == min(fitting)


@pytest.mark.parametrize(("n", "p0", "alpha"), [(1319, 0.91, 1.37e-4), (1319, 0.999, 1e-3), (20_000, 0.5, 1e-9)])
def test_reject_count_agrees_with_scipy_at_real_sizes(n: int, p0: float, alpha: float) -> None:
    """At the sizes of real gates the count brackets alpha by scipy.stats' distribution function."""
    k = reject_count(n, p0, alpha)
    assert stats.binom.cdf(k - 1, n, p0) <= alpha < stats.binom.cdf(k, n, p0)
    assert lower_tail(k, n, p0) == pytest.approx(stats.binom.cdf(k - 1, n, p0), rel=1e-9)


def test_a_tie_in_decimals_is_at_most() -> None:
    """P(X < 1) at n = 1, p = 0.9 is exactly 0.1: a tie counts as within alpha, whatever floats make of it."""
    assert 1 - 0.9 < 0.1, "the float trap this test is about"
    assert lower_tail_at_most(1, 1, 0.9, 0.1)
    assert lower_tail(1, 3, 0.6) > 0.064, "0.4 cubed, above itself in floats"
    assert reject_count(3, 0.6, 0.064) == 1
    assert reject_count(1, 0.9, 0.1) == 1
    assert reject_count(1, 0.7, 0.3) == 1
    assert accept_count(1, 0.3, 0.3) == 1
    assert reject_count(999, 0.5, 0.5) == 500


def test_a_certain_accuracy_still_gives_a_count() -> None:
    """At p0 = 1 one wrong answer rejects, at p0 = 0 nothing can, also at alpha = 0."""
    assert [reject_count(5, p0, alpha) for p0 in (1, 0) for alpha in (0, 0.5)] == [5, 5, 0, 0]


def test_alpha_zero_is_not_reached_by_underflow() -> None:
    """A tail too small for a float is still not zero, so alpha = 0 rejects nothing at n = 1319."""
    assert lower_tail(1, 1319, 0.9) == 0.0
    assert reject_count(1319, 0.9, 0) == 0


def test_impossible_inputs_are_refused() -> None:
    """A negative n or a probability of 90 is refused by name."""
    with pytest.raises(ValueError, match="n must not be negative"):
        lower_tail(0, -1, 0.5)
    with pytest.raises(ValueError, match="p0 must be between 0 and 1, not 90"):
        reject_count(10, 90, 0.1)


@given(st.integers(1, 400), DECIMALS, DECIMALS)
def test_more_alpha_never_lowers_the_threshold(n: int, p0: float, alpha: float) -> None:
    """A larger false-alarm rate allows a threshold at least as high."""
    assert reject_count(n, p0, alpha / 2) <= reject_count(n, p0, alpha)
