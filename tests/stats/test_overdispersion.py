"""The guard against runs that move as a whole."""

from __future__ import annotations

from statistics import variance

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.overdispersion import guarded_p

TOTALS = [1187, 1175, 1194, 1181]


def test_the_guard_by_its_formula() -> None:
    """Factor, freedom, p-value and the test of dispersion are those of the formula with scipy.stats."""
    found = guarded_p(0.001, TOTALS, 25.0, 8)
    ratio = variance(TOTALS) / 25
    psi = (8 + 3 * ratio) / 11
    assert psi > 1
    assert found.psi == pytest.approx(psi, rel=1e-12)
    assert found.df == 11
    assert found.p == pytest.approx(stats.t.cdf(stats.norm.ppf(0.001) / psi**0.5, 11), rel=1e-10)
    assert found.dispersion_p == pytest.approx(stats.chi2.sf(3 * ratio, 3), rel=1e-10)


def test_totals_that_scatter_less_than_flips_are_no_reward() -> None:
    """Identical totals leave psi at 1; only the unknown spread still widens the p-value."""
    found = guarded_p(0.001, [1187] * 5, 25.0, 8)
    assert (found.psi, found.dispersion_p) == (1.0, 1.0)
    assert found.p == pytest.approx(stats.t.cdf(stats.norm.ppf(0.001), 12), rel=1e-10)


def test_a_pooled_prior_moves_the_factor() -> None:
    """A matrix whose series scatter twice as much as flips explain widens a series that does not show it."""
    assert guarded_p(0.001, [1187, 1187], 25.0, 99, 2.0).psi == pytest.approx(1.98)


def test_a_history_without_flips_has_no_dispersion_test() -> None:
    """Without a single flip the test of dispersion is None, not a p-value of 1 or 0."""
    found = guarded_p(0.5, [1187, 1187], 0.0)
    assert (found.psi, found.p, found.dispersion_p) == (1.0, 0.5, None)


@pytest.mark.parametrize(("p", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_certain_p_values_stay_certain(p: float, expected: float) -> None:
    """A p-value of 0 or 1 is neither NaN nor moved."""
    assert guarded_p(p, TOTALS, 25.0).p == expected


@given(st.floats(0, 0.5), st.lists(st.integers(1100, 1319), min_size=2, max_size=8), st.floats(0.5, 100))
def test_the_guard_never_makes_a_drop_more_significant(p: float, totals: list[int], flips: float) -> None:
    """Below one half the guarded p-value is at least the unguarded one, up to rounding."""
    assert guarded_p(p, totals, flips).p >= p * (1 - 1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(0, 99), min_size=2, max_size=8))
def test_the_guard_keeps_the_order_of_p_values(one: float, other: float, totals: list[int]) -> None:
    """A smaller p-value is never guarded into a larger one."""
    low, high = sorted((one, other))
    assert guarded_p(low, totals, 3.0).p <= guarded_p(high, totals, 3.0).p


@pytest.mark.parametrize(
    ("totals", "flips", "nu"), [([1187], 25.0, 8.0), ([1, 2], 0.0, 8.0), ([1, 2], -1.0, 8.0), ([1, 2], 1.0, 0.0)]
)
def test_histories_that_make_no_sense_are_refused(totals: list[int], flips: float, nu: float) -> None:
    """One run, totals that move without flips, a negative variance and a prior without freedom are refused."""
    with pytest.raises(ValueError, match=r"at least two runs|positive flip variance"):
        guarded_p(0.01, totals, flips, nu)
