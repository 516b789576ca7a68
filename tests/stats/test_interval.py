"""Intervals against scipy.stats and published figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.records.verdict import Interval
from gatekit.stats.interval import clopper_pearson, jeffreys, wilson

Method = Callable[[int, int, float], Interval]

COUNTS = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(COUNTS, st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_inverts_the_exact_tests(counts: tuple[int, int], confidence: float) -> None:
    """At each end the count seen is just as surprising as allowed, by scipy.stats' binomial tails."""
    (correct, n), side = counts, (1 - confidence) / 2
    found = clopper_pearson(correct, n, confidence)
    assert correct == 0 or stats.binom.sf(correct - 1, n, found.low) == pytest.approx(side, rel=1e-8)
    assert correct == n or stats.binom.cdf(correct, n, found.high) == pytest.approx(side, rel=1e-8)


@given(COUNTS, st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(counts: tuple[int, int], confidence: float) -> None:
    """Both ends agree with scipy.stats.binomtest to 1e-12."""
    theirs, found = (
        stats.binomtest(*counts).proportion_ci(confidence, method="wilson"),
        wilson(*counts, confidence),
    )
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@given(COUNTS)
def test_jeffreys_is_the_beta_posterior(counts: tuple[int, int]) -> None:
    """Away from the clamps the ends cut 2.5 % off each side of Beta(x + 1/2, n - x + 1/2)."""
    correct, n = counts
    found, posterior = jeffreys(correct, n, 0.95), stats.beta(correct + 0.5, n - correct + 0.5)
    assert correct == 0 or posterior.cdf(found.low) == pytest.approx(0.025, rel=1e-8)
    assert correct == n or posterior.sf(found.high) == pytest.approx(0.025, rel=1e-8)


@pytest.mark.parametrize("interval", [clopper_pearson, wilson, jeffreys])
def test_a_perfect_score_leaves_room_below(interval: Method) -> None:
    """1319 of 1319 is not certainty: the interval ends at 1 and has width; 0 of 1319 starts at exactly 0."""
    perfect, none = interval(1319, 1319, 0.95), interval(0, 1319, 0.95)
    assert perfect.high == 1.0
    assert 0.99 < perfect.low < 1.0
    assert none.low == 0.0
    assert 0.0 < none.high < 0.01


@pytest.mark.parametrize("interval", [clopper_pearson, wilson, jeffreys])
def test_no_questions_say_nothing(interval: Method) -> None:
    """At n = 0 the interval is all of [0, 1], and more right answers than questions are refused."""
    assert (interval(0, 0, 0.95).low, interval(0, 0, 0.95).high) == (0.0, 1.0)
    with pytest.raises(ValueError, match="between 0 and n=2"):
        interval(3, 2, 0.95)
