"""Power, drops noticed, and sample sizes, against scipy.stats and exhaustive search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.power import noticed_drop, power, sample_size, wald_bounds


def test_power_of_the_published_gate() -> None:
    """The 170-of-200 gate fails a model at 0.85 in 45 % of runs and a healthy one in 0.95 %."""
    assert power(200, 0.9, 0.01, 0.85) == pytest.approx(stats.binom.cdf(169, 200, 0.85), rel=1e-10)
    assert power(200, 0.9, 0.01, 0.9) == pytest.approx(0.00951, abs=1e-5)


@given(st.integers(1, 1500), st.integers(1, 1500), st.sampled_from([0.5, 0.8, 0.9, 0.99]))
def test_the_noticed_drop_is_where_power_is_reached(n: int, k: int, wanted: float) -> None:
    """At the drop found the rule fails with just the wanted probability, unless healthy models do already."""
    k = min(k, n)
    drop = noticed_drop(n, k, 0.9, wanted)
    assert drop is not None
    reached = stats.binom.cdf(k - 1, n, 0.9 - drop)
    assert reached == pytest.approx(wanted, rel=1e-7) if drop > 0 else reached >= wanted - 1e-9


def test_drops_that_have_no_answer() -> None:
    """A rule that never fails notices nothing; one that always fails notices a drop of 0."""
    assert noticed_drop(10, 0, 0.9) is None
    assert noticed_drop(10, 11, 0.9) == 0.0


@pytest.mark.parametrize(("p0", "p1", "alpha", "beta"), [(0.9, 0.8, 0.05, 0.2), (0.95, 0.9, 0.05, 0.1)])
def test_the_sample_size_is_the_first_that_works(p0: float, p1: float, alpha: float, beta: float) -> None:
    """No smaller n has a count with both error rates, by trying every one with scipy.stats."""
    found = sample_size(p0, p1, alpha, beta)
    assert found is not None
    for n in range(1, found.n + 1):
        k = int(stats.binom.ppf(alpha, n, p0))
        k += int(stats.binom.cdf(k, n, p0) <= alpha)
        works = stats.binom.sf(k - 1, n, p1) <= beta
        assert works == (n == found.n)
    assert found.size == pytest.approx(stats.binom.cdf(found.k_pass - 1, found.n, p0), rel=1e-9)
    assert found.miss == pytest.approx(stats.binom.sf(found.k_pass - 1, found.n, p1), rel=1e-9)


def test_the_search_has_an_end() -> None:
    """A tiny drop that needs more questions than the limit gives None at once, not an endless search."""
    assert sample_size(0.9, 0.899999, 0.001, 0.001) is None
    with pytest.raises(ValueError, match="must be below the healthy one"):
        sample_size(0.8, 0.9, 0.01, 0.01)


def test_walds_bounds_are_the_published_ones() -> None:
    """0.90 against 0.85 at 1 % each takes at least 413.3 and 368.1 questions on average."""
    found = wald_bounds(0.9, 0.85, 0.01, 0.01)
    assert (found.healthy, found.dropped) == pytest.approx((413.2885440, 368.0568311), rel=1e-9)
    assert wald_bounds(1.0, 0.5, 0.1, 0.1).dropped == 0.0, "one wrong answer decides"
    with pytest.raises(ValueError, match="two different accuracies"):
        wald_bounds(0.9, 0.9, 0.01, 0.01)
