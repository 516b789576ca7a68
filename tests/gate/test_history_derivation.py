"""Verdicts on history derived again from their record and the runs that they rest on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.decide import decide
from gatekit.gate.derivation import Derivation, derive
from gatekit.gate.retrial import past_run
from gatekit.gate.step import some
from gatekit.gate.strata import Statuses
from gatekit.records.answers import Observation, count
from gatekit.records.past import Past
from gatekit.records.run import Comparability, Dataset, RunRecord
from gatekit.records.spec import EarlyStop, Method, Observed, Spec
from gatekit.records.verdict import Outcome
from lock_builders import AUTO, locked
from past_builders import detailed, flipped, statuses, totals

Maker = Callable[..., Spec]
N = 200
HISTORY = detailed([flipped(N, range(10 + i, 30 + 2 * i)) for i in range(3)])
ON_HISTORY = (
    Method.AUTO,
    Method.BETA_BINOMIAL_PREDICTIVE,
    Method.MODERATED_T,
    Method.EXACT_MCNEMAR,
    Method.FLIP_PREDICTION,
    Method.EXACT_CONDITIONAL,
    Method.LOCKED,
)


def record(spec: Spec, answers: str, past: Past) -> RunRecord:
    """The record of a run with these answers, judged by this history."""
    ended = statuses(answers)
    observations = tuple(
        Observation(question_id=place, status=status, attempts=1, failure=None)
        for place, status in enumerate(ended)
        if status is not None
    )
    return RunRecord(
        run_id="tonight",
        gatekit_version="0",
        started_at="2026-11-30T03:00:00Z",
        finished_at="2026-11-30T03:10:00Z",
        spec=spec,
        dataset=Dataset(name="gsm8k", digests={}, question_ids=tuple(range(len(answers))), shot_ids=()),
        comparability=past.key or Comparability(key="sha256:0", fields={}),
        served=None,
        counts=count(observations, planned=len(answers)),
        observations=observations,
        verdict=decide(spec, ended, past),
    )


def spec_of(make_spec: Maker, method: Method, **fields: object) -> Spec:
    """A gate of this method at 1 %."""
    return make_spec(gate={"method": method, "floor": None, "alpha": 0.01} | fields)


def lines(found: Derivation) -> dict[str, str]:
    """The steps by label."""
    return {step.label: step.text for step in found.steps}


ANSWERS = st.one_of(
    st.integers(10, 70).map(lambda wrong: flipped(N, range(wrong))),
    st.sets(st.integers(0, N - 1), min_size=10, max_size=60).map(lambda places: flipped(N, sorted(places))),
)


@settings(deadline=None, max_examples=60)
@given(
    method=st.sampled_from(ON_HISTORY),
    answers=ANSWERS,
    floor=st.sampled_from([None, 0.8]),
    delta=st.sampled_from([None, 0.05]),
    only_totals=st.booleans(),
)
def test_a_stored_verdict_is_derived_again(
    make_spec: Maker, method: Method, answers: str, floor: float | None, delta: float | None, only_totals: bool
) -> None:
    """From the record and the runs it rests on comes the stored verdict, by every rule on history."""
    history = totals([180, 183, 178], N) if only_totals else HISTORY
    past = locked(history, N)
    stored = record(spec_of(make_spec, method, floor=floor, delta=delta), answers, past)
    found = derive(stored, past)
    assert found.disagreement is None
    if stored.verdict.rule is not None:
        assert found.recomputed is stored.verdict.outcome
        assert found.sensitivity is not None


@settings(deadline=None, max_examples=60)
@given(method=st.sampled_from(ON_HISTORY), answers=ANSWERS)
def test_the_named_numbers_are_the_first_that_change(make_spec: Maker, method: Method, answers: str) -> None:
    """As many turned answers as named change the verdict that `decide` gives, one less does not."""
    past = locked(HISTORY, N)
    spec = spec_of(make_spec, method, max_lost_share=0.3)
    found = derive(record(spec, answers, past), past).sensitivity
    assert found is not None
    before = [sum(column) for column in zip(*(run.outcomes or b"" for run in HISTORY.runs), strict=True)]
    if method is Method.EXACT_MCNEMAR:
        before = list(HISTORY.runs[-1].outcomes or b"")
    by_p_value = method in (Method.AUTO, Method.EXACT_MCNEMAR, Method.EXACT_CONDITIONAL)
    right = [place for place in range(N) if answers[place] == "c" and (before[place] == max(before) or not by_p_value)]
    wrong = sorted((place for place in range(N) if answers[place] == "w"), key=lambda place: -before[place])
    now = decide(spec, statuses(answers), past).outcome
    for change, places, letter in ((found.fewer, right, "w"), (found.more, wrong, "c")):
        if change is not None:
            assert decide(spec, turned(answers, places[: change.answers - 1], letter), past).outcome is now
            assert decide(spec, turned(answers, places[: change.answers], letter), past).outcome is change.outcome
    if found.lost_borne is not None:
        source = (
            wrong
            if now is Outcome.FAIL
            else sorted((place for place in range(N) if answers[place] == "c"), key=lambda place: -before[place])
        )
        assert decide(spec, turned(answers, source[: found.lost_borne], "l"), past).outcome is now
        assert decide(spec, turned(answers, source[: found.lost_borne + 1], "l"), past).outcome is not now


def turned(answers: str, places: list[int], letter: str) -> Statuses:
    """The statuses with another letter at these places."""
    chosen = set(places)
    return statuses("".join(letter if place in chosen else old for place, old in enumerate(answers)))


@settings(deadline=None, max_examples=60)
@given(method=st.sampled_from(ON_HISTORY[:-1]), answers=ANSWERS)
def test_the_alpha_named_is_where_it_fails(make_spec: Maker, method: Method, answers: str) -> None:
    """At the named alpha the run is a FAIL, a little below it is not."""
    spec = spec_of(make_spec, method)
    found = derive(record(spec, answers, HISTORY), HISTORY).sensitivity
    assert found is not None
    limit = found.fails_from_alpha
    if limit is None or not 1e-12 < limit < 0.4:
        return
    for alpha, fails in ((limit * (1 + 1e-6), True), (limit * (1 - 1e-6), False)):
        verdict = decide(spec_of(make_spec, method, alpha=alpha), statuses(answers), HISTORY)
        assert (verdict.outcome is Outcome.FAIL) is fails


def test_mcnemar_is_shown_with_its_numbers(make_spec: Maker) -> None:
    """b, c and the binomial tail stand there: seven turned wrong and none right is 1/128."""
    past = detailed([flipped(N, range(20))])
    said = lines(derive(record(spec_of(make_spec, Method.EXACT_MCNEMAR), flipped(N, range(27)), past), past))
    assert said["p"] == "b = 7 right to wrong, c = 0 wrong to right: p = P(Bin(7, 1/2) <= 0) = 0.007812"
    assert said["verdict"] == "p = 0.00781 <= alpha = 0.01: FAIL"
    assert said["rests on"] == "r0 (180)"
    assert "about " in said["k_reject"]


def test_moderated_t_is_shown_with_its_numbers(make_spec: Maker) -> None:
    """Mean, s^2, v, both phi, nu, the quantile and the count of 178, 180, 182 are those worked out by hand."""
    past = totals([178, 180, 182], N)
    said = lines(derive(record(spec_of(make_spec, Method.MODERATED_T, delta=0.02), flipped(N, range(27)), past), past))
    assert said["mean"] == "S = (178 + 180 + 182) / 3 = 180; v = S (1 - S/n) = 18"
    spread = "s^2 = 4, phi_hat = s^2 / v = 0.2222; phi = (4 x 0.2 + 2 x 0.2222) / 6 = 0.2074 on nu = 6"
    assert said["spread"] == spread
    shown = "sd = 2.231, t = -3.143 (nu = 6): k_reject = floor(S + t sd + 1/2) = floor(180 - 7.012 + 1/2) = 173"
    assert said["k_reject"] == shown
    assert said["k_accept"].startswith("k_accept = ceil(S - n delta - t_beta sd + 1/2), n delta = 4, beta = 0.1: ")


def test_flips_are_shown_with_their_numbers(make_spec: Maker) -> None:
    """Two runs that differ in 20 questions: V = 10 over 20 flipped questions."""
    past = detailed([flipped(N, range(10, 30)), flipped(N, range(20, 40))])
    said = lines(derive(record(spec_of(make_spec, Method.FLIP_PREDICTION), flipped(N, range(20)), past), past))
    assert said["spread"].startswith(
        "V = sum k/(k-1) p_i (1 - p_i) = 10 over 20 questions that flipped, phi_hat = V / v"
    )
    assert "d = " in said["spread"]


def test_the_conditional_test_is_shown_with_its_table(make_spec: Maker) -> None:
    """The table of right answers over all runs, the plain p, psi and the guarded p stand there."""
    answers = flipped(N, range(12, 45))
    stored = record(spec_of(make_spec, Method.EXACT_CONDITIONAL), answers, HISTORY)
    said = lines(derive(stored, HISTORY))
    everything = [*(run.outcomes or b"" for run in HISTORY.runs), bytes(letter == "c" for letter in answers)]
    of = [sum(column) for column in zip(*everything, strict=True)]
    for t in (1, 2, 3):
        assert f"t={t}: {of.count(t)}" in said["t table"] or not of.count(t)
    assert said["p"].startswith("P(sum Bin(m_t, t/4) <= ")
    assert said["psi"].startswith("(k-1) s^2 / V = ")
    assert stored.verdict.p_value is not None
    assert said["guarded p"].endswith(f"= {stored.verdict.p_value:.4g}")


def test_a_baseline_is_shown_with_its_tails(make_spec: Maker) -> None:
    """The beta-binomial tail at k and beyond it; also where gate.observed is the baseline and no run is needed."""
    past = totals([180], N)
    said = lines(derive(record(spec_of(make_spec, Method.AUTO), flipped(N, range(30)), past), past))
    assert said["baseline"] == "180 of 200: Y ~ BetaBin(200, 180 + 1/2, 20 + 1/2)"
    typed = spec_of(make_spec, Method.BETA_BINOMIAL_PREDICTIVE, observed=Observed(correct=180, n=200))
    found = derive(record(typed, flipped(N, range(30)), Past()))
    assert lines(found)["rests on"] == "no run: gate.observed is the baseline"
    assert lines(found)["k_reject"] == said["k_reject"]
    assert found.recomputed is Outcome.PASS


def test_a_locked_verdict_follows_from_its_counts(make_spec: Maker) -> None:
    """With its lock the prediction is shown; without it the stored counts decide; with another one it DIFFERS."""
    past = locked(totals([178, 180, 182], N), N)
    stored = record(spec_of(make_spec, Method.LOCKED), flipped(N, range(28)), past)
    with_lock, without = derive(stored, past), derive(stored)
    assert (with_lock.recomputed, with_lock.disagreement) == (Outcome.FAIL, None)
    assert lines(with_lock)["predicted"].startswith("the next count is 180 + 2.231 T, T on 6 degrees of freedom; p = ")
    assert (without.recomputed, without.disagreement) == (Outcome.FAIL, None)
    assert "predicted" not in lines(without)
    assert past.lock is not None
    other = derive(stored, replace(past, lock=replace(past.lock, k_reject=160, inputs="sha256:" + "0" * 64)))
    assert other.disagreement is not None
    assert other.disagreement.startswith("the lock of today is another one and says FAIL below 160; ")


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"k_reject": 173}, False),
        ({"k_reject": 172}, False),
        ({"k_reject": 171}, True),
        ({"k_reject": 160, "k_accept": 171}, True),
        ({"k_reject": 160, "key": "sha256:" + "1" * 64}, False),
    ],
)
def test_a_lock_that_was_made_anew_differs_only_where_it_decides_otherwise(
    make_spec: Maker, changed: dict[str, Any], differs: bool
) -> None:
    """DIFFERS is of the verdict: another lock with the same one, or one of another series, is a step of its own."""
    past = locked(totals([178, 180, 182], N), N)
    assert past.lock is not None
    stored = record(spec_of(make_spec, Method.LOCKED), flipped(N, range(29)), past)
    assert (stored.counts.correct, stored.verdict.outcome) == (171, Outcome.FAIL)
    today = replace(past.lock, inputs="sha256:" + "0" * 64, **changed)
    found = derive(stored, replace(past, lock=today))
    assert (found.disagreement is not None) == differs
    assert lines(found)["lock today"].startswith("another one, ")
    assert "lock today" not in lines(derive(stored, past))


def test_the_number_of_runs_that_are_not_named_is_never_cut_off() -> None:
    """However long the ids of the runs are, the line says how many there are more."""
    named = some([f"{'laguna_nvfp4_completions-b200-vllm-20261130' * 2}-{n:04x} (1250)" for n in range(25)], ", ")
    assert named.endswith(" more)")
    assert len(named) < 500
    assert int(named.rpartition("(")[2].removesuffix(" more)")) + named.count("(1250)") == 25


def test_missing_runs_are_named_and_nothing_is_computed(make_spec: Maker) -> None:
    """Where runs are not at hand, or have lost their answers, the rule is shown as stored and they are named."""
    stored = record(spec_of(make_spec, Method.AUTO), flipped(N, range(20)), HISTORY)
    for past, what in (
        (None, "3 of the 3 runs it rests on are not at hand: r0, r1, r2"),
        (Past(runs=HISTORY.runs[1:]), "a run it rests on is not at hand: r0"),
        (
            Past(runs=(replace(HISTORY.runs[0], outcomes=None), *HISTORY.runs[1:])),
            "r0 has no answers",
        ),
    ):
        found = derive(stored, past)
        assert lines(found)["missing"].endswith(what)
        assert (found.recomputed, found.disagreement, found.sensitivity) == (None, None, None)
        assert lines(found)["counts"].endswith("as stored")


def test_another_result_than_stored_is_said(make_spec: Maker) -> None:
    """A changed answer of a run that it rests on, or a changed verdict, is called out with both values."""
    stored = record(spec_of(make_spec, Method.AUTO), flipped(N, range(5, 30)), HISTORY)
    first = HISTORY.runs[0]
    assert first.outcomes is not None
    forged = replace(first, outcomes=bytes(1 - right for right in first.outcomes), correct=N - first.correct)
    rewritten = derive(stored, Past(runs=(forged, *HISTORY.runs[1:]))).disagreement
    assert rewritten is not None
    assert "today" in rewritten
    red = replace(stored, verdict=replace(stored.verdict, outcome=Outcome.FAIL))
    assert derive(red, HISTORY).disagreement == "the counts give PASS today, FAIL is stored"
    swapped = Past(runs=(replace(first, outcomes=first.outcomes[::-1]), *HISTORY.runs[1:]))
    assert derive(stored, swapped).disagreement is not None
    assert stored.verdict.p_value is not None
    other_p = replace(stored, verdict=replace(stored.verdict, p_value=0.5 * stored.verdict.p_value))
    found = derive(other_p, HISTORY).disagreement
    assert found is not None
    assert found.startswith("the p-value is ")


def test_lost_and_cut_off_answers_are_two_sided(make_spec: Maker) -> None:
    """Open answers are counted both ways, with the outcome of each end."""
    spec = spec_of(make_spec, Method.MODERATED_T, max_lost_share=0.1)
    past = totals([178, 180, 182], N)
    stored = record(replace(spec), flipped(N - 6, range(25)) + "------", past)
    said = lines(derive(stored, past))
    assert said["two-sided"] == "all 6 missing answers wrong: 169, FAIL; all right: 175, PASS"


@pytest.mark.parametrize("method", [Method.AUTO, Method.MODERATED_T])
def test_a_record_becomes_the_run_it_was(make_spec: Maker, method: Method) -> None:
    """What a later verdict saw of a run is what its record gives back."""
    stored = record(spec_of(make_spec, method), flipped(N, range(5, 30)), HISTORY)
    found = past_run(stored)
    assert (found.run_id, found.n, found.correct) == ("tonight", N, 175)
    assert found.outcomes == bytes(letter == "c" for letter in flipped(N, range(5, 30)))
    assert past_run(replace(stored, observations=())).outcomes is None


@pytest.mark.parametrize(
    "method",
    [Method.BETA_BINOMIAL_PREDICTIVE, Method.EXACT_BINOMIAL, Method.MODERATED_T, Method.EXACT_MCNEMAR, Method.LOCKED],
)
def test_a_paired_test_is_made_again_under_every_rule(make_spec: Maker, method: Method) -> None:
    """The test question by question rests on the whole norm, whatever its rule takes of it; else it is as stored."""
    series = detailed([flipped(N, range(10 + i, 30 + i)) for i in range(4)])
    past = locked(series, N)
    early = {"early_stop": EarlyStop.PAIRED_SPRT, "delta": 0.1, "observed": Observed(correct=180, n=N)}
    spec = spec_of(make_spec, method, **early)
    spec = replace(spec, task=replace(spec.task, order_seed=1))
    stored = record(spec, "w" * 20 + "-" * 180, past)
    assert stored.verdict.reason_code == "sequential-fail"
    found = derive(stored, past)
    assert (found.recomputed, found.disagreement) == (Outcome.FAIL, None)
    assert "the log likelihood ratio is" in lines(found)["stop"]
    assert stored.verdict.rule is not None
    used = stored.verdict.rule.used
    alone = derive(stored, replace(past, runs=tuple(one for one in series.runs if one.run_id in used)))
    assert alone.recomputed is (Outcome.FAIL if len(used) == len(series.runs) else None)


def test_a_test_of_a_changed_lock_reads_well(make_spec: Maker) -> None:
    """What differs is said in counts as people read them, with no `none` among them."""
    past = locked(totals([178, 180, 182], N), N)
    stored = record(spec_of(make_spec, Method.LOCKED), flipped(N, range(28)), past)
    assert past.lock is not None
    moved = replace(past.lock, k_reject=160, k_accept=170, inputs="sha256:" + "0" * 64)
    told = derive(stored, replace(past, lock=moved)).disagreement
    before = "the one that decided said FAIL below 173"
    assert told == f"the lock of today is another one and says FAIL below 160, PASS from 170; {before}"


def stopped(make_spec: Maker, method: Method, past: Past, asked: str) -> dict[str, str]:
    """The derivation of a run that was stopped after these answers."""
    return lines(derive(record(spec_of(make_spec, method), asked + "-" * (N - len(asked)), past), past))


@pytest.mark.parametrize("method", [Method.EXACT_MCNEMAR, Method.EXACT_CONDITIONAL])
def test_both_ends_of_a_stopped_run_are_shown(make_spec: Maker, method: Method) -> None:
    """A FAIL that left questions unasked rests on the p-value with all of them right: both ends stand there with
    their numbers, and which of them decides."""
    past = detailed([flipped(N, range(20))]) if method is Method.EXACT_MCNEMAR else HISTORY
    asked = "w" * 60
    stored = record(spec_of(make_spec, method), asked + "-" * (N - 60), past)
    said = lines(derive(stored, past))
    assert stored.verdict.outcome is Outcome.FAIL
    label = "p" if method is Method.EXACT_MCNEMAR else "p'"
    assert stored.verdict.p_value is not None
    assert said[f"{label} if right"].endswith(f"= {stored.verdict.p_value:.4g}")
    assert said[f"{label} if wrong"] != said[f"{label} if right"]
    assert said["decides"].startswith("p with all 140 missing answers right, the largest that can be: the FAIL stands")
    if method is Method.EXACT_MCNEMAR:
        assert said["p if wrong"].startswith("b = 180 right to wrong, c = 0 wrong to right: ")
        assert said["p if right"].startswith("b = 40 right to wrong, c = 0 wrong to right: ")


@pytest.mark.parametrize("method", [Method.MODERATED_T, Method.BETA_BINOMIAL_PREDICTIVE, Method.FLIP_PREDICTION])
def test_a_count_is_shown_with_its_tail(make_spec: Maker, method: Method) -> None:
    """The p-value of a rule that counts stands there as a formula with the numbers put in, at both ends if two."""
    stored = record(spec_of(make_spec, method), flipped(N, range(30)), HISTORY)
    said = lines(derive(stored, HISTORY))
    assert stored.verdict.p_value is not None
    assert said["p"].endswith(f"= {stored.verdict.p_value:.4g}")
    ends = stopped(make_spec, method, HISTORY, "w" * 60)
    assert "<= 0)" in ends["p if wrong"] or "(0 + 1/2" in ends["p if wrong"]
    assert "140" in ends["p if right"]


def test_no_zero_stands_for_what_is_too_small(make_spec: Maker) -> None:
    """A tail that no float holds is shown by its power of ten, and widened by the guard it is an ordinary number."""
    n = 3000
    past = detailed([flipped(n, range(start, start + 100)) for start in (0, 3, 6)])
    spec = spec_of(make_spec, Method.EXACT_CONDITIONAL)
    stored = record(spec, "w" * n, past)
    said = lines(derive(stored, past))
    assert re.search(r"= \d\.\d+e-\d{4}: ", said["p"]), said["p"]
    assert stored.verdict.p_value is not None
    assert 0 < stored.verdict.p_value < 1e-6
    assert said["guarded p"].endswith(f"= {stored.verdict.p_value:.4g}")
    assert not any("= 0 " in text or text.endswith("= 0") for text in said.values()), said


@pytest.mark.parametrize("method", [Method.EXACT_MCNEMAR, Method.BETA_BINOMIAL_PREDICTIVE])
def test_a_rule_on_the_newest_run_says_that_it_leaves_the_others(make_spec: Maker, method: Method) -> None:
    """It is named which run decides, and that the others of the norm do not; by the lock too."""
    said = lines(derive(record(spec_of(make_spec, method), flipped(N, range(20)), HISTORY), HISTORY))
    newest, others = HISTORY.runs[-1].run_id, len(HISTORY.runs) - 1
    assert said["rests on"].startswith(f"{newest} (")
    assert f"the newest run of the norm alone, its {others} older ones are not used" in said["rests on"]
    past = locked(HISTORY, N, replace(AUTO, method=method))
    held = lines(derive(record(spec_of(make_spec, Method.LOCKED), flipped(N, range(20)), past), past))
    assert f"{method.value} rests on the newest run of the norm alone" in held["rests on"]
