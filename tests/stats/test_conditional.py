"""The quick form of the exact conditional test, against the plain one and the definition."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, exp, log, pi

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.conditional import (
    conditional_tail,
    critical_p,
    log_conditional_tail,
    log_critical_p,
    widened_log_p,
    widened_p,
)
from gatekit.stats.overdispersion import guarded_p
from gatekit.stats.paired import exact_conditional, mcnemar

WORLDS = st.integers(1, 6).flatmap(
    lambda k: st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=k + 1, max_size=k + 1)
)


def split(world: list[tuple[int, float]]) -> tuple[list[int], list[int]]:
    """Questions per stratum, and how many of them are right."""
    return [number for number, _ in world], [round(number * share) for number, share in world]


@settings(deadline=None)
@given(world=WORLDS)
def test_it_is_the_exact_conditional_test(world: list[tuple[int, float]]) -> None:
    """Strata by earlier right answers give the p-value that strata by all right answers give."""
    questions, right = split(world)
    k = len(questions) - 1
    strata = {t: questions[t] - right[t] + right[t - 1] for t in range(1, k + 1)}
    plain = exact_conditional(k, strata, sum(right[:k])).p_drop
    assert conditional_tail(questions, right) == pytest.approx(plain, rel=1e-9, abs=1e-300)


@settings(deadline=None)
@given(world=WORLDS, below=st.floats(0.0001, 0.49))
def test_the_short_cut_is_only_taken_above_one_half(world: list[tuple[int, float]], below: float) -> None:
    """Where the p-value is not worked out it is at least 1/2."""
    questions, right = split(world)
    exact = conditional_tail(questions, right)
    assert conditional_tail(questions, right, below=below) in (exact, 1.0)
    if conditional_tail(questions, right, below=below) != exact:
        assert exact >= 0.5 - 1e-12


@settings(deadline=None)
@given(world=WORLDS, stratum=st.integers(0, 6))
def test_a_right_answer_turned_wrong_never_raises_p(world: list[tuple[int, float]], stratum: int) -> None:
    """The p-value is monotone in every answer, whatever stratum it falls into."""
    questions, right = split(world)
    place = stratum % len(right)
    if right[place]:
        worse = [*right[:place], right[place] - 1, *right[place + 1 :]]
        assert conditional_tail(questions, worse) <= conditional_tail(questions, right) * (1 + 1e-12)


def test_two_runs_by_enumeration() -> None:
    """k = 2, one question right once and one right twice, both wrong now: P = (2/3)(1/3) by listing all ways."""
    ways = [(a, b) for a, b in product((0, 1), repeat=2) if a + b <= 0]
    chance = sum((1 / 3 if a else 2 / 3) * (2 / 3 if b else 1 / 3) for a, b in ways)
    assert conditional_tail([0, 1, 1], [0, 0, 0]) == pytest.approx(chance, rel=1e-12)


def test_one_run_is_mcnemar() -> None:
    """k = 1: b turned wrong, c turned right."""
    assert conditional_tail([30, 100], [5, 88]) == pytest.approx(mcnemar(12, 5).p_drop, rel=1e-12)


@given(p=st.floats(1e-12, 0.999), psi=st.floats(1, 9), df=st.floats(1, 40), alpha=st.floats(1e-4, 0.45))
def test_the_critical_value_decides_as_the_widened_one(p: float, psi: float, df: float, alpha: float) -> None:
    """p is at most the critical value if and only if the widened p is at most alpha."""
    wide = widened_p(p, psi, df)
    if abs(wide - alpha) > 1e-9 * alpha:
        assert (p <= critical_p(alpha, psi, df)) == (wide <= alpha)


def test_the_widened_p_is_the_guard() -> None:
    """Same numbers as `guarded_p`, and Student's t by another library."""
    guard = guarded_p(0.001, [100, 108, 104], 6.0, 8)
    assert widened_p(0.001, guard.psi, guard.df) == pytest.approx(guard.p, rel=1e-12)
    assert guard.p == pytest.approx(stats.t.cdf(stats.norm.ppf(0.001) / guard.psi**0.5, guard.df), rel=1e-9)


@pytest.mark.parametrize(("questions", "right"), [([3], [1]), ([1, 2], [1]), ([1, 2], [2, 0])])
def test_impossible_strata_are_refused(questions: list[int], right: list[int]) -> None:
    """No earlier run, missing strata, or more right answers than questions."""
    with pytest.raises(ValueError, match="conditional test"):
        conditional_tail(questions, right)


@settings(deadline=None)
@given(world=WORLDS)
def test_the_logarithm_is_that_of_the_p_value(world: list[tuple[int, float]]) -> None:
    """Where a float holds the p-value, its logarithm is the same."""
    questions, right = split(world)
    assert exp(log_conditional_tail(questions, right)) == pytest.approx(conditional_tail(questions, right), rel=1e-9)


@pytest.mark.parametrize(
    ("questions", "right"), [((0, 0, 900), (0, 0, 3)), ((5, 40, 800), (1, 2, 6)), ((0, 2000), (0, 9))]
)
def test_the_logarithm_of_what_no_float_holds(questions: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Far out it is that of the sum of fractions."""
    runs = len(questions)
    pmf = [Fraction(1)]
    seen = sum(right[:-1])
    for t in range(1, runs):
        size, p = questions[t] - right[t] + right[t - 1], Fraction(t, runs)
        ways = [comb(size, j) * p**j * (1 - p) ** (size - j) for j in range(min(size, seen) + 1)]
        both = [(i + j, a * b) for i, a in enumerate(pmf) for j, b in enumerate(ways) if i + j <= seen]
        pmf = [sum((value for place, value in both if place == at), Fraction(0)) for at in range(seen + 1)]
    exact = sum(pmf)
    by_hand = log(exact.numerator) - log(exact.denominator)
    assert log_conditional_tail(questions, right) == pytest.approx(by_hand, rel=1e-12)


def test_a_guard_brings_back_what_no_float_holds() -> None:
    """1e-400 under few degrees of freedom is no 0: the guard's tail is heavy."""
    far = -400 * log(10)
    assert widened_log_p(far, 1.0, 1.0) == pytest.approx(1 / (pi * 42.66), rel=1e-2)
    assert widened_log_p(log(0.01), 2.0, 9.0) == pytest.approx(widened_p(0.01, 2.0, 9.0), rel=1e-12)
    assert log_critical_p(1e-3, 1.0, 1.0) < -5e4
    assert log_critical_p(0.01, 2.0, 9.0) == pytest.approx(log(critical_p(0.01, 2.0, 9.0)), rel=1e-12)
