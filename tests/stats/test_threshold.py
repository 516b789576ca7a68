"""Integer thresholds from typed numbers, sigmas and budgets."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.stats.threshold import alpha_from_budget, floor_count, sigma_count


@pytest.mark.parametrize(
    ("floor", "tolerance", "n", "k"),
    [
        (0.8, 0.1, 10, 7),
        (0.29, 0.0, 100, 29),
        (0.90, 0.08, 200, 164),
        (0.90, 0.08, 1319, 1082),
        (0.85, 0.0, 200, 170),
        (0.9, 0.0, 1319, 1188),
        (1.0, 0.0, 7, 7),
        (0.05, 0.1, 100, 0),
        (0.07, 0.0, 100, 7),
    ],
)
def test_floors_are_decimals(floor: float, tolerance: float, n: int, k: int) -> None:
    """A typed floor means the decimal: equality passes where floats would add one question."""
    assert floor_count(floor, tolerance, n) == k


@given(st.integers(0, 10_000), st.integers(1, 5000))
def test_a_floor_is_the_first_count_that_reaches_it(basis_points: int, n: int) -> None:
    """The count reaches the floor and one fewer does not, in exact arithmetic."""
    k, floor = floor_count(basis_points / 10_000, 0.0, n), Fraction(basis_points, 10_000)
    assert Fraction(k, n) >= floor > Fraction(k - 1, n)


@pytest.mark.parametrize(
    ("n", "p0", "sigmas", "k"),
    [
        (200, 0.9, 2, 172),
        (200, 0.9, 3, 168),
        (1319, 0.9, 3, 1155),
        (100, 0.9, 1, 87),
        (9, 0.5, 9, 0),
        (7, 1.0, 3, 7),
    ],
)
def test_sigmas_below_the_mean(n: int, p0: float, sigmas: float, k: int) -> None:
    """The published 2- and 3-sigma counts come out, an exact integer stays, and no count is negative."""
    assert sigma_count(n, p0, sigmas) == k


def test_negative_sigmas_are_refused() -> None:
    """A threshold above the mean is not asked for by negative sigmas."""
    with pytest.raises(ValueError, match="sigmas must not be negative"):
        sigma_count(10, 0.9, -1)


def test_a_budget_is_kept() -> None:
    """M gates at the rate per run, N nights: the chance of a night without alarm is (N-1)/N."""
    assert alpha_from_budget(20, 365) == pytest.approx(1.37164889e-4, rel=1e-8)
    assert (1 - alpha_from_budget(3, 10)) ** 3 == pytest.approx(0.9, rel=1e-14)
    assert alpha_from_budget(5, 1) == 1.0
    with pytest.raises(ValueError, match="at least one gate"):
        alpha_from_budget(0, 10)
