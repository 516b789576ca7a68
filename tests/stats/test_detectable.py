"""What the rungs are said to notice, against tables computed and simulated elsewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.stats.binomial import lower_tail_at_most, reject_count
from gatekit.stats.detectable import (
    BaselineTest,
    CountTest,
    Shape,
    World,
    conditional_test,
    flip_prediction_test,
    guarded_test,
    known_mean,
    moderated_t_test,
    safe_size,
    smallest_drop,
)
from gatekit.stats.ladder import MOST_QUESTIONS, Design, Rung, ladder
from gatekit.stats.overdispersion import guarded_p, likely_psi
from gatekit.stats.power import noticed_drop, sample_size

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
    ("exact_conditional", 2, (0.010, 0.23, 0.78, 1.0)),
    ("exact_conditional", 3, (0.024, 0.39, 0.89, 1.0)),
    ("exact_conditional", 10, (0.12, 0.75, 0.99, 1.0)),
    ("exact_conditional", 30, (0.21, 0.86, 1.0, 1.0)),
    ("unguarded_conditional", 3, (0.16, 0.77, 0.99, 1.0)),
    ("unguarded_conditional", 10, (0.24, 0.88, 1.0, 1.0)),
]


def test_of(method: str, world: World) -> CountTest:
    """The approximation of a rung at alpha .001."""
    if method == "moderated_t":
        return moderated_t_test(world, 0.001, 4)
    if method == "flip_prediction":
        return flip_prediction_test(world, 0.001)
    return guarded_test(world, 0.001) if method == "exact_conditional" else conditional_test(world, 0.001)


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
    method=st.sampled_from(["moderated_t", "flip_prediction", "exact_conditional", "unguarded_conditional"]),
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


def rungs_of(n: int = 1319, alpha: float = 0.001, delta: str = "0.02", **more: float) -> dict[str, Rung]:
    """The ladder by method, at accuracy 0.9."""
    design = Design(n=n, accuracy=Fraction(9, 10), alpha=alpha, delta=Fraction(delta), **more)  # type: ignore[arg-type]
    return {rung.method: rung for rung in ladder(design)}


def test_the_highest_rung_is_the_guarded_rule() -> None:
    """exact_conditional has the guard that a run has; without it, or with nu_psi pooled for ever, 90 to 95 %."""
    rungs = rungs_of()
    assert rungs["exact_conditional"].power.low == pytest.approx(0.773, abs=5e-3)
    assert rungs["exact_conditional"].power.high == pytest.approx(0.823, abs=5e-3)
    assert rungs["exact_conditional"].questions is not None
    assert rungs["exact_conditional"].questions.low > 1400
    endless, unguarded = rungs_of(nu_psi=1e6)["exact_conditional"], rungs["unguarded_conditional"]
    assert endless.power.low == pytest.approx(unguarded.power.low, abs=1e-3)
    assert endless.power.high == pytest.approx(unguarded.power.high, abs=1e-3)


def test_one_run_has_no_guard() -> None:
    """With one earlier run exact_conditional is exact_mcnemar, and no unguarded row repeats it."""
    rungs = rungs_of(runs=1)
    assert rungs["exact_conditional"].power == rungs["exact_mcnemar"].power
    assert "unguarded_conditional" not in rungs


@pytest.mark.parametrize(("k", "nu_psi"), [(2, 8.0), (3, 2.5), (10, 30.0)])
def test_likely_psi_is_that_of_the_guard(k: int, nu_psi: float) -> None:
    """The factor is the one that guarded_p takes from totals with that scatter, and never below 1."""
    found = likely_psi(k, nu_psi, 9)
    totals = [100] * (k - 1) + [103]
    scatter = 9 * (k - 1) / k
    assert found.min() == 1.0
    assert list(found) == sorted(found)
    with pytest.raises(ValueError, match="two runs"):
        likely_psi(1, nu_psi)
    widest = float(found[-1]) * (nu_psi + k - 1) - nu_psi  # the chi-square value behind it
    assert guarded_p(0.5, totals, scatter / widest, nu_psi).psi == pytest.approx(float(found[-1]), rel=1e-9)


@pytest.mark.parametrize(
    ("p0", "drop", "alpha", "beta"),
    [
        ("0.9", "0.02", 0.001, 0.1),
        ("0.9", "0.05", 0.01, 0.1),
        ("0.5", "0.1", 0.01, 0.2),
        ("0.99", "0.03", 0.001, 0.1),
        ("0.7", "0.3", 0.05, 0.3),
        ("0.1", "0.08", 0.01, 0.1),
    ],
)
def test_from_the_safe_size_on_no_size_misses(p0: str, drop: str, alpha: float, beta: float) -> None:
    """Every size from the safe one on meets beta, and the one before it does not, by asking each of them."""
    healthy, dropped = Fraction(p0), Fraction(p0) - Fraction(drop)
    first = sample_size(healthy, dropped, alpha, beta)
    assert first is not None
    safe = safe_size(healthy, dropped, alpha, beta, first.n, MOST_QUESTIONS)
    assert safe is not None

    def meets(n: int) -> bool:
        wrong = n - reject_count(n, healthy, alpha) + 1
        return lower_tail_at_most(wrong, n, 1 - dropped, beta)

    assert all(meets(n) for n in range(safe, safe + 400))
    assert safe == first.n or not meets(safe - 1)
    assert safe_size(healthy, dropped, alpha, beta, first.n, safe - 1) is None


def test_questions_are_the_safe_number() -> None:
    """exact_binomial needs 4709 questions for 2 points, though 4623 happen to do."""
    rung = rungs_of()["exact_binomial"]
    assert rung.questions is not None
    assert (rung.first_questions, rung.questions.low, rung.questions.high) == (4623, 4709, 4709)


def test_questions_of_one_baseline_are_searched_as_far_as_is_said() -> None:
    """A drop of 1 point takes the beta-binomial rule about 36000 questions, not over 100000."""
    rung = rungs_of(delta="0.01")["beta_binomial_predictive"]
    assert rung.questions is not None
    assert rung.questions.low == pytest.approx(36_050, rel=2e-3)


@pytest.mark.parametrize(("n", "delta", "alpha"), [(1, "0.89", 0.001), (1319, "0.03", 1e-300), (40, "0.3", 0.001)])
def test_questions_reach_the_power_that_they_are_said_to_have(n: int, delta: str, alpha: float) -> None:
    """At the number of questions of a row the row has that power: no threshold of 0 is taken for a rule."""
    for method, rung in rungs_of(n, alpha, delta).items():
        if rung.questions is None:
            continue
        there = rungs_of(int(rung.questions.high), alpha, delta)[method]
        assert there.k_reject > 0
        assert there.power.low >= 0.9 - (2e-3 if method == "beta_binomial_predictive" else 1e-9)


@pytest.mark.parametrize("nu0", [1.0, 3.0, 4.0])
def test_an_alpha_beyond_floats_is_no_threshold(nu0: float) -> None:
    """Where no t quantile of so small an alpha is a number, a rule never fails, and nothing breaks."""
    rung = rungs_of(alpha=1e-300, nu0=nu0, runs=1)["moderated_t"]
    assert (rung.k_reject, rung.realised_alpha, rung.questions) == (0, 0.0, None)
