"""Prefix tests: exact characteristics, and the laws that make them valid in any order of completion."""

from __future__ import annotations

from itertools import permutations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.records.verdict import Outcome
from gatekit.stats.paired_sprt import PairedSprt, held_out_chances
from gatekit.stats.sequential import Characteristic
from gatekit.stats.stopping import PrefixTest, PrefixWatch, first_crossing
from gatekit.stats.wor_mixture import WorMixture, wor_counts, wor_mixture_characteristic

N = 1319
HEALTHY, DROPPED = wor_counts(N, 0.9, 0.05)
SMALL = WorMixture(40, 36, 24, 0.1, 0.1)
PAIRED = PairedSprt([10, 9, 10, 2, 0, 10, 5, 10] * 5, 10, 0.2, 0.1, 0.1)
TESTS = st.sampled_from([SMALL, PAIRED])
Answers = list[bool | None]


def at(accuracy: float) -> Characteristic:
    return wor_mixture_characteristic(N, HEALTHY, DROPPED, 0.01, 0.01, round(accuracy * N))


def test_expected_questions_are_those_published() -> None:
    """0.90 against 0.85 at 1 %, 1319 questions: under 305 healthy, 280 dropped, 10 at 0.3, 4 when dead."""
    healthy = wor_mixture_characteristic(N, HEALTHY, DROPPED, 0.01, 0.01, HEALTHY)
    dropped = wor_mixture_characteristic(N, HEALTHY, DROPPED, 0.01, 0.01, DROPPED)
    assert healthy.expected_n == pytest.approx(299, abs=0.5)
    assert dropped.expected_n == pytest.approx(273, abs=0.5)
    assert at(0.3).expected_n == pytest.approx(7.1, abs=0.05)
    assert at(0.0).expected_n == pytest.approx(4.0)
    assert healthy.p_fail <= 0.01
    assert dropped.p_pass <= 0.01


@pytest.mark.parametrize("true", range(7))
def test_the_characteristic_is_the_mean_over_all_orders(true: int) -> None:
    """By enumerating the orders of six fixed answers: the same error rates and mean length."""
    test = WorMixture(6, 5, 2, 0.2, 0.2)
    orders = sorted(set(permutations([True] * true + [False] * (6 - true))))
    ends = [end(test, list(order)) for order in orders]
    found = wor_mixture_characteristic(6, 5, 2, 0.2, 0.2, true)
    assert found.p_fail == pytest.approx(sum(outcome is Outcome.FAIL for outcome, _ in ends) / len(ends))
    assert found.p_pass == pytest.approx(sum(outcome is Outcome.PASS for outcome, _ in ends) / len(ends))
    assert found.expected_n == pytest.approx(sum(length for _, length in ends) / len(ends))


def end(test: PrefixTest, answers: Answers) -> tuple[Outcome | None, int]:
    """The outcome of whole answers in order, and after how many it was known."""
    for t in range(1, len(answers) + 1):
        outcome = first_crossing(test, answers[:t])
        if outcome is not None:
            return outcome, t
    return None, len(answers)


def test_error_rates_hold_for_every_set() -> None:
    """At or above the healthy count at most alpha of the orders fail, at or below the dropped at most beta pass."""
    for true in range(0, 201, 5):
        found = wor_mixture_characteristic(200, 180, 160, 0.05, 0.1, true)
        assert found.p_fail <= 0.05 or true < 180
        assert found.p_pass <= 0.1 or true > 160


def test_collapse_is_looked_for_only_below_the_drop() -> None:
    """A model whose healthy accuracy is low is not failed for being what it was."""
    assert [a.right for a in WorMixture(100, 90, 85, 0.1, 0.1).alternatives] == [85, 60, 20]
    assert [a.right for a in WorMixture(100, 55, 50, 0.1, 0.1).alternatives] == [50, 20]
    assert [a.right for a in WorMixture(100, 15, 10, 0.1, 0.1).alternatives] == [10]
    assert sum(a.weight for a in WorMixture(100, 55, 50, 0.1, 0.1).alternatives) == pytest.approx(1)


def test_what_is_impossible_decides() -> None:
    """More wrong answers than the healthy count leaves room for fail, whatever the mixture says."""
    test = WorMixture(10, 9, 5, 0.001, 0.001)
    assert test.fail_ratio(0, 2) == inf
    assert test.pass_ratio(6, 0) == -inf
    assert test.fail_ratio(0, 0) == pytest.approx(0)


@given(TESTS, st.data())
def test_what_is_declared_is_true_of_some_prefix(test: PrefixTest, data: st.DataObject) -> None:
    """Whatever is unknown: a declared outcome is one that some prefix of the true answers crosses."""
    truth: list[bool] = data.draw(st.lists(st.booleans(), min_size=40, max_size=40))
    known: list[bool] = data.draw(st.lists(st.booleans(), min_size=40, max_size=40))
    answers = [right if seen else None for right, seen in zip(truth, known, strict=True)]
    outcome = first_crossing(test, answers)
    if outcome is not None:
        assert outcome in crossings(test, truth)


def crossings(test: PrefixTest, truth: list[bool]) -> set[Outcome]:
    """Every boundary that any prefix of the true answers crosses."""
    ledger, found = test.ledger(), set()
    for index, right in enumerate(truth):
        ledger.add(index, right=right)
        found |= {Outcome.FAIL} if ledger.fails(index + 1) else set()
        found |= {Outcome.PASS} if ledger.passes(index + 1) else set()
    return found


@given(TESTS, st.data())
def test_a_right_answer_turned_wrong_never_creates_a_pass(test: PrefixTest, data: st.DataObject) -> None:
    """Monotone: PASS with a wrong answer in it was PASS with a right one in its place."""
    answers: Answers = data.draw(st.lists(st.sampled_from([True, True, True, False, None]), min_size=40, max_size=40))
    index = data.draw(st.integers(0, 39))
    worse = [*answers[:index], False, *answers[index + 1 :]]
    better = [*answers[:index], True, *answers[index + 1 :]]
    assert first_crossing(test, worse) is not Outcome.PASS or first_crossing(test, better) is Outcome.PASS
    assert first_crossing(test, better) is not Outcome.FAIL or first_crossing(test, worse) is Outcome.FAIL


@given(TESTS, st.data())
@settings(max_examples=60)
def test_watching_finds_what_the_record_says(test: PrefixTest, data: st.DataObject) -> None:
    """In any order of completion, the outcome of the watch is that of the same answers looked at afterwards."""
    truth: list[bool] = data.draw(st.lists(st.sampled_from([True, True, False]), min_size=40, max_size=40))
    order: list[int] = data.draw(st.permutations(range(40)))
    watch, known = PrefixWatch(test), [None] * 40
    answers: Answers = list(known)
    for index in order:
        answers[index] = truth[index]
        if watch.add(index, right=truth[index]) is not None:
            break
    assert watch.outcome is (first_crossing(test, answers) if watch.outcome else None)
    whole = end(test, list(truth))[0]
    assert watch.outcome is not None or whole is None, "with everything known nothing is overlooked"


def test_a_healthy_run_that_nobody_stopped_does_not_fail_at_its_end() -> None:
    """One answer short of the healthy count is impossible for it in the end; by then the test is long over."""
    right = HEALTHY - 1
    answers = [index * (N - right) // N == (index + 1) * (N - right) // N for index in range(N)]
    assert sum(answers) == right
    watch = PrefixWatch(WorMixture(N, HEALTHY, DROPPED, 0.01, 0.01))
    for index, answer in enumerate(answers):
        watch.add(index, right=answer)
    assert watch.outcome is Outcome.PASS


def test_the_paired_test_needs_builds() -> None:
    """Under 3 builds it never fails, under 10 it never passes."""
    wrong, right = [False] * 100, [True] * 100
    ends = {
        k: [first_crossing(PairedSprt([k] * 90 + [0] * 10, k, 0.1, 0.01, 0.01), a) for a in (wrong, right)]
        for k in (2, 3, 9, 10)
    }
    assert ends == {
        2: [None, None],
        3: [Outcome.FAIL, None],
        9: [Outcome.FAIL, None],
        10: [Outcome.FAIL, Outcome.PASS],
    }


def test_a_question_that_was_always_wrong_says_nothing() -> None:
    """A wrong answer to it moves the ratio far less than one to a question that was always right."""
    test = PairedSprt([10] * 90 + [0] * 10, 10, 0.1, 0.01, 0.01)
    always_right, always_wrong = test.drops[0].wrong[0], test.drops[0].wrong[99]
    assert 0 < always_wrong < 0.01 < always_right


def test_chances_are_as_often_right_as_the_runs_were() -> None:
    """Their mean is that of the history: held-out shares are calibrated."""
    right = [10] * 1100 + [9] * 60 + [5] * 30 + [1] * 9 + [0] * 120
    mean = sum(right) / (10 * len(right))
    assert sum(held_out_chances(right, 10)) / len(right) == pytest.approx(mean, abs=1e-3)


def test_one_flip_after_a_history_without_flips_is_no_regression() -> None:
    """No question is so sure that a single wrong answer decides; a handful in a row does."""
    test = PairedSprt([10] * 1319, 10, 0.05, 0.01, 0.01)
    assert first_crossing(test, [False]) is None
    assert first_crossing(test, [False] * 5) is Outcome.FAIL
    assert min(held_out_chances([0] * 5, 3)) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: WorMixture(10, 5, 5, 0.1, 0.1),
        lambda: wor_counts(10, 0.9, 0.95),
        lambda: held_out_chances([1], 1),
        lambda: held_out_chances([4], 3),
        lambda: PairedSprt([3, 3], 3, 1.0, 0.1, 0.1),
        lambda: wor_mixture_characteristic(10, 9, 5, 0.1, 0.1, 11),
    ],
)
def test_what_cannot_be_tested_is_refused(make: object) -> None:
    """No drop, an impossible history or an impossible truth: ValueError."""
    assert callable(make)
    with pytest.raises(ValueError, match=r"."):
        make()
