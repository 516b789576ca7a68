"""What the rungs are said to notice, against tables computed and simulated elsewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.stats.binomial import reject_count
from gatekit.stats.detectable import (
    BaselineTest,
    CountTest,
    Shape,
    World,
    conditional_test,
    flip_prediction_test,
    known_mean,
    moderated_t_test,
    smallest_drop,
)
from gatekit.stats.ladder import Design, ladder
from gatekit.stats.power import noticed_drop

# Smallest drop in points at 90 % power, p = .9: binomial, phi = .35, .20, .13.
SMALLEST_DROPS = [
    (0.01, 200, 8.8, (4.8, 3.6, 2.9)),
    (0.01, 1319, 3.2, (1.9, 1.4, 1.1)),
    (0.001, 200, 10.9, (5.8, 4.4, 3.5)),
    (0.001, 1319, 3.9, (2.2, 1.7, 1.4)),
    (0.000137, 200, 12.5, (6.5, 4.9, 4.0)),
    (0.000137, 1319, 4.4, (2.5, 1.9, 1.5)),
]

# Simulated P(FAIL) at nominal .001 after drops of 1, 2, 3 and 5 points: p = .9, n = 1319, phi = .213.
SIMULATED = [
    ("moderated_t", 3, (0.019, 0.36, 0.84, 1.0)),
    ("moderated_t", 10, (0.15, 0.78, 0.99, 1.0)),
    ("flip_prediction", 2, (0.18, 0.79, 0.99, 1.0)),
    ("flip_prediction", 10, (0.28, 0.91, 1.0, 1.0)),
    ("exact_conditional", 1, (0.058, 0.44, 0.87, 1.0)),
    ("exact_conditional", 3, (0.16, 0.77, 0.99, 1.0)),
    ("exact_conditional", 10, (0.24, 0.88, 1.0, 1.0)),
]


def test_of(method: str, world: World) -> CountTest:
    """The approximation of a rung at alpha .001."""
    if method == "moderated_t":
        return moderated_t_test(world, 0.001, 4)
    return flip_prediction_test(world, 0.001) if method == "flip_prediction" else conditional_test(world, 0.001)


test_of.__test__ = False  # type: ignore[attr-defined]  # a maker of tests, not one


@pytest.mark.parametrize(("alpha", "n", "binomial", "by_phi"), SMALLEST_DROPS)
def test_the_table_of_smallest_drops(alpha: float, n: int, binomial: float, by_phi: tuple[float, ...]) -> None:
    """The published smallest drops come out: binomial to 0.1 point, with flips as before to 0.1."""
    exact = noticed_drop(n, reject_count(n, 0.9, alpha), 0.9)
    assert exact is not None
    assert 100 * exact == pytest.approx(binomial, abs=0.1)
    for phi, expected in zip((0.35, 0.20, 0.13), by_phi, strict=True):
        test = known_mean(World(n=n, accuracy=0.9, phi=phi, runs=None), alpha)
        drop = smallest_drop(lambda lost, limit=test: limit.fails(lost, Shape.WHOLE), 0.9, 0.9)  # type: ignore[misc]
        assert drop is not None
        assert 100 * drop == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("method", "runs", "expected"), SIMULATED)
def test_powers_agree_with_simulation(method: str, runs: int, expected: tuple[float, ...]) -> None:
    """The approximations are within 5 points of the simulated power of the rules themselves."""
    test = test_of(method, World(n=1319, accuracy=0.9, phi=0.213, runs=runs))
    for drop, simulated in zip((0.01, 0.02, 0.03, 0.05), expected, strict=True):
        assert test.fails(drop, Shape.EVEN) == pytest.approx(simulated, abs=0.05)


@pytest.mark.parametrize(
    ("n", "drop", "expected"),
    [(1319, 0.0, 0.001), (1319, 0.02, 0.070), (1319, 0.03, 0.24), (1319, 0.05, 0.78), (200, 0.05, 0.051)],
)
def test_one_baseline_of_other_questions(n: int, drop: float, expected: float) -> None:
    """The beta-binomial rule's rates are the simulated ones for fresh questions."""
    test = BaselineTest(n=n, baseline_n=n, accuracy=0.9, alpha=0.001)
    assert test.fails(drop) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("drop", "expected"), [(0.005, 0.006), (0.01, 0.026), (0.02, 0.22), (0.03, 0.62), (0.05, 0.99)]
)
def test_exact_binomial_powers(drop: float, expected: float) -> None:
    """exact_binomial at 1319 questions and alpha .001 is 1152, with the published powers."""
    design = Design(n=1319, accuracy=Fraction(9, 10), alpha=0.001, delta=Fraction(str(drop)))
    rung = ladder(design)[0]
    assert (rung.method, rung.k_reject) == ("exact_binomial", 1152)
    assert rung.realised_alpha == pytest.approx(8e-4, rel=0.03)
    assert rung.power.low == rung.power.high == pytest.approx(expected, rel=0.06, abs=6e-4)


@given(
    n=st.integers(min_value=50, max_value=3000),
    accuracy=st.floats(min_value=0.3, max_value=0.97),
    phi=st.floats(min_value=0.05, max_value=1.0),
    runs=st.integers(min_value=2, max_value=30),
    method=st.sampled_from(["moderated_t", "flip_prediction", "exact_conditional"]),
    shape=st.sampled_from(list(Shape)),
)
@settings(max_examples=80, deadline=None)
def test_more_is_noticed_with_more(n: int, accuracy: float, phi: float, runs: int, method: str, shape: Shape) -> None:
    """A longer history never lowers the count, false alarms stay within alpha, a found drop has its power."""
    world = World(n=n, accuracy=accuracy, phi=phi, runs=runs)
    longer = World(n=n, accuracy=accuracy, phi=phi, runs=runs + 1)
    test = test_of(method, world)
    if method != "flip_prediction":  # whose bound on the degrees of freedom goes by even and odd
        assert test_of(method, longer).k_reject >= test.k_reject
    assert test.fails(0.0, shape) <= 0.001 * (1 + 1e-9)
    drop = smallest_drop(lambda lost: test.fails(lost, shape), accuracy, 0.9)
    if drop is not None:
        assert test.fails(drop, shape) >= 0.9
