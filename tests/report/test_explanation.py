"""The screen of a verdict that rests on history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gatekit.errors import ExitCode
from gatekit.gate.decide import decide
from gatekit.gate.derivation import derive
from gatekit.records.answers import Observation, Status, count
from gatekit.records.past import Past
from gatekit.records.run import Comparability, Dataset, RunRecord
from gatekit.records.spec import Method, Observed, Spec
from gatekit.records.verdict import Outcome
from gatekit.report.by_question import ByQuestion, by_question
from gatekit.report.derivation import derivation_text
from gatekit.report.summary import summarise
from gatekit.report.terminal import explain
from gatekit.spec.resolve import config_dirs, resolve
from lock_builders import locked
from past_builders import detailed, flipped, statuses, totals

N = 200


def record(spec: Spec, answers: str, past: Past) -> RunRecord:
    """The record of a run with these answers."""
    ended = statuses(answers)
    observations = tuple(
        Observation(question_id=place, status=status, attempts=1)
        for place, status in enumerate(ended)
        if status is not None
    )
    return RunRecord(
        run_id="tonight",
        gatekit_version="0",
        started_at="2026-11-30T03:00:00Z",
        finished_at="2026-11-30T03:10:00Z",
        spec=spec,
        dataset=Dataset(name="gsm8k", digests={}, question_ids=tuple(range(N)), shot_ids=()),
        comparability=Comparability(key="sha256:0", fields={}),
        served=None,
        counts=count(observations, planned=N),
        observations=observations,
        verdict=decide(spec, ended, past),
    )


def lines(text: str) -> dict[str, str]:
    """The facts by their labels, wrapped lines joined."""
    facts: dict[str, str] = {}
    label = ""
    for line in text.splitlines():
        if line.startswith("  "):
            label = line[2:15].strip() or label
            facts[label] = f"{facts[label]} {line[15:]}" if not line[2:15].strip() else line[15:]
    return facts


@pytest.fixture(scope="module")
def spec() -> Spec:
    """The default spec with gate=auto, at alpha 1 %."""
    return resolve(["gate=auto", "gate.observed=null", "gate.alpha=0.01"], dirs=config_dirs([], {}))


HISTORY = Past(
    runs=detailed([flipped(N, range(20)), flipped(N, range(5, 25)), flipped(N, range(9, 29))], hardware="cpu").runs,
    excluded={"INFRA": 2},
)


def test_a_p_value_rule_is_explained(spec: Spec) -> None:
    """Rung and why, runs and what was left out, p-value, spread, and churn are on the screen."""
    shown = lines(explain(record(spec, flipped(N, range(12, 32)), HISTORY)))
    assert shown["rule"].startswith("exact_conditional: FAIL where p is at most 0.01, which is about below ")
    assert shown["why"] == "auto: answers per question of 3 distinct builds"
    assert shown["history"] == "3 runs, one per build: r0 to r2"
    assert shown["left out"] == "2 INFRA"
    assert shown["false alarms"] == "at most 1 % of runs of an unchanged model"
    assert shown["spread"].startswith("phi 0.")
    assert "psi 1.0" in shown["spread"]
    assert shown["p-value"].startswith("p = 0.")
    assert shown["churn"].startswith("3 right to wrong, 3 wrong to right since run r2; as many by chance: p = ")


def test_a_count_rule_is_explained(spec: Spec) -> None:
    """A rule on totals shows its counts and how often they raise a false alarm."""
    gate = replace(spec.gate, method=Method.MODERATED_T, delta=0.02)
    shown = lines(explain(record(replace(spec, gate=gate), flipped(N, range(20)), HISTORY)))
    assert shown["rule"].startswith("moderated_t: FAIL below 17")
    assert "INCONCLUSIVE" in shown["rule"]
    assert "asked for at most 1 %" in shown["false alarms"]


@pytest.mark.parametrize("method", [Method.MODERATED_T, Method.BETA_BINOMIAL_PREDICTIVE, Method.LOCKED])
def test_no_binomial_distance_beside_another_rate(spec: Spec, method: Method) -> None:
    """A rule whose rate is not binomial says no standard deviations of a binomial count: they would contradict it."""
    past = HISTORY if method is not Method.LOCKED else locked(totals([178, 180, 182], N), N)
    found = record(replace(spec, gate=replace(spec.gate, method=method)), flipped(N, range(20)), past)
    assert found.verdict.rule is not None
    assert found.verdict.rule.method == method.value
    shown = lines(explain(found))["false alarms"]
    assert " of runs at a healthy accuracy of " in shown
    assert "standard deviations" not in shown
    typed = replace(spec.gate, method=Method.EXACT_BINOMIAL, observed=Observed(correct=180, n=N))
    binomial = record(replace(spec, gate=typed), flipped(N, range(20)), HISTORY)
    assert "standard deviations" in lines(explain(binomial))["false alarms"]


def test_a_run_that_stopped_early_says_so(spec: Spec) -> None:
    """Questions that were not asked are counted, and no accuracy is made up for them."""
    stopped = record(spec, "w" * 80 + "-" * 120, HISTORY)
    assert lines(explain(stopped))["seen"].endswith("0 lost, 120 not asked; 200 in all")
    found = summarise(stopped, exit_code=ExitCode.FAIL, stored_at=None)
    assert (found["verdict"], found["accuracy"]) == ("FAIL", None)
    assert found["p_value"] == stopped.verdict.p_value
    assert found["churn"] == {"run_id": "r2", "right_to_wrong": 60, "wrong_to_right": 0, "p_value": pytest.approx(0)}
    assert found["cause"] is None


def test_names_from_elsewhere_are_harmless(spec: Spec) -> None:
    """Run ids, hardware and reasons come from files: no control character of theirs reaches the terminal."""
    evil = "x\x1b[31m\u202e"
    past = Past(runs=HISTORY.runs, excluded={f"hardware {evil}": 1})
    text = explain(record(spec, flipped(N, range(20)), past))
    assert "\x1b" not in text
    assert "\u202e" not in text


def typed(*overrides: str) -> Spec:
    """A gate of a measured accuracy of 0.9 at alpha 1 %, with the early stop that the overrides ask for."""
    asked = ("gate.observed={correct: 180, n: 200}", "gate.alpha=0.01", "gate.delta=0.15", "task.order_seed=1")
    return resolve([*asked, *overrides], dirs=config_dirs([], {}))


WOR = "gate.early_stop=wor_mixture"
CUT = "w" * 10 + "c" * 20 + "w" * 8 + "-" * (N - 38)
ON_HISTORY = ("gate=auto", "gate.observed=null")


@pytest.mark.parametrize(
    ("overrides", "past", "compared"),
    [
        ((WOR,), Past(), "would the whole run reach K0 = 168 right answers, or only K1 = 160"),
        (
            (WOR, "gate=static_floor", "gate.floor=0.85", "gate.alpha=null"),
            Past(),
            "reach K0 = 170 right answers, or only K1 = 160",
        ),
        ((WOR, *ON_HISTORY), HISTORY, "would the whole run reach K0 = "),
        ((*ON_HISTORY, "gate.early_stop=paired_sprt"), HISTORY, "every question as often right as in 3 earlier builds"),
    ],
)
def test_a_sequential_fail_is_computed_anew(overrides: tuple[str, ...], past: Past, compared: str) -> None:
    """K0, K1, both boundaries and the ratio at the stop; never the counts of questions that nobody asked, nor a p."""
    cut = record(typed(*overrides), CUT, past)
    assert (cut.verdict.outcome, cut.verdict.reason_code) == (Outcome.FAIL, "sequential-fail")
    found = derive(cut, past)
    assert (found.recomputed, found.disagreement) == (Outcome.FAIL, None)
    text = derivation_text(cut, found)
    shown = lines(text)
    assert compared in shown["early stop"]
    assert "FAIL from ln(1 / " in shown["boundaries"]
    assert "PASS down to ln(0.05) = -2.996" in shown["boundaries"]
    assert " the log likelihood ratio is " in shown["stop"]
    assert shown["verdict"] == "FAIL, by the sequential test"
    assert shown["today"] == "computed anew from the record: FAIL, as stored"
    assert "k_pass" not in text
    assert "p-value" not in shown
    is_count = past is not HISTORY
    assert ("by stopping early" in lines(explain(cut))["false alarms"]) == is_count
    assert "all 162 missing answers wrong" in shown["two-sided"]


def test_a_sequential_stop_that_does_not_follow_is_said() -> None:
    """A stored FAIL whose answers cross no boundary is DIFFERS, not a silent yes."""
    cut = record(typed(WOR), CUT, Past())
    other = replace(record(typed(WOR), "c" * 14 + "-" * (N - 14), Past()), verdict=cut.verdict)
    found = derive(other)
    assert found.disagreement == "the counts give INCONCLUSIVE today, FAIL is stored"


def test_the_screen_of_a_sequential_gate() -> None:
    """False alarms are told whole, with the share of the early stop; missing answers widen the interval."""
    cut = record(typed(WOR), CUT, Past())
    shown = lines(explain(cut))
    assert shown["early stop"] == (
        "wor_mixture: would the whole run reach 168, or only 160; false alarms at most 0.5 %, misses 5 %"
    )
    assert shown["false alarms"].endswith(", and at most 0.5 % by stopping early; asked for at most 1 %")
    assert shown["interval"].endswith("; from all 162 missing answers wrong to all right)")
    assert shown["next"] == "see the wrong answers: gatekit history show tonight --wrong"


def test_a_floor_that_binds_states_its_own_rate(spec: Spec) -> None:
    """A floor above what history asks for fails healthy runs at its own rate, and the rule's is not printed for it."""
    gate = replace(spec.gate, floor=0.97)
    found = record(replace(spec, gate=gate), flipped(N, range(5, 25)), HISTORY)
    rate = found.verdict.rule
    assert rate is not None
    assert rate.realised_alpha is not None
    assert rate.realised_alpha > 0.99
    (warning,) = [one for one in found.verdict.warnings if one.startswith("floor binds: ")]
    assert "gate.floor 0.97 asks for 194, history for 17" in warning
    assert warning.endswith(" of healthy runs; gate.floor=null lets history decide")
    shown = lines(explain(found))
    assert shown["rule"].startswith("exact_conditional: FAIL below 194 of 200 (gate.floor), or where p is at most 0.01")
    assert shown["false alarms"].startswith("about ")
    assert "by gate.floor" in shown["false alarms"]
    assert shown["notices"] == "nothing: an unchanged model fails in 90 % of runs or more"
    idle = record(replace(spec, gate=replace(spec.gate, floor=0.5)), flipped(N, range(5, 25)), HISTORY)
    assert not any(one.startswith("floor binds") for one in idle.verdict.warnings)


def test_no_pass_is_promised_below_a_fail(spec: Spec) -> None:
    """A k_accept below the count of the p-value is not shown as if it were enough."""
    loose = replace(spec, gate=replace(spec.gate, delta=0.3))
    shown = lines(explain(record(loose, flipped(N, range(12, 32)), HISTORY)))
    assert "PASS from" not in shown["rule"]


def test_a_mismatch_was_counted() -> None:
    """Answers were counted although no rule was applied to them: explain says both."""
    other = typed("gate.measured_under={shots: 8}")
    run = record(other, "c" * 191 + "w" * 9, Past())
    found = derivation_text(run, derive(run))
    assert "none was applied: gate exact_binomial was measured under shots=8" in found
    assert "191 correct + 9 wrong = 200" in found


def test_a_spread_that_the_p_value_does_not_use_says_so(spec: Spec) -> None:
    """exact_mcnemar has no phi of its own."""
    one = Past(runs=HISTORY.runs[:1])
    shown = lines(explain(record(spec, flipped(N, range(12, 32)), one)))
    assert shown["rule"].startswith("exact_mcnemar")
    assert "the p-value takes neither" in shown["spread"]


def test_long_facts_wrap_under_their_first_word() -> None:
    """What a verdict rests on may name thirty runs: it wraps at the width of the screen, and no id is broken."""
    answers = [flipped(200, range(place, place + 12)) for place in range(30)]
    past = detailed(answers, hardware="cpu")
    run = record(typed("gate=auto", "gate.observed=null"), flipped(200, range(12)), past)
    shown = derivation_text(run, derive(run, past)).splitlines()
    assert max(map(len, shown[2:])) <= 110
    (first,) = (place for place, line in enumerate(shown) if line.startswith("  rests on"))
    assert shown[first + 1].startswith(" " * 15)
    assert "more)" in " ".join(shown)


def test_questions_that_lack_an_answer_are_sorted_where_the_others_tell(spec: Spec) -> None:
    """A question that was right and wrong is sometimes right, whatever it lacks; else only a whole one tells."""
    asked = replace(spec, protocol=replace(spec.protocol, repeats=3, temperature=0.7))
    ended = {0: "✓x", 1: "✓", 2: "xxx", 3: "✓✓✓", 4: ""}
    observations = tuple(
        Observation(
            question_id=question, repeat=repeat, status=Status.CORRECT if sign == "✓" else Status.WRONG, attempts=1
        )
        for question, signs in ended.items()
        for repeat, sign in enumerate(signs)
    )
    whole = record(spec, flipped(N, range(20)), HISTORY)
    dataset = replace(whole.dataset, question_ids=tuple(ended) * 3)
    found = by_question(replace(whole, spec=asked, dataset=dataset, observations=observations))
    assert found == ByQuestion(repeats=3, questions=5, always=1, sometimes=1, never=1, unknown=2)
