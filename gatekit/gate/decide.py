"""The verdict of one run: a pure function of the spec, the answers, and the earlier runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gatekit.gate import reasons
from gatekit.gate.churn import churn
from gatekit.gate.criterion import Criterion, binding_gate, is_mismatched, mismatches
from gatekit.gate.drift import alarm, baseline
from gatekit.gate.early_stop import EarlyTest, detailed_runs, early_outcome, early_test
from gatekit.gate.exchangeable import exchangeable
from gatekit.gate.locked import LockFault
from gatekit.gate.reasons import Reason
from gatekit.gate.repeats import dependence, interval_of_shares
from gatekit.gate.rung import Shortage
from gatekit.gate.split_criterion import criterion
from gatekit.gate.strata import Statuses, sorter
from gatekit.gate.trial import Trial, is_over_lost
from gatekit.gate.wording import accuracy, p_value, percent
from gatekit.records.answers import Counts, Status, tally
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import EarlyStop, Method, Spec
from gatekit.records.verdict import Churn, Interval, Outcome, Rule, Verdict
from gatekit.stats.interval import wilson
from gatekit.stats.missing import missing_bounds

_CONFIDENCE = 0.95
TRUNCATION = "truncation"
_NO_SERIES = (Method.STATIC_FLOOR, Method.EXACT_BINOMIAL, Method.LOCKED)


def decide(spec: Spec, statuses: Statuses, past: Past) -> Verdict:
    """PASS, FAIL, INFRA or INCONCLUSIVE for one run, with the rule, the interval and the reason in numbers.

    `statuses` has one entry per planned answer, in asking order: None for one that was not asked for. In this
    order: no question at all; too short a history, or no lock that holds; another protocol than a typed number
    was measured under; lost and unasked answers, two-sided, or the gate's sequential test where the run was cut
    short; truncation; too few questions; the test; repeats of a question that hang together. Raises ConfigError
    as `gatekit.gate.rule.rule` does, and ValueError when an earlier run answered other questions.
    """
    counts = tally(statuses)
    found = criterion(spec, counts.n, past) if counts.n else None
    if found is None:
        judged = _Judged(outcome=Outcome.INCONCLUSIVE, reason=reasons.no_questions())
    elif not isinstance(found, Criterion):
        judged = _short(spec, counts, found, past)
    else:
        judged = _judged(spec, statuses, counts, found, past)
    return Verdict(
        outcome=judged.outcome,
        reason_code=judged.reason.code,
        reason=judged.reason.text,
        hint=judged.reason.hint,
        rule=_told(spec, judged.trial.rule, past) if judged.trial else None,
        interval=_interval(statuses, counts, spec.protocol.repeats),
        warnings=(
            *_standing_warnings(spec),
            *_floor_warning(judged),
            *_void_floor_warning(spec, judged),
            *_churn_warning(judged),
            *_drift_warning(spec, statuses, judged, past),
        ),
        p_value=_p_value(judged),
        churn=judged.churn,
        cause=TRUNCATION if judged.reason.code == TRUNCATION else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    outcome: Outcome
    reason: Reason
    trial: Trial | None = None
    churn: Churn | None = None
    by_test: bool = True  # the rule's own; a sequential test leaves it without a p-value


def _told(spec: Spec, rule: Rule, past: Past) -> Rule:
    """The rule with what sets the runs of the model's last other series apart, while the norm of this one grows."""
    is_growing = spec.gate.method not in _NO_SERIES and len(rule.used) < spec.gate.baseline_builds
    if not is_growing or not past.changes:
        return rule
    return replace(rule, notes=(*rule.notes, f"another series: {past.changes[0]}"))


def _short(spec: Spec, counts: Counts, shortage: Shortage | LockFault, past: Past) -> _Judged:
    """Without history or lock there is no verdict; a run that lost too much cannot become history either."""
    if is_over_lost(spec.gate, counts):
        return _Judged(outcome=Outcome.INFRA, reason=reasons.too_many_lost(spec.gate, counts))
    if isinstance(shortage, LockFault):
        return _Judged(outcome=Outcome.INCONCLUSIVE, reason=reasons.unlocked(shortage))
    reason = reasons.too_short(shortage, spec.gate)
    if past.changes:
        reason = replace(reason, text=f"{reason.text}; {past.changes[0]}")
    return _Judged(outcome=Outcome.INCONCLUSIVE, reason=reason)


def _judged(spec: Spec, statuses: Statuses, counts: Counts, found: Criterion, past: Past) -> _Judged:
    strata = sorter(found.before, len(found.runs))(statuses)
    repeats = spec.protocol.repeats
    gate = binding_gate(spec, counts.n)
    trial = Trial(gate=gate, counts=counts, strata=strata, criterion=found, repeats=repeats)
    if is_mismatched(spec, counts.n, found):
        reason = reasons.mismatch(spec, counts)
        assert reason is not None
        return _Judged(outcome=Outcome.INCONCLUSIVE, reason=reason, trial=None)
    changed = churn(found.runs, statuses)
    sequential = _sequential(spec, trial, statuses, past)
    outcome, reason = sequential or outcome_of(trial, changed)
    alike = dependence(statuses, repeats, found.runs)
    if alike is not None and alike.overrules(outcome, found.rule.alpha):
        outcome, reason = Outcome.INCONCLUSIVE, reasons.dependent(alike, reason)
    return _Judged(outcome=outcome, reason=reason, trial=trial, churn=changed, by_test=sequential is None)


def sequential_test(spec: Spec, n: int, past: Past) -> EarlyTest | None:
    """The gate's sequential test of n questions; None where the gate has none, or no rule yet to take it from."""
    found = criterion(spec, n, past) if n else None
    if not isinstance(found, Criterion):
        return None
    return _early_test(spec, found, past)


def _early_test(spec: Spec, found: Criterion, past: Past) -> EarlyTest | None:
    method, early, n = spec.gate.early_stop, found.rule.early, found.rule.n
    if method is EarlyStop.NONE:
        return None
    if early is None:
        return EarlyTest(method=method, test=None, note=found.early_note)
    runs = detailed_runs(exchangeable(spec.gate, spec.hw.name, n, past))
    return EarlyTest(method=method, test=early_test(spec.gate, n, early, runs), note=found.early_note)


def _sequential(spec: Spec, trial: Trial, statuses: Statuses, past: Past) -> tuple[Outcome, Reason] | None:
    """What the gate's sequential test says of a run that was cut short; None where its verdict is certain anyway.

    It may pass only what the floor and the limits for lost and truncated answers let pass.
    """
    counts = trial.counts
    if not counts.unasked or trial.agreed() is not None:
        return None
    early = _early_test(spec, trial.criterion, past)
    if early is None or early.test is None:
        return None
    outcome = early_outcome(early.test, statuses)
    if outcome is None or not trial.allows(outcome):
        return None
    return outcome, reasons.sequential(trial, outcome)


def outcome_of(trial: Trial, changed: Churn | None = None) -> tuple[Outcome, Reason]:
    """The outcome of a trial and why; the churn is told beside a p-value."""
    agreed = trial.agreed()
    if agreed is None and trial.counts.unasked:
        return Outcome.INCONCLUSIVE, reasons.unasked_decide(trial)
    if agreed is None and (trial.is_drop or not trial.is_over_lost):
        return Outcome.INFRA, reasons.lost_decide(trial)
    if agreed is Outcome.FAIL:
        return agreed, reasons.failed(trial, changed)
    if agreed is None or trial.is_over_lost:
        return Outcome.INFRA, reasons.too_many_lost(trial.gate, trial.counts)
    if agreed is Outcome.PASS:
        return agreed, reasons.passed(trial, changed)
    return Outcome.INCONCLUSIVE, reasons.inconclusive(trial)


def _p_value(judged: _Judged) -> float | None:
    """With open questions: the largest one for a FAIL, which it stands in spite of, else the smallest."""
    if judged.trial is None or not judged.by_test:
        return None
    return judged.trial.p_value(open_=judged.outcome is Outcome.FAIL)


def _interval(statuses: Statuses, counts: Counts, repeats: int) -> Interval | None:
    """Wilson at 95 %: from the low end if all open questions were wrong to the high end if all were right."""
    if counts.n == 0:
        return None
    if repeats > 1 and counts.n % repeats == 0:
        return interval_of_shares(statuses, repeats, _CONFIDENCE)
    bounds = missing_bounds(counts.correct, counts.lost + counts.unasked)
    low = wilson(bounds.worst, counts.n, _CONFIDENCE).low
    high = wilson(bounds.best, counts.n, _CONFIDENCE).high
    return Interval(low=low, high=high, confidence=_CONFIDENCE)


def _standing_warnings(spec: Spec) -> tuple[str, ...]:
    found = []
    if spec.simulated:
        kind = spec.engine.kind.value
        found.append(f"simulated: the answers come from the bundled {kind} server, not from a model")
    if spec.model.unpinned:
        found.append(f"unpinned: {spec.model.name} has no fixed revision ({spec.model.unpinned})")
    return tuple(found)


def _floor_warning(judged: _Judged) -> tuple[str, ...]:
    """A floor above what the rule asks for decides alone, at a rate of its own."""
    trial = judged.trial
    if trial is None or not trial.criterion.floor_binds:
        return ()
    found, rule = trial.criterion, trial.rule
    own = "the lock" if rule.method == Method.LOCKED.value else "history" if rule.used else "gate.observed"
    asks = f"gate.floor {accuracy(trial.gate.floor or 0.0)} asks for {found.floor}, {own} for {found.alone}"
    rate = "" if rule.realised_alpha is None else f" fails about {percent(rule.realised_alpha)} of healthy runs"
    return (f"floor binds: {asks}; it alone{rate}; gate.floor=null lets {own} decide",)


def _void_floor_warning(spec: Spec, judged: _Judged) -> tuple[str, ...]:
    """A floor that was measured under another protocol, beside a lock that holds for this one."""
    gate = spec.gate
    if gate.method is not Method.LOCKED or gate.floor is None or judged.trial is None:
        return ()
    other = mismatches(spec, judged.trial.counts.n)
    if not other:
        return ()
    what = f"gate.floor {accuracy(gate.floor)} does not bind: it was measured under {', '.join(other)}"
    return (f"{what}; the lock decides alone",)


def _churn_warning(judged: _Judged) -> tuple[str, ...]:
    """Damage that turns as many answers right as wrong leaves the accuracy as it was."""
    changed, trial = judged.churn, judged.trial
    if trial is None or changed is None or changed.p_value is None or judged.outcome is Outcome.FAIL:
        return ()
    alpha = trial.rule.alpha
    if alpha is None or changed.p_value > alpha:
        return ()
    both = f"{changed.right_to_wrong} right to wrong and {changed.wrong_to_right} wrong to right"
    what = f"churn: {both} since run {changed.run_id}, more than between earlier runs (p {p_value(changed.p_value)})"
    return (f"{what}: the numerics changed although the accuracy did not",)


def _drift_warning(spec: Spec, statuses: Statuses, judged: _Judged, past: Past) -> tuple[str, ...]:
    """Counts that are each within chance, and together too low. A FAIL that began with this run says so itself."""
    trial, n = judged.trial, len(statuses)
    if trial is None or trial.counts.lost or trial.counts.unasked:
        return ()
    history = exchangeable(spec.gate, spec.hw.name, n, past)
    norm = baseline(spec.gate, n, history, past.lock if spec.gate.method is Method.LOCKED else None)
    if norm is None:
        return ()
    found = alarm(replace(norm, later=(*norm.later, _this_run(spec, statuses, trial.counts.correct))))
    if found is None or (judged.outcome is Outcome.FAIL and found.is_one_run):
        return ()
    return (found.text,)


def _this_run(spec: Spec, statuses: Statuses, correct: int) -> PastRun:
    right = bytes(status is Status.CORRECT for status in statuses)
    hw, n = spec.hw.name, len(statuses)
    return PastRun(run_id="", build=None, hardware=hw, finished_at="", n=n, correct=correct, outcomes=right)
