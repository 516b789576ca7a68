"""The verdict of a run: its order, its words, and the laws it obeys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.decide import decide as judge
from gatekit.records.answers import Status
from gatekit.records.past import Past
from gatekit.records.spec import Api, EngineKind, Gate, MeasuredUnder, Method, Observed, Spec
from gatekit.records.verdict import Outcome, Verdict

Maker = Callable[..., Spec]
PASS, FAIL, INFRA, INCONCLUSIVE = Outcome.PASS, Outcome.FAIL, Outcome.INFRA, Outcome.INCONCLUSIVE
EXACT = {
    "method": Method.EXACT_BINOMIAL,
    "floor": None,
    "observed": Observed(correct=180, n=200),
    "alpha": 0.01,
}


NO_PAST = Past()


def decide(spec: Spec, statuses: list[Status | None]) -> Verdict:
    """The verdict without any history."""
    return judge(spec, statuses, NO_PAST)


def counts(n: int, correct: int, *, truncated: int = 0, lost: int = 0, no_answer: int = 0) -> list[Status | None]:
    """The statuses of n questions; what is not named is wrong."""
    wrong = n - correct - truncated - lost - no_answer
    numbers = {
        Status.CORRECT: correct,
        Status.WRONG: wrong,
        Status.NO_ANSWER: no_answer,
        Status.TRUNCATED: truncated,
        Status.LOST: lost,
    }
    return [status for status, number in numbers.items() for _ in range(number)]


def told(verdict: Verdict) -> tuple[Outcome, str]:
    """Outcome and reason code."""
    return verdict.outcome, verdict.reason_code


@pytest.mark.parametrize(
    ("floor", "tolerance", "n", "correct", "outcome"),
    [
        (0.8, 0.1, 10, 7, PASS),
        (0.8, 0.1, 10, 6, FAIL),
        (0.29, 0.0, 100, 29, PASS),
        (0.29, 0.0, 100, 28, FAIL),
        (0.9, 0.08, 200, 164, PASS),
        (0.9, 0.0, 1319, 1319, PASS),
        (0.9, 0.0, 1319, 0, FAIL),
        (0.9, 0.0, 1, 1, INCONCLUSIVE),
        (0.9, 0.0, 1, 0, INCONCLUSIVE),
        (0.0, 0.0, 1319, 1319, INCONCLUSIVE),
    ],
)
def test_floors(make_spec: Maker, floor: float, tolerance: float, n: int, correct: int, outcome: Outcome) -> None:
    """Equality passes in decimals; one question proves nothing; a gate that cannot fail does not pass."""
    verdict = decide(make_spec(gate={"floor": floor, "tolerance": tolerance}), counts(n, correct))
    assert verdict.outcome is outcome


def test_a_pass_is_told_in_counts(make_spec: Maker) -> None:
    """The reason of a PASS is one sentence with the count seen, its share, and the count needed."""
    verdict = decide(make_spec(), counts(1319, 1253))
    assert told(verdict) == (PASS, "at-or-above-threshold")
    assert verdict.reason == "1253 of 1319 correct (95.0 %), at least 1188 needed"
    assert verdict.rule is not None
    assert verdict.rule.k_reject == 1188


def test_zero_right_is_told_without_nonsense(make_spec: Maker) -> None:
    """0 of 1319 is a FAIL about accuracy, with an interval that starts at 0."""
    verdict = decide(make_spec(), counts(1319, 0))
    assert told(verdict) == (FAIL, "below-threshold")
    assert verdict.reason == "0 of 1319 correct (0.0 %), at least 1188 needed"
    assert verdict.interval is not None
    assert verdict.interval.low == 0.0
    assert 0 < verdict.interval.high < 0.01


@pytest.mark.parametrize("correct", [0, 1])
def test_one_question_states_how_many_are_needed(make_spec: Maker, correct: int) -> None:
    """At n = 1 the reason and the hint name the number of questions that would do."""
    verdict = decide(make_spec(), counts(1, correct))
    needed = 15 if correct else 3
    assert told(verdict) == (INCONCLUSIVE, "too-small")
    assert f"needs at least {needed}" in verdict.reason
    assert verdict.hint == f"set task.n to {needed} or more"


def test_no_question_is_no_verdict(make_spec: Maker) -> None:
    """n = 0 is INCONCLUSIVE without an interval, not a division by zero."""
    verdict = decide(make_spec(), counts(0, 0))
    assert told(verdict) == (INCONCLUSIVE, "no-questions")
    assert verdict.interval is None


@pytest.mark.parametrize(
    ("correct", "lost", "expected"),
    [
        (1150, 66, (INFRA, "lost-answers-decide")),
        (1300, 1, (PASS, "at-or-above-threshold")),
        (900, 1, (FAIL, "below-threshold")),
        (1187, 1, (INFRA, "lost-answers-decide")),
        (1188, 1, (PASS, "at-or-above-threshold")),
        (1250, 60, (INFRA, "too-many-lost")),
        (900, 200, (FAIL, "below-threshold")),
        (0, 1319, (INFRA, "lost-answers-decide")),
    ],
)
def test_lost_answers_are_two_sided(make_spec: Maker, correct: int, lost: int, expected: tuple[Outcome, str]) -> None:
    """A verdict stands only if all lost right and all wrong agree; too many lost stop all but FAIL."""
    verdict = decide(make_spec(), counts(1319, correct, lost=lost))
    assert told(verdict) == expected
    assert str(lost) in verdict.reason


def test_one_percent_lost_is_still_within_one_percent(make_spec: Maker) -> None:
    """The limit is in decimals: 2 of 200 is 1 %, and 3 of 200 is over it."""
    assert decide(make_spec(), counts(200, 195, lost=2)).outcome is PASS
    assert told(decide(make_spec(), counts(200, 195, lost=3))) == (INFRA, "too-many-lost")


def test_truncation_is_named_with_share_and_limit(make_spec: Maker) -> None:
    """10 % cut off against a limit of 2 % is INCONCLUSIVE and says which key to raise."""
    verdict = decide(make_spec(), counts(1000, 880, truncated=100))
    assert told(verdict) == (INCONCLUSIVE, "too-many-truncated")
    assert verdict.reason == "10% truncated, limit 2%: raise protocol.max_tokens"
    assert decide(make_spec(), counts(1000, 900, truncated=100)).outcome is INCONCLUSIVE
    assert decide(make_spec(), counts(1000, 950, truncated=20)).outcome is PASS, "2 % is not over 2 %"


def test_a_fail_beyond_truncation_stands(make_spec: Maker) -> None:
    """When even all truncated answers counted right are too few, it is a FAIL."""
    assert told(decide(make_spec(), counts(1000, 700, truncated=100))) == (FAIL, "below-threshold")


def test_a_fail_that_truncation_explains_says_so(make_spec: Maker) -> None:
    """Within the limit a FAIL stands, with truncation as its cause when the cut-off answers would lift it."""
    verdict = decide(make_spec(), counts(1000, 890, truncated=15))
    assert told(verdict) == (FAIL, "truncation")
    assert verdict.cause == "truncation"
    assert "15 truncated answers alone may explain it" in verdict.reason
    assert "protocol.max_tokens" in verdict.hint
    assert decide(make_spec(), counts(1000, 885, truncated=15)).cause == "truncation"
    assert told(decide(make_spec(), counts(1000, 884, truncated=15))) == (FAIL, "below-threshold")
    assert decide(make_spec(), counts(1000, 884, truncated=15)).cause is None


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (MeasuredUnder(n=1319), "n=1319 (this run: 50)"),
        (MeasuredUnder(max_tokens=512), "max_tokens=512 (this run: 1024)"),
        (
            MeasuredUnder(api=Api.COMPLETIONS, shots=8),
            "api=completions (this run: chat), shots=8 (this run: 5)",
        ),
    ],
)
def test_another_protocol_is_not_compared(make_spec: Maker, measured: MeasuredUnder, words: str) -> None:
    """A gate measured under another protocol or n gives no verdict, and names field and both values."""
    for correct in (0, 50):
        verdict = decide(make_spec(gate={"measured_under": measured}), counts(50, correct))
        assert told(verdict) == (INCONCLUSIVE, "protocol-mismatch")
        assert words in verdict.reason


def test_the_same_protocol_is_compared(make_spec: Maker) -> None:
    """Fields of measured_under that are unset or equal do not matter."""
    gate = {"measured_under": MeasuredUnder(api=Api.CHAT, shots=5, max_tokens=1024, n=200)}
    assert decide(make_spec(gate=gate), counts(200, 190)).outcome is PASS


def test_between_the_counts_the_run_cannot_tell(make_spec: Maker) -> None:
    """With delta 2 points at 200 questions: under 170 FAIL, 183 or more PASS, between them INCONCLUSIVE."""
    spec = make_spec(gate=EXACT | {"delta": 0.02})
    outcomes = [decide(spec, counts(200, k)).outcome for k in (169, 170, 182, 183)]
    assert outcomes == [FAIL, INCONCLUSIVE, INCONCLUSIVE, PASS]
    between = decide(spec, counts(200, 175))
    assert between.reason_code == "between-thresholds"
    several = "one run of 200 questions cannot tell, about 3157 could, if the task has as many"
    assert between.hint == (
        f"{several}; or accept a larger gate.delta, or take gate=auto: on history it needs fewer questions"
    )


def test_a_typed_accuracy_that_leaves_no_drop_is_the_culprit(make_spec: Maker) -> None:
    """gate.observed of 1 in 1319 leaves no drop of 5 points: it is named, not a number of questions."""
    verdict = decide(make_spec(gate=EXACT | {"observed": Observed(correct=1, n=1319)}), counts(1319, 0))
    assert told(verdict) == (INCONCLUSIVE, "gate-cannot-decide")
    assert "gate.observed, 1 of 1319, leaves no drop" in verdict.reason
    assert verdict.hint == "set gate.observed to what a healthy build scored"


def test_what_must_be_said_every_time_is(make_spec: Maker) -> None:
    """A simulated run and unpinned weights are warned about in every verdict, whatever the outcome."""
    spec = make_spec(model={"unpinned": "revision not published"}, engine={"kind": EngineKind.SIM}, gate={"floor": 0.9})
    for found in (decide(spec, counts(200, k, lost=lost)) for k, lost in ((200, 0), (0, 0), (170, 30))):
        assert any("simulated" in warning for warning in found.warnings)
        assert any("revision not published" in warning for warning in found.warnings)


GATES = st.one_of(
    st.builds(
        lambda floor, tolerance: Gate(
            name="g", method=Method.STATIC_FLOOR, floor=floor / 100, tolerance=tolerance / 100
        ),
        st.integers(0, 100),
        st.integers(0, 10),
    ),
    st.builds(
        lambda right, alpha, delta: Gate(
            name="g",
            method=Method.EXACT_BINOMIAL,
            observed=Observed(correct=right, n=100),
            alpha=alpha,
            delta=delta,
        ),
        st.integers(50, 100),
        st.sampled_from([0.05, 0.01, 0.001]),
        st.sampled_from([None, 0.03, 0.2]),
    ),
)
STATES = ("correct", "wrong", "no_answer", "truncated", "lost")
ANSWERS = st.lists(st.sampled_from(STATES + ("correct",) * 12), min_size=1, max_size=80)
RANK = {FAIL: 0, INCONCLUSIVE: 1, PASS: 2}


def tally(answers: list[str]) -> list[Status | None]:
    """The statuses by their names."""
    return [Status(answer) for answer in answers]


@settings(deadline=None, max_examples=150)
@given(gate=GATES, answers=ANSWERS, data=st.data())
def test_turning_a_right_answer_wrong_never_helps(
    make_spec: Maker, gate: Gate, answers: list[str], data: st.DataObject
) -> None:
    """One right answer fewer never makes a PASS of anything else, and never unmakes a FAIL."""
    right = [i for i, state in enumerate(answers) if state == "correct"]
    if not right:
        return
    spec, worse = replace(make_spec(), gate=gate), list(answers)
    worse[data.draw(st.sampled_from(right))] = "wrong"
    before, after = decide(spec, tally(answers)).outcome, decide(spec, tally(worse)).outcome
    assert before is PASS or after is not PASS
    assert before is not FAIL or after is FAIL


@settings(deadline=None, max_examples=150)
@given(gate=GATES, answers=ANSWERS, lost=st.integers(1, 8))
def test_a_verdict_with_lost_answers_is_that_of_every_way_they_fall(
    make_spec: Maker, gate: Gate, answers: list[str], lost: int
) -> None:
    """A FAIL or PASS in spite of lost answers is the verdict of the run with any number of them right."""
    spec, known = replace(make_spec(), gate=gate), [s for s in answers if s != "lost"]
    with_lost = decide(spec, tally(known + ["lost"] * lost)).outcome
    ends = {
        decide(spec, tally(known + ["correct"] * right + ["wrong"] * (lost - right))).outcome
        for right in range(lost + 1)
    }
    if with_lost in (FAIL, PASS):
        assert ends == {with_lost}
    if len(ends) > 1:
        assert with_lost is INFRA


@settings(deadline=None, max_examples=60)
@given(gate=GATES, n=st.integers(1, 60), truncated=st.integers(0, 4))
def test_more_right_answers_are_never_worse(make_spec: Maker, gate: Gate, n: int, truncated: int) -> None:
    """Over all counts of one n the outcome climbs from FAIL over INCONCLUSIVE to PASS, never back."""
    spec, cut = replace(make_spec(), gate=gate), min(truncated, n)
    ranks = [RANK[decide(spec, counts(n, k, truncated=cut)).outcome] for k in range(n - cut + 1)]
    assert ranks == sorted(ranks)


@settings(deadline=None, max_examples=60)
@given(gate=GATES, answers=ANSWERS, data=st.data())
def test_order_is_irrelevant_and_the_verdict_recomputable(
    make_spec: Maker, gate: Gate, answers: list[str], data: st.DataObject
) -> None:
    """The same answers in any order, decided again, give the same verdict in every field."""
    spec, shuffled = replace(make_spec(), gate=gate), data.draw(st.permutations(answers))
    assert decide(spec, tally(answers)) == decide(spec, tally(shuffled))
