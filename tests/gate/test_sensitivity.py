"""What would change a verdict, and how a stored one is derived again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.decide import decide
from gatekit.gate.derivation import derive
from gatekit.gate.sensitivity import Change, sensitivity, verdict_of
from gatekit.records.answers import Counts, Status
from gatekit.records.past import Past
from gatekit.records.run import Comparability, Dataset, RunRecord
from gatekit.records.spec import Gate, Method, Observed, Spec
from gatekit.records.verdict import Outcome, Rule, Verdict

N = 200
BINOMIAL = Gate(
    name="derived",
    method=Method.EXACT_BINOMIAL,
    observed=Observed(correct=180, n=200),
    alpha=0.01,
    delta=0.05,
    max_lost_share=0.03,
)
FLOOR = Gate(name="hand", method=Method.STATIC_FLOOR, floor=0.85)


def counts(correct: int, lost: int = 0, truncated: int = 0) -> Counts:
    """N answers, the rest of them wrong."""
    wrong = N - correct - lost - truncated
    return Counts(n=N, correct=correct, wrong=wrong, no_answer=0, truncated=truncated, lost=lost)


def record(spec: Spec, seen: Counts, verdict: Verdict, events: tuple[str, ...] = ()) -> RunRecord:
    """A record of a run with these counts; its single answers are left out."""
    return RunRecord(
        run_id="run",
        gatekit_version="0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z",
        spec=spec,
        dataset=Dataset(name="gsm8k", digests={}, question_ids=tuple(range(seen.n)), shot_ids=()),
        comparability=Comparability(key="sha256:0", fields={}),
        served=None,
        counts=seen,
        observations=(),
        verdict=verdict,
        events=events,
    )


def test_a_pass_and_its_distance(make_spec: Callable[..., Spec]) -> None:
    """180 of 200 against 170 turns with 11 answers; the floor at which it would turn is named."""
    found = sensitivity(replace(make_spec(), gate=FLOOR), counts(180))
    assert found.fewer == Change(answers=11, outcome=Outcome.FAIL)
    assert found.more is None
    assert found.lost_borne == 2  # 1 % of 200
    assert found.passes_to_floor == 0.9
    assert found.fails_from_alpha is None


def test_a_fail_and_its_distance(make_spec: Callable[..., Spec]) -> None:
    """160 of 200 against 170 turns with 10 answers, and bears 9 more lost ones, whatever the limit."""
    found = sensitivity(replace(make_spec(), gate=FLOOR), counts(160))
    assert found.fewer is None
    assert found.more == Change(answers=10, outcome=Outcome.PASS)
    assert found.lost_borne == 9


ANSWERS = st.tuples(
    st.integers(min_value=0, max_value=N) | st.integers(min_value=160, max_value=185),
    st.integers(min_value=0, max_value=8),
    st.integers(min_value=0, max_value=8),
).filter(lambda drawn: sum(drawn) <= N)


@given(gate=st.sampled_from([BINOMIAL, FLOOR]), drawn=ANSWERS)
@settings(max_examples=40, deadline=None)
def test_the_named_numbers_are_the_first_that_change(
    make_spec: Callable[..., Spec], gate: Gate, drawn: tuple[int, int, int]
) -> None:
    """One turned answer less than named leaves the verdict, the named number changes it."""
    correct, lost, truncated = drawn
    spec = replace(make_spec(), gate=gate)
    now, found = verdict_of(spec, counts(*drawn)).outcome, sensitivity(spec, counts(*drawn))
    for change, sign in ((found.fewer, -1), (found.more, 1)):
        if change is not None:
            before = counts(correct + sign * (change.answers - 1), lost, truncated)
            after = counts(correct + sign * change.answers, lost, truncated)
            assert verdict_of(spec, before).outcome is now
            assert verdict_of(spec, after).outcome is change.outcome is not now


@given(correct=st.integers(min_value=150, max_value=190), lost=st.integers(min_value=0, max_value=5))
@settings(max_examples=40, deadline=None)
def test_the_alpha_named_is_where_it_fails(make_spec: Callable[..., Spec], correct: int, lost: int) -> None:
    """At the named alpha the run is a FAIL, a little below it is not."""
    spec = replace(make_spec(), gate=BINOMIAL)
    limit = sensitivity(spec, counts(correct, lost)).fails_from_alpha
    assert limit is not None
    for alpha, fails in ((limit * (1 + 1e-9), True), (limit * (1 - 1e-9), False)):
        other = replace(spec, gate=replace(BINOMIAL, alpha=min(1.0, alpha), delta=None))
        assert (verdict_of(other, counts(correct, lost)).outcome is Outcome.FAIL) is fails


@given(gate=st.sampled_from([BINOMIAL, FLOOR]), drawn=ANSWERS, seed=st.integers(min_value=0, max_value=99))
@settings(max_examples=40, deadline=None)
def test_a_stored_verdict_is_derived_again(
    make_spec: Callable[..., Spec], gate: Gate, drawn: tuple[int, int, int], seed: int
) -> None:
    """What is computed anew from a record is the verdict that was decided, for all counts and any order."""
    spec, seen = replace(make_spec(), gate=gate), counts(*drawn)
    statuses = [status for status in Status for _ in range(getattr(seen, status.value))]
    Random(seed).shuffle(statuses)
    stored = decide(spec, statuses, Past())
    found = derive(record(spec, seen, stored))
    assert found.disagreement is None
    assert found.recomputed is stored.outcome


def test_another_verdict_is_said(make_spec: Callable[..., Spec]) -> None:
    """A record whose counts give another verdict, or whose rule gives other counts, is called out."""
    spec = replace(make_spec(), gate=FLOOR)
    verdict = verdict_of(spec, counts(180))
    assert verdict.rule is not None
    turned = derive(record(spec, counts(180), replace(verdict, outcome=Outcome.FAIL)))
    assert turned.disagreement == "the counts give PASS today, FAIL is stored"
    moved = replace(verdict, rule=replace(verdict.rule, k_reject=169))
    found = derive(record(spec, counts(180), moved)).disagreement
    assert found is not None
    assert "170" in found
    assert "169" in found


def test_a_failed_run_has_nothing_to_compute(make_spec: Callable[..., Spec]) -> None:
    """INFRA that the run itself brought is not computed from counts."""
    spec = replace(make_spec(), gate=FLOOR)
    broken = replace(verdict_of(spec, counts(180)), outcome=Outcome.INFRA, reason="the server died")
    found = derive(record(spec, counts(180), broken, events=("the server died",)))
    assert found.recomputed is None
    assert found.disagreement is None
    assert found.sensitivity is None


def test_a_rule_on_history_is_explained_by_its_fields(make_spec: Callable[..., Spec]) -> None:
    """A method that needs history is shown as stored: why, which runs, what was left out, its figures."""
    stored = Rule(
        method="flip_prediction",
        n=N,
        k_reject=172,
        k_accept=None,
        reference_accuracy=0.9,
        alpha=0.001,
        realised_alpha=None,
        sigmas=None,
        noticed_drop=0.05,
        power=0.9,
        why="3 builds answered the same questions",
        used=("a", "b", "c"),
        excluded={"same build": 4},
        phi=0.17,
        df=21.0,
    )
    spec = replace(make_spec(), gate=Gate(name="auto", method=Method.AUTO))
    verdict = Verdict(outcome=Outcome.PASS, reason_code="x", reason="x", rule=stored, p_value=0.4)
    found = derive(record(spec, counts(180), verdict))
    said = {step.label: step.text for step in found.steps}
    assert said["rule"] == "flip_prediction: 3 builds answered the same questions"
    assert said["rests on"] == "a, b, c"
    assert said["left out"] == "4: same build"
    assert "phi = 0.17" in said["inputs"]
    assert found.recomputed is None
    assert found.disagreement is None


def test_a_run_that_stopped_early(make_spec: Callable[..., Spec]) -> None:
    """With unasked questions the counts are derived only where every completion of them says the same."""
    spec = replace(make_spec(), gate=FLOOR)
    early = Counts(n=N, correct=40, wrong=5, no_answer=0, truncated=0, lost=0, unasked=155)
    stopped = replace(verdict_of(spec, early), outcome=Outcome.PASS)
    found = derive(record(spec, early, stopped))
    assert found.recomputed is None
    assert found.disagreement is None
    dead = Counts(n=N, correct=0, wrong=60, no_answer=0, truncated=0, lost=0, unasked=140)
    assert derive(record(spec, dead, verdict_of(spec, dead))).recomputed is Outcome.FAIL
