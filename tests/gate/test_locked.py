"""Gates that decide by a threshold which was derived before and reviewed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gatekit.gate.decide import decide
from gatekit.gate.settled import settled
from gatekit.records.past import QUARANTINED, SUPERSEDED, Past
from gatekit.records.run import Comparability
from gatekit.records.spec import EarlyStop, MeasuredUnder, Method, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.stats.next_count import NextCount, count_tail
from gatekit.stats.predictive import predictive_count
from lock_builders import AUTO, KEY, lock_of, locked
from past_builders import detailed, flipped, run, statuses, totals

Maker = Callable[..., Spec]
N = 200
PASS, FAIL, INCONCLUSIVE = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
HISTORY = totals([178, 180, 182], N)


def gate(**fields: object) -> dict[str, object]:
    """A locked gate without a number of its own."""
    return {"method": Method.LOCKED, "floor": None} | fields


def judged(spec: Spec, wrong: int, past: Past) -> Verdict:
    """The verdict of a run with so many wrong answers."""
    return decide(spec, statuses(flipped(N, range(wrong))), past)


def test_a_lock_decides_by_its_count(make_spec: Maker) -> None:
    """One right answer under k_reject is a FAIL, k_reject a PASS, and the p-value is that of the predicted count."""
    past, spec = locked(HISTORY, N), make_spec(gate=gate())
    lock = past.lock
    assert lock is not None
    assert lock.k_reject == 173  # as moderated_t by hand, in test_ladder
    fails, passes = judged(spec, N - 172, past), judged(spec, N - 173, past)
    assert (fails.outcome, fails.reason_code, passes.outcome) == (FAIL, "below-threshold", PASS)
    assert lock.df is not None
    assert fails.p_value == count_tail(NextCount(mean=lock.mean, sd=lock.sd, df=lock.df), 172) <= 0.01
    rule = fails.rule
    assert rule is not None
    assert (rule.method, rule.k_reject, rule.alpha, rule.used) == ("locked", 173, 0.01, ("t0", "t1", "t2"))
    assert rule.why.startswith("the lock of spec (moderated_t; auto: totals of 3 distinct builds, no answers per")
    assert f"inputs {lock.inputs[:15]}..." in rule.why


def test_a_lock_stays_when_history_moves_on(make_spec: Maker) -> None:
    """Later runs, or none at all, leave the verdict of a lock as it was."""
    past, spec = locked(HISTORY, N), make_spec(gate=gate())
    later = replace(past, runs=(*past.runs, *(run(f"x{i}", None, n=N, correct=150 + i) for i in range(9))))
    for wrong in (27, 28):
        found = {judged(spec, wrong, other).outcome for other in (past, later, replace(past, runs=()))}
        assert len(found) == 1


def test_a_floor_binds_beside_a_lock(make_spec: Maker) -> None:
    """Below gate.floor a run is a FAIL that names the floor, although the lock would let it pass."""
    spec, past = make_spec(gate=gate(floor=0.9)), locked(HISTORY, N)
    assert judged(spec, 20, past).outcome is PASS
    below = judged(spec, 21, past)
    assert (below.outcome, below.reason_code) == (FAIL, "below-floor")
    assert below.rule is not None
    assert below.rule.k_reject == 180


def test_between_the_counts_of_a_lock_is_no_verdict(make_spec: Maker) -> None:
    """A lock derived with a delta has k_accept, and a run between the two counts is INCONCLUSIVE."""
    past = locked(HISTORY, N, replace(AUTO, delta=0.02))
    assert past.lock is not None
    assert past.lock.k_accept is not None
    assert past.lock.k_accept > past.lock.k_reject
    between = judged(make_spec(gate=gate()), N - past.lock.k_accept + 1, past)
    assert (between.outcome, between.reason_code) == (INCONCLUSIVE, "between-thresholds")
    assert judged(make_spec(gate=gate()), N - past.lock.k_accept, past).outcome is PASS


def test_no_lock_is_no_verdict(make_spec: Maker) -> None:
    """Without a lock the run is INCONCLUSIVE, and the command that makes one is named."""
    verdict = judged(make_spec(gate=gate()), 0, replace(HISTORY, key=KEY))
    assert (verdict.outcome, verdict.reason_code, verdict.rule) == (INCONCLUSIVE, "no-lock", None)
    assert verdict.outcome.exit_code == 4
    assert "gatekit thresholds recompute" in verdict.hint
    assert "--write" in verdict.hint


def test_a_lock_of_another_series_says_what_differs(make_spec: Maker) -> None:
    """Fields that differ are named with both values, digests shortened; many are counted."""
    fields = dict(KEY.fields) | {"protocol.api": "completions", "question_ids": "sha256:" + "c" * 64}
    past = replace(locked(HISTORY, N), key=Comparability(key="sha256:" + "d" * 64, fields=fields))
    verdict = judged(make_spec(gate=gate()), 0, past)
    assert (verdict.outcome, verdict.reason_code) == (INCONCLUSIVE, "lock-other-key")
    assert "protocol.api: chat -> completions" in verdict.reason
    assert "question_ids: sha256:bbbbbbbb... -> sha256:cccccccc..." in verdict.reason
    many = Comparability(key="sha256:" + "e" * 64, fields={f"f{i}": i for i in range(9)})
    assert judged(make_spec(gate=gate()), 0, replace(past, key=many)).reason.endswith(", 9 more")


def test_a_key_that_is_not_known_is_another_one(make_spec: Maker) -> None:
    """Where the run's own key is unknown, a lock cannot be trusted to be its own."""
    verdict = judged(make_spec(gate=gate()), 0, replace(locked(HISTORY, N), key=None))
    assert (verdict.outcome, verdict.reason_code) == (INCONCLUSIVE, "lock-other-key")


def test_a_lock_of_another_number_of_questions(make_spec: Maker) -> None:
    """A threshold of 1319 questions says nothing of a run of 200, and both numbers are told."""
    past = replace(HISTORY, key=KEY, lock=lock_of(totals([1250, 1253], 1319), 1319))
    verdict = judged(make_spec(gate=gate()), 0, past)
    assert (verdict.outcome, verdict.reason_code) == (INCONCLUSIVE, "lock-other-n")
    assert "1319 questions, this run has 200" in verdict.reason


def test_a_run_that_lost_too_much_is_infra_without_a_lock_too(make_spec: Maker) -> None:
    """A first run of a locked gate that lost more than allowed is INFRA, not INCONCLUSIVE."""
    assert decide(make_spec(gate=gate()), statuses("c" * 190 + "l" * 10), Past()).reason_code == "too-many-lost"


def test_churn_is_told_beside_a_lock(make_spec: Maker) -> None:
    """The answers of the history still tell churn: as many turned right as wrong pass with a warning."""
    past = locked(detailed([flipped(N, range(20)), flipped(N, range(1, 21)), flipped(N, range(2, 22))]), N)
    moved = decide(make_spec(gate=gate()), statuses(flipped(N, range(100, 120))), past)
    assert moved.outcome is PASS
    assert moved.churn is not None
    assert (moved.churn.right_to_wrong, moved.churn.wrong_to_right) == (20, 20)
    assert any(warning.startswith("churn: ") for warning in moved.warnings)


@pytest.mark.parametrize("early_stop", [EarlyStop.WOR_MIXTURE, EarlyStop.PAIRED_SPRT])
def test_a_locked_gate_stops_early_at_the_alpha_of_its_lock(make_spec: Maker, early_stop: EarlyStop) -> None:
    """A locked gate without alpha shares that of its lock, and a dead kernel is a FAIL before all were asked."""
    past = locked(detailed([flipped(N, range(10 + i, 30 + i)) for i in range(3)]), N)
    spec = make_spec(gate=gate(early_stop=early_stop, delta=0.1), task={"order_seed": 1})
    assert decide(spec, statuses("w" * 15 + "-" * 185), past).reason_code == "sequential-fail"


def test_a_locked_run_is_settled_by_its_count(make_spec: Maker) -> None:
    """27 wrong answers leave 173 possible; with one more the run can only fail; without a lock nothing is settled."""
    past, spec = locked(HISTORY, N), make_spec(gate=gate())
    assert settled(spec, statuses("w" * 27 + "-" * 173), past) is None
    assert settled(spec, statuses("w" * 28 + "-" * 172), past) is FAIL
    assert settled(spec, statuses("w" * 200), HISTORY) is None


def test_a_floor_of_another_protocol_does_not_veto_a_lock(make_spec: Maker) -> None:
    """A lock holds for its own key: a floor that was measured elsewhere neither decides nor keeps it from deciding."""
    past, under = locked(HISTORY, N), MeasuredUnder(max_tokens=99)
    spec = make_spec(gate=gate(floor=0.99, measured_under=under))
    passed, failed = judged(spec, N - 173, past), judged(spec, N - 172, past)
    assert (passed.outcome, failed.outcome, failed.reason_code) == (PASS, FAIL, "below-threshold")
    assert passed.rule is not None
    assert passed.rule.k_reject == 173
    (told,) = [line for line in passed.warnings if "does not bind" in line]
    assert told.startswith("gate.floor 0.99 does not bind: it was measured under max_tokens=99 (this run: 1024)")
    assert settled(spec, statuses("w" * 28 + "-" * 172), past) is FAIL
    same = make_spec(gate=gate(floor=0.99, measured_under=MeasuredUnder(max_tokens=1024)))
    assert judged(same, N - 173, past).reason_code == "below-floor"


@pytest.mark.parametrize("why", [QUARANTINED, SUPERSEDED])
def test_a_lock_rests_on_no_run_that_was_set_aside(make_spec: Maker, why: str) -> None:
    """A run behind the lock that was quarantined or superseded since leaves it without a verdict, and is named."""
    past, spec = locked(HISTORY, N), make_spec(gate=gate())
    gone = replace(past, runs=past.runs[1:], left_out={"t0": why})
    verdict = judged(spec, 0, gone)
    assert (verdict.outcome, verdict.reason_code, verdict.rule) == (INCONCLUSIVE, "lock-run-set-aside", None)
    assert verdict.reason == f"the lock of spec rests on run t0 ({why} since)"
    assert "gatekit thresholds recompute ... --write" in verdict.hint
    every = replace(past, runs=(), left_out=dict.fromkeys(("t0", "t1", "t2"), why))
    assert judged(spec, 0, every).reason.endswith(" and 1 more")
    older = replace(past, runs=(), left_out=dict.fromkeys(("t0", "t1", "t2"), "before the rebaseline"))
    assert judged(spec, 0, older).outcome is PASS


@pytest.mark.parametrize("method", [Method.BETA_BINOMIAL_PREDICTIVE, Method.MODERATED_T, Method.FLIP_PREDICTION])
def test_a_lock_states_the_rates_of_its_own_rule(make_spec: Maker, method: Method) -> None:
    """A rule that counts says the same of a count as a rule and as a lock: its false alarms and its p-value."""
    runs = [flipped(N, range(start, start + 18 + start // 10)) for start in (0, 10, 20)]
    past, asked = detailed(runs), replace(AUTO, method=method)
    spec = make_spec(gate={"method": method, "floor": None, "alpha": AUTO.alpha})
    for wrong in (10, 24, 30):
        as_rule = judged(spec, wrong, past)
        by_lock = judged(make_spec(gate=gate()), wrong, locked(past, N, asked))
        assert as_rule.rule is not None
        assert by_lock.rule is not None
        assert by_lock.rule.k_reject == as_rule.rule.k_reject
        assert by_lock.rule.realised_alpha == as_rule.rule.realised_alpha
        assert (by_lock.outcome, by_lock.p_value) == (as_rule.outcome, as_rule.p_value)


def test_a_lock_on_one_total_keeps_its_rate_beside_an_early_stop(make_spec: Maker) -> None:
    """At half of its alpha the count of a lock is that of its rule at half: the tail is the beta-binomial one."""
    past = totals([190], N)
    asked = replace(AUTO, method=Method.BETA_BINOMIAL_PREDICTIVE)
    spec = make_spec(gate=gate(early_stop=EarlyStop.WOR_MIXTURE, delta=0.15), task={"order_seed": 7})
    rule = judged(spec, 0, locked(past, N, asked)).rule
    assert rule is not None
    assert rule.early is not None
    assert rule.k_reject == predictive_count(190, N, N, 0.005).k_pass
    assert rule.realised_alpha is not None
    assert rule.realised_alpha <= 0.005
