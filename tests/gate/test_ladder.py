"""Which rung a gate stands on, and what each rung says of cases that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gatekit.errors import ConfigError
from gatekit.gate.decide import decide
from gatekit.records.past import Past
from gatekit.records.spec import Budget, MeasuredUnder, Method, Observed, Spec
from gatekit.records.verdict import Outcome, Verdict
from past_builders import detailed, flipped, run, statuses, totals

Maker = Callable[..., Spec]
PASS, FAIL, INFRA, INCONCLUSIVE = Outcome.PASS, Outcome.FAIL, Outcome.INFRA, Outcome.INCONCLUSIVE
N = 200
HEALTHY = flipped(N, range(20))


def gate(method: object = Method.AUTO, **fields: object) -> dict[str, object]:
    """A gate without a floor, at alpha 1 %."""
    return {"method": method, "floor": None, "alpha": 0.01} | fields


def right(n: int, correct: int) -> str:
    """The first `correct` of n right."""
    return "c" * correct + "w" * (n - correct)


def seen(verdict: Verdict) -> tuple[Outcome, str, str]:
    """Outcome, reason code, method."""
    return verdict.outcome, verdict.reason_code, "" if verdict.rule is None else verdict.rule.method


@pytest.mark.parametrize(
    ("past", "fields", "method"),
    [
        (detailed([HEALTHY, flipped(N, range(10, 30))]), {}, "exact_conditional"),
        (detailed([HEALTHY]), {"observed": Observed(correct=180, n=200), "floor": 0.1}, "exact_mcnemar"),
        (Past(runs=(*totals([181, 182], N).runs, run("d", HEALTHY))), {}, "exact_mcnemar"),
        (totals([180, 181], N), {}, "moderated_t"),
        (totals([180], N), {}, "beta_binomial_predictive"),
        (Past(), {"observed": Observed(correct=180, n=200), "floor": 0.8}, "exact_binomial"),
        (Past(), {"floor": 0.8}, "static_floor"),
    ],
)
def test_auto_takes_the_strongest_rung(make_spec: Maker, past: Past, fields: dict[str, object], method: str) -> None:
    """Answers per question beat totals, several builds beat one, history beats a typed number, and it says why."""
    verdict = decide(make_spec(gate=gate(**fields)), statuses(HEALTHY), past)
    assert seen(verdict) == (PASS, "at-or-above-threshold", method)
    assert verdict.rule is not None
    assert verdict.rule.why.startswith("auto: ")


def test_no_history_and_no_number_is_no_verdict(make_spec: Maker) -> None:
    """An empty history is INCONCLUSIVE, says how many runs are needed, and what to do."""
    verdict = decide(make_spec(gate=gate()), statuses(HEALTHY), Past())
    assert seen(verdict) == (INCONCLUSIVE, "history-too-short", "")
    assert verdict.reason == "0 comparable runs, need 1"
    assert "gate.observed" in verdict.hint


def test_runs_that_do_not_count_are_named_by_reason(make_spec: Maker) -> None:
    """What was left out, why, and how many of each; for other hardware also the option that would pool it."""
    past = Past(runs=(run("a", HEALTHY, hardware="h200"),), excluded={"INFRA": 3, "FAIL": 1})
    verdict = decide(make_spec(gate=gate()), statuses(HEALTHY), past)
    assert verdict.reason == "0 comparable runs, need 1; left out: 3 INFRA, 1 FAIL, 1 hardware h200"
    assert "gate.exchangeable_hardware=[h200]" in verdict.hint
    pooled = decide(make_spec(gate=gate(exchangeable_hardware=("h200",))), statuses(HEALTHY), past)
    assert pooled.outcome is PASS
    assert pooled.rule is not None
    assert (pooled.rule.used, pooled.rule.excluded) == (("a",), {"INFRA": 3, "FAIL": 1})


@pytest.mark.parametrize(
    ("method", "past", "reason"),
    [
        (Method.MODERATED_T, totals([180], N), "moderated_t: 1 comparable run, need 2 of different builds"),
        (
            Method.FLIP_PREDICTION,
            detailed([HEALTHY]),
            "flip_prediction: 1 comparable run with answers per question, need 2 of different builds",
        ),
        (
            Method.EXACT_MCNEMAR,
            totals([180, 181], N),
            "exact_mcnemar: 0 comparable runs with answers per question, need 1",
        ),
        (Method.EXACT_CONDITIONAL, Past(), "exact_conditional: 0 comparable runs with answers per question, need 1"),
        (Method.BETA_BINOMIAL_PREDICTIVE, Past(), "beta_binomial_predictive: 0 comparable runs, need 1"),
    ],
)
def test_a_named_method_without_its_history_says_what_it_has(
    make_spec: Maker, method: Method, past: Past, reason: str
) -> None:
    """A method asked for by name never falls back: it says how many runs there are and how many it needs."""
    verdict = decide(make_spec(gate=gate(method)), statuses(HEALTHY), past)
    assert seen(verdict) == (INCONCLUSIVE, "history-too-short", "")
    assert verdict.reason == reason


def test_too_many_lost_answers_make_no_history(make_spec: Maker) -> None:
    """A first run that lost more than the gate allows is INFRA: it can neither be judged nor become history."""
    verdict = decide(make_spec(gate=gate()), statuses("c" * 190 + "l" * 10), Past())
    assert seen(verdict) == (INFRA, "too-many-lost", "")


def test_mcnemar_by_hand(make_spec: Maker) -> None:
    """Seven questions turned wrong and none right is p = 1/128, a FAIL at 1 %; six are p = 1/64, a PASS."""
    spec = make_spec(gate=gate(Method.EXACT_MCNEMAR))
    past = detailed([HEALTHY])
    fails = decide(spec, statuses(flipped(N, range(27))), past)
    assert seen(fails) == (FAIL, "below-threshold", "exact_mcnemar")
    assert fails.p_value == pytest.approx(1 / 128, rel=1e-12)
    words = "173 of 200 correct (86.5 %), p = 0.00781 is at or under alpha = 0.01 (7 turned wrong and 0 right)"
    assert fails.reason == words, "short, so that no log wraps it; the run is named beside the churn"
    assert fails.churn is not None
    assert (fails.churn.right_to_wrong, fails.churn.wrong_to_right, fails.churn.p_value) == (7, 0, None)
    passes = decide(spec, statuses(flipped(N, range(26))), past)
    assert passes.outcome is PASS
    assert passes.p_value == pytest.approx(1 / 64, rel=1e-12)


def test_a_tie_with_alpha_is_a_fail(make_spec: Maker) -> None:
    """p = alpha = 1/4 exactly is "at most alpha"."""
    spec = make_spec(gate=gate(Method.EXACT_MCNEMAR, alpha=0.25))
    assert decide(spec, statuses(flipped(N, range(22))), detailed([HEALTHY])).outcome is FAIL


def test_moderated_t_by_hand(make_spec: Maker) -> None:
    """Totals 178, 180, 182: s2 = 4, v = 18, phi = (4 x .2 + 8 / 18) / 6, and t at 1 % on 6 freedoms is -3.143."""
    verdict = decide(make_spec(gate=gate(Method.MODERATED_T)), statuses(HEALTHY), totals([178, 180, 182], N))
    rule = verdict.rule
    assert rule is not None
    assert rule.phi == pytest.approx(0.2074, abs=5e-5)
    assert rule.df == 6
    assert rule.k_reject == int(180 - 3.1427 * (0.2074 * 18 * 4 / 3) ** 0.5 + 0.5) == 173
    assert rule.used == ("t0", "t1", "t2")


def test_equal_totals_keep_a_margin(make_spec: Maker) -> None:
    """Ten equal totals are no proof of a spread of 0: the margin is one binomial standard deviation at least."""
    spec = make_spec(gate=gate(Method.MODERATED_T, alpha=0.2))
    rule = decide(spec, statuses(right(1319, 1253)), totals([1253] * 10, 1319)).rule
    assert rule is not None
    assert 1253 - rule.k_reject >= int((1253 * 66 / 1319) ** 0.5) == 7
    assert any("equal totals" in note for note in rule.notes)


def test_a_perfect_history_is_no_threshold_of_one(make_spec: Maker) -> None:
    """After perfect runs a single wrong answer is no regression."""
    for past in (totals([N, N], N), detailed(["c" * N]), totals([N], N)):
        assert decide(make_spec(gate=gate()), statuses(flipped(N, [3])), past).outcome is PASS


def test_flip_prediction_by_hand(make_spec: Maker) -> None:
    """Two runs that differ in 20 questions have V = 10; moderated by the prior, phi v lies between 3.6 and 10."""
    past = detailed([flipped(N, range(10, 30)), flipped(N, range(20, 40))])
    rule = decide(make_spec(gate=gate(Method.FLIP_PREDICTION)), statuses(HEALTHY), past).rule
    assert rule is not None
    assert rule.phi is not None
    assert rule.df is not None
    assert 3.6 < rule.phi * 18 < 10
    assert rule.df == pytest.approx(4 + 2 * 100 / (20 * 0.25 - 100 / 200), rel=1e-9)
    assert 180 - 3 * 15**0.5 < rule.k_reject < 180


def test_the_guard_widens_where_totals_scatter(make_spec: Maker) -> None:
    """Totals 15 apart with 15 flips are more than flips explain: psi grows and so does the p-value."""
    calm = detailed([flipped(N, range(10, 25)), flipped(N, range(12, 27)), flipped(N, range(14, 29))])
    shaken = detailed([flipped(N, range(10, 25)), flipped(N, range(12, 42)), flipped(N, range(14, 16))])
    worse = statuses(flipped(N, range(10, 40)))
    quiet, loud = (decide(make_spec(gate=gate()), worse, past).rule for past in (calm, shaken))
    assert quiet is not None
    assert loud is not None
    assert (quiet.psi, quiet.df) == (1.0, 10.0)
    assert loud.psi is not None
    assert loud.psi > 2
    assert any("scatter more than flips explain" in note for note in loud.notes)


def test_beta_binomial_takes_the_last_run_or_the_stated_one(make_spec: Maker) -> None:
    """The baseline is the latest total, else gate.observed; its error widens the binomial margin."""
    spec = make_spec(gate=gate(Method.BETA_BINOMIAL_PREDICTIVE, observed=Observed(correct=180, n=200)))
    stated = decide(spec, statuses(HEALTHY), Past()).rule
    earlier = decide(spec, statuses(HEALTHY), totals([150, 180], N)).rule
    assert stated is not None
    assert earlier is not None
    assert stated.k_reject == earlier.k_reject < 170
    assert (stated.used, earlier.used, earlier.excluded) == ((), ("t1",), {"older": 1})


def test_a_floor_beside_history_binds_too(make_spec: Maker) -> None:
    """Below gate.floor a run FAILs whatever history says, and the reason names the floor."""
    spec = make_spec(gate=gate(floor=0.9))
    past = detailed([HEALTHY])
    assert decide(spec, statuses(HEALTHY), past).outcome is PASS
    below = decide(spec, statuses(flipped(N, range(21))), past)
    assert seen(below) == (FAIL, "below-floor", "exact_mcnemar")
    assert below.reason == "179 of 200 correct (89.5 %), gate.floor needs at least 180"
    both = decide(spec, statuses(flipped(N, range(60))), past)
    assert both.reason_code == "below-threshold"


def test_a_floor_beside_a_stated_accuracy_binds_too(make_spec: Maker) -> None:
    """exact_binomial at 180 of 200 and 1 % needs 170; a floor of 0.9 raises that to 180."""
    spec = make_spec(gate=gate(Method.EXACT_BINOMIAL, observed=Observed(correct=180, n=200), floor=0.9))
    assert seen(decide(spec, statuses(right(N, 179)), Past()))[:2] == (FAIL, "below-floor")
    assert seen(decide(spec, statuses(right(N, 169)), Past()))[:2] == (FAIL, "below-threshold")
    assert decide(spec, statuses(right(N, 180)), Past()).outcome is PASS


def test_a_delta_asks_more_of_a_pass(make_spec: Maker) -> None:
    """With delta a run that is no drop still does not pass below k_accept."""
    spec = make_spec(gate=gate(Method.EXACT_MCNEMAR, delta=0.02))
    past = detailed([HEALTHY])
    rule = decide(spec, statuses(HEALTHY), past).rule
    assert rule is not None
    assert rule.k_accept is not None
    assert rule.k_accept > 180
    assert decide(spec, statuses(HEALTHY), past).reason_code == "between-thresholds"
    assert decide(spec, statuses(right(N, rule.k_accept)), past).outcome is PASS


def test_a_comparable_history_outranks_measured_under(make_spec: Maker) -> None:
    """measured_under speaks of typed numbers: a rule that rests on history alone has the same key by itself."""
    other = MeasuredUnder(n=1319)
    typed = make_spec(gate=gate(observed=Observed(correct=180, n=200), measured_under=other))
    assert decide(typed, statuses(HEALTHY), Past()).reason_code == "protocol-mismatch"
    assert decide(typed, statuses(HEALTHY), detailed([HEALTHY])).outcome is PASS
    with_floor = make_spec(gate=gate(floor=0.5, measured_under=other))
    assert decide(with_floor, statuses(HEALTHY), detailed([HEALTHY])).reason_code == "protocol-mismatch"


@pytest.mark.parametrize("method", [Method.AUTO, Method.EXACT_CONDITIONAL, Method.MODERATED_T])
def test_history_needs_a_false_alarm_rate(make_spec: Maker, method: Method) -> None:
    """Without alpha, sigmas or budget a rule on history is a config error; sigmas are a normal tail."""
    past = detailed([HEALTHY, flipped(N, range(5, 25))])
    with pytest.raises(ConfigError) as caught:
        decide(make_spec(gate=gate(method, alpha=None)), statuses(HEALTHY), past)
    assert caught.value.reason == "gate-needs-alpha"
    sigmas = decide(make_spec(gate=gate(method, alpha=None, sigmas=3.0)), statuses(HEALTHY), past).rule
    assert sigmas is not None
    assert sigmas.alpha == pytest.approx(0.00135, abs=1e-6)
    budget = gate(method, alpha=None, budget=Budget(nights=365, gates=1))
    yearly = decide(make_spec(gate=budget), statuses(HEALTHY), past).rule
    assert yearly is not None
    assert yearly.alpha == pytest.approx(1 / 365)


def test_truncated_answers_that_explain_a_fail_are_its_cause(make_spec: Maker) -> None:
    """A drop that is none with every truncated answer right is a FAIL with cause truncation."""
    spec = make_spec(gate=gate(Method.EXACT_MCNEMAR))
    answers = flipped(N, range(23))[:-4] + "tttt"
    verdict = decide(spec, statuses(answers), detailed([HEALTHY]))
    assert (verdict.outcome, verdict.reason_code, verdict.cause) == (FAIL, "truncation", "truncation")


def test_lost_and_unasked_answers_are_two_sided(make_spec: Maker) -> None:
    """What is not known is imputed right and wrong; lost answers make INFRA, unasked ones INCONCLUSIVE."""
    spec = make_spec(gate=gate(Method.EXACT_MCNEMAR, max_lost_share=0.1))
    past, base = detailed([HEALTHY]), flipped(N, range(26))
    assert decide(spec, statuses(base[:-1] + "l"), past).reason_code == "lost-answers-decide"
    assert decide(spec, statuses(base[:-1] + "-"), past).reason_code == "unasked-answers-decide"
    assert decide(spec, statuses(HEALTHY[:-2] + "ll"), past).outcome is PASS
    cut = decide(spec, statuses("w" * 24 + "-" * 176), past)
    assert (cut.outcome, cut.reason_code) == (INCONCLUSIVE, "unasked-answers-decide")
    dead = decide(spec, statuses("w" * 60 + "-" * 140), past)
    assert dead.outcome is FAIL
    assert dead.reason.endswith("140 unasked questions cannot change the verdict")


def test_unasked_questions_are_never_too_many_lost(make_spec: Maker) -> None:
    """A run that needed only its first answers fails without a word about lost ones."""
    verdict = decide(make_spec(gate={"floor": 0.9}), statuses("w" * 40 + "-" * 160), Past())
    assert (verdict.outcome, verdict.reason_code) == (FAIL, "below-threshold")


def test_surprising_churn_warns_and_does_not_fail(make_spec: Maker) -> None:
    """As many turned right as wrong: the accuracy stands, the verdict passes, and a warning tells."""
    past = detailed([flipped(N, range(20)), flipped(N, range(1, 21)), flipped(N, range(2, 22))])
    usual = decide(make_spec(gate=gate()), statuses(flipped(N, range(3, 23))), past)
    moved = decide(make_spec(gate=gate()), statuses(flipped(N, range(100, 120))), past)
    assert (usual.outcome, moved.outcome) == (PASS, PASS)
    assert not any("churn" in warning for warning in usual.warnings)
    (warning,) = moved.warnings
    assert warning.startswith("churn: 20 right to wrong and 20 wrong to right since run r2")
    assert moved.churn is not None
    assert moved.churn.p_value is not None
    assert moved.churn.p_value < 0.01


def test_one_question_is_too_few_for_any_rung(make_spec: Maker) -> None:
    """At n = 1 no rung passes or fails, whatever the history."""
    for past in (detailed(["c"]), totals([1, 1], 1), totals([1], 1)):
        for answer in "cw":
            verdict = decide(make_spec(gate=gate()), statuses(answer), past)
            assert verdict.outcome is INCONCLUSIVE


def test_the_verdict_is_recomputable(make_spec: Maker) -> None:
    """The same spec, answers and history give the same verdict in every field."""
    past = detailed([HEALTHY, flipped(N, range(5, 25))])
    spec, answers = make_spec(gate=gate()), statuses(flipped(N, range(30)))
    assert decide(spec, answers, past) == decide(replace(spec), tuple(answers), replace(past))


@pytest.mark.parametrize("sigmas", [8.0, 40.0, 100.0])
@pytest.mark.parametrize("method", [Method.AUTO, Method.EXACT_BINOMIAL])
def test_no_rate_is_too_small(make_spec: Maker, method: Method, sigmas: float) -> None:
    """A hundred sigmas are a rate that no history can tell from 0: a rule that never fails, and no overflow."""
    spec = make_spec(gate=gate(method, alpha=None, sigmas=sigmas, observed=Observed(correct=180, n=200)))
    for past in (
        totals([180, 184], N),
        totals([180], N),
        detailed([HEALTHY]),
        detailed([HEALTHY, flipped(N, [3, 99])]),
    ):
        assert decide(spec, statuses(HEALTHY), past).outcome in (PASS, INCONCLUSIVE)
