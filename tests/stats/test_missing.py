"""Lost answers, two-sided, and curtailment."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gatekit.records.verdict import Outcome
from gatekit.stats.missing import curtailment_counts, missing_verdict


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 6))
def test_a_verdict_holds_however_missing_answers_fall(k_pass: int, correct: int, missing: int) -> None:
    """PASS and FAIL are given exactly when every completion of the run gives that same one."""
    ends = {correct + sum(fall) >= k_pass for fall in product((0, 1), repeat=missing)}
    expected = Outcome.INFRA if len(ends) == 2 else Outcome.PASS if ends == {True} else Outcome.FAIL
    assert missing_verdict(k_pass, correct, missing) is expected


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 61))
def test_stopping_early_gives_the_verdict_of_the_full_run(answers: list[bool], k: int) -> None:
    """Whichever of the two counts is reached first gives the full run's verdict, and one always is."""
    k_pass = min(k, len(answers))
    stop = curtailment_counts(len(answers), k_pass)
    right = wrong = 0
    verdict = "PASS" if right >= stop.pass_when_correct_reaches else ""
    for answer in answers:
        if verdict:
            break
        right, wrong = right + answer, wrong + (not answer)
        if right >= stop.pass_when_correct_reaches:
            verdict = "PASS"
        elif wrong >= stop.fail_when_wrong_reaches:
            verdict = "FAIL"
    assert verdict == ("PASS" if sum(answers) >= k_pass else "FAIL")
