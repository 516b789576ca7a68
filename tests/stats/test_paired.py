"""Paired tests against scipy.stats and against each other where theory says they meet."""

from __future__ import annotations

from itertools import product
from math import comb
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.paired import clustered_difference, exact_conditional, fisher_exact_drop, mcnemar, paired_difference

SMALL = st.integers(0, 60)


@given(SMALL, SMALL)
def test_mcnemar_is_the_sign_test(b: int, c: int) -> None:
    """Both p-values are those of a binomial test at one half; without discordant questions both are 1."""
    found = mcnemar(b, c)
    if b + c == 0:
        assert (found.p_drop, found.p_two_sided) == (1.0, 1.0)
        return
    assert found.p_drop == pytest.approx(stats.binomtest(c, b + c, 0.5, "less").pvalue, rel=1e-9)
    assert found.p_two_sided == pytest.approx(stats.binomtest(c, b + c, 0.5).pvalue, rel=1e-9)


@given(SMALL, SMALL)
def test_one_history_run_makes_the_conditional_test_mcnemars(b: int, c: int) -> None:
    """With k = 1 the discordant questions are the one stratum and the p-values agree."""
    assert exact_conditional(1, {1: b + c}, c).p_drop == pytest.approx(mcnemar(b, c).p_drop, rel=1e-9)


def test_the_conditional_p_is_the_share_of_permutations() -> None:
    """By enumeration: three questions right in 1, 2 and 2 of 3 runs, any run may have been the new one."""
    chances = (1 / 3, 2 / 3, 2 / 3)
    p = 0.0
    for fall in product((0, 1), repeat=3):
        weight = 1.0
        for right, chance in zip(fall, chances, strict=True):
            weight *= chance if right else 1 - chance
        p += weight if sum(fall) <= 1 else 0.0
    found = exact_conditional(2, {0: 5, 1: 1, 2: 2, 3: 40}, 1)
    assert found.p_drop == pytest.approx(p, rel=1e-12)
    assert (found.null_mean, found.null_variance) == pytest.approx((5 / 3, 2 / 3), rel=1e-15)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_fisher_is_the_hypergeometric_tail(right: int, wrong: int, new_right: int, new_wrong: int) -> None:
    """The one-sided p is the share of draws with so few right answers, counted one by one, 0 of 0 too."""
    n0, n1, total = right + wrong, new_right + new_wrong, right + new_right
    draws = sum(comb(n1, x) * comb(n0, total - x) for x in range(new_right + 1) if x <= total)
    expected = draws / comb(n0 + n1, total)
    assert fisher_exact_drop(right, n0, new_right, n1) == pytest.approx(expected, rel=1e-10)


@given(SMALL, SMALL, st.integers(2, 100))
def test_the_paired_error_is_that_of_the_contributions(b: int, c: int, same: int) -> None:
    """The standard error is the sample standard deviation of +1, -1 and 0 over the root of n."""
    n = b + c + same
    values = [-1.0] * b + [1.0] * c + [0.0] * same
    found = paired_difference(n, b, c)
    assert found.difference == pytest.approx(sum(values) / n)
    assert found.stderr == pytest.approx(stdev(values) / n**0.5, rel=1e-9, abs=1e-12)


def test_impossible_tables_are_refused() -> None:
    """Counts that no run can have are refused."""
    for call in (
        lambda: paired_difference(1, 0, 0),
        lambda: clustered_difference([[1, 0]]),
        lambda: fisher_exact_drop(3, 2, 0, 1),
        lambda: exact_conditional(0, {}, 0),
        lambda: exact_conditional(1, {3: 1}, 0),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()


@given(st.lists(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=5), min_size=2, max_size=20))
def test_the_error_by_question_is_that_of_whole_questions(gains: list[list[int]]) -> None:
    """Asked once it is the paired one; the same answers given again change nothing, however often."""
    once = clustered_difference([own[:1] for own in gains])
    firsts = [own[0] for own in gains]
    paired = paired_difference(len(firsts), firsts.count(-1), firsts.count(1))
    assert (once.difference, once.stderr) == pytest.approx((paired.difference, paired.stderr), rel=1e-12)
    found, again = clustered_difference(gains), clustered_difference([own * 3 for own in gains])
    assert (again.difference, again.stderr) == pytest.approx((found.difference, found.stderr), rel=1e-12)
