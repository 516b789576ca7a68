"""The interval of questions that are asked several times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.stats.interval import effective_answers, wilson, wilson_of_shares

SHARES = st.integers(1, 6).flatmap(
    lambda r: st.tuples(st.just(r), st.lists(st.integers(0, r), min_size=1, max_size=60))
)


@given(SHARES)
def test_the_effective_size_is_between_questions_and_answers(case: tuple[int, list[int]]) -> None:
    """Repeats never make less of the questions, and never more than as many fresh ones."""
    repeats, right = case
    assert len(right) <= effective_answers(right, repeats) <= len(right) * repeats


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 8))
def test_repeats_that_all_say_the_same_are_one_answer(right: list[bool], repeats: int) -> None:
    """Questions that are always or never right give Wilson's interval of the questions."""
    found = wilson_of_shares([repeats * is_right for is_right in right], repeats, 0.95)
    plain = wilson(sum(right), len(right), 0.95)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.02 if len(right) > 1 else 1e-12)
    assert found.high - found.low <= plain.high - plain.low + 1e-12


@given(SHARES)
def test_the_share_is_inside(case: tuple[int, list[int]]) -> None:
    """The mean of the shares lies in its own interval, within [0, 1]."""
    repeats, right = case
    found = wilson_of_shares(right, repeats, 0.95)
    assert 0 <= found.low <= sum(right) / len(right) / repeats + 1e-12
    assert sum(right) / len(right) / repeats <= found.high + 1e-12 <= 1 + 1e-9


@pytest.mark.parametrize("right", [[], [5], [-1]])
def test_what_are_no_shares(right: list[int]) -> None:
    """No question at all, and counts that no question can have, are refused."""
    with pytest.raises(ValueError, match="shares"):
        wilson_of_shares(right, 4, 0.95)


@pytest.mark.parametrize("repeats", [2, 4, 16])
@pytest.mark.parametrize(("a", "b"), [(1.8, 0.2), (9.0, 1.0), (0.9, 0.1), (5.0, 5.0)])
def test_coverage(a: float, b: float, repeats: int) -> None:
    """Of 4,000 samples of 200 questions with chances from a Beta law, 93.5 to 97 % cover its mean.

    Counting every answer for one of its own would cover it in 68 to 92 % with four repeats of the first law.
    """
    rng = np.random.default_rng(repeats)
    right = rng.binomial(repeats, rng.beta(a, b, (4000, 200)))
    inside = 0
    for sample in right.tolist():
        found = wilson_of_shares(sample, repeats, 0.95)
        inside += found.low <= a / (a + b) <= found.high
    assert 0.935 <= inside / 4000 <= 0.97
