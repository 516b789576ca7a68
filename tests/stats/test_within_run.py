"""Whether repeats hang together within a run: the statistic and the bound, against enumeration and simulation."""

from __future__ import annotations

from itertools import combinations, product
from math import comb, prod, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.stats.conditional import conditional_tail
from gatekit.stats.within_run import LEAST_QUESTIONS, whole_question_tail, within_run_z

ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=LEAST_QUESTIONS, max_size=60)


def expected_pairs(right: int, runs: int, repeats: int) -> float:
    """E W by enumeration: where the t right ones of a question may stand."""
    cells = [run for run in range(runs) for _ in range(repeats)]
    found = [
        sum(comb(sum(cells[place] == run for place in places), 2) for run in range(runs))
        for places in combinations(range(runs * repeats), right)
    ]
    return sum(found) / len(found)


@given(ROWS)
@settings(max_examples=40)
def test_the_statistic_is_what_it_says(rows: list[tuple[int, ...]]) -> None:
    """z is the sum of W - E over its own root sum of squares, with E by enumeration."""
    excess = [sum(comb(count, 2) for count in row) - expected_pairs(sum(row), 3, 3) for row in rows]
    telling = [value for value in excess if abs(value) > 1e-9]
    found = within_run_z(np.array(rows), 3)
    if len(telling) < LEAST_QUESTIONS:
        assert found is None
    else:
        assert found == pytest.approx(sum(telling) / sqrt(sum(value**2 for value in telling)))


@given(ROWS)
def test_one_run_and_one_repeat_say_nothing(rows: list[tuple[int, ...]]) -> None:
    """Without another run, or without repeats, there is nothing to compare: W is E whatever came."""
    assert within_run_z(np.array(rows)[:, :1], 3) is None
    assert within_run_z(np.minimum(np.array(rows), 1), 1) is None


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_tail_is_that_of_whole_questions(rows: list[tuple[int, ...]]) -> None:
    """The tail is the chance of as few right questions, each answered once with its share of right answers."""
    seen = sum(row[-1] for row in rows)
    expected = alone([sum(row) / 9 for row in rows], seen // 3)
    assert whole_question_tail(np.array(rows), 3) == pytest.approx(expected, abs=1e-12)


PARTLY = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3)).flatmap(
    lambda row: st.integers(0, row[2]).map(lambda right: (row[0], row[1], right, row[2]))
)


@given(st.lists(PARTLY, min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_tail_weighs_questions_by_their_answers(rows: list[tuple[int, int, int, int]]) -> None:
    """Where the last run lacks answers, each question weighs as many as it has."""
    right, last = np.array([row[:3] for row in rows]), np.array([row[3] for row in rows])
    shares = [sum(row[:3]) / (6 + row[3]) for row in rows]
    ways = product((0, 1), repeat=len(rows))
    expected = sum(
        prod(share if is_right else 1 - share for share, is_right in zip(shares, way, strict=True))
        for way in ways
        if sum(weight * is_right for weight, is_right in zip(last, way, strict=True)) <= right[:, -1].sum()
    )
    assert whole_question_tail(right, 3, last) == pytest.approx(expected, abs=1e-12)


@given(st.lists(PARTLY, min_size=24, max_size=40))
@settings(max_examples=40)
def test_the_statistic_of_a_run_that_lacks_answers(rows: list[tuple[int, int, int, int]]) -> None:
    """z takes as many pairs from the last run as it has answers."""
    excess = []
    for *right, last in rows:
        total, answers = sum(right), 6 + last
        pairs = 2 * comb(3, 2) + comb(last, 2)
        excess.append(sum(comb(count, 2) for count in right) - pairs * comb(total, 2) / comb(answers, 2))
    telling = [value for value in excess if abs(value) > 1e-9]
    found = within_run_z(np.array([row[:3] for row in rows]), 3, np.array([row[3] for row in rows]))
    if len(telling) < LEAST_QUESTIONS:
        assert found is None
    else:
        assert found == pytest.approx(sum(telling) / sqrt(sum(value**2 for value in telling)))


@given(st.lists(st.tuples(*[st.booleans()] * 3), min_size=1, max_size=6))
@settings(max_examples=60)
def test_whole_questions_are_answers(rows: list[tuple[bool, ...]]) -> None:
    """Where every run repeats one answer, the tail is the exact conditional test of the questions asked once."""
    whole = np.array(rows, dtype=np.int64)
    questions = np.bincount(whole[:, :-1].sum(axis=1), minlength=3).tolist()
    right = np.bincount(whole[:, :-1].sum(axis=1), weights=whole[:, -1], minlength=3).astype(int).tolist()
    assert whole_question_tail(4 * whole, 4) == pytest.approx(conditional_tail(questions, right))


def alone(shares: list[float], seen: float) -> float:
    """The chance of at most `seen` right questions, each with its share, by enumeration."""
    weights = (
        (sum(ways), prod(share if is_right else 1 - share for share, is_right in zip(shares, ways, strict=True)))
        for ways in product((0, 1), repeat=len(shares))
    )
    return sum(weight for total, weight in weights if total <= seen)


def test_the_tail_is_of_use() -> None:
    """A run that lost a twentieth of its questions outright is far below any alpha, whatever hangs together."""
    before = np.full((1000, 3), 4)
    now = np.where(np.arange(1000) < 50, 0, 4)
    assert whole_question_tail(np.column_stack((before, now)), 4) < 1e-5
