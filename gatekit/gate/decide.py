"""The verdict of one run: a pure function of the spec and the counts."""

from __future__ import annotations

from gatekit.gate import reasons
from gatekit.gate.case import Case
from gatekit.gate.enough import enough
from gatekit.gate.reasons import Reason
from gatekit.gate.rule import rule
from gatekit.records.answers import Counts
from gatekit.records.spec import Spec
from gatekit.records.verdict import Interval, Outcome, Verdict
from gatekit.stats.interval import wilson
from gatekit.stats.missing import agreed_outcome, missing_bounds

_CONFIDENCE = 0.95


def decide(spec: Spec, counts: Counts) -> Verdict:
    """PASS, FAIL, INFRA or INCONCLUSIVE for one run, with the rule, the interval and the reason in numbers.

    In this order: another protocol than the gate was measured under; lost answers, two-sided; truncation; too
    few questions; the counts. Raises ConfigError as `gatekit.gate.rule.rule` does.
    """
    early = reasons.mismatch(spec, counts) or reasons.no_questions(counts)
    case = None if early else _case(spec, counts)
    outcome, reason = _judge(case) if case else (Outcome.INCONCLUSIVE, early)
    assert reason is not None
    return Verdict(
        outcome=outcome,
        reason_code=reason.code,
        reason=reason.text,
        hint=reason.hint,
        rule=case.rule if case else None,
        interval=_interval(counts),
        warnings=(*_standing_warnings(spec), *(_truncation_warning(case, outcome) if case else ())),
    )


def _case(spec: Spec, counts: Counts) -> Case:
    gate, n = spec.gate, counts.n
    return Case(gate=gate, counts=counts, rule=rule(gate, n), enough=enough(gate, n))


def _judge(case: Case) -> tuple[Outcome, Reason]:
    agreed = agreed_outcome(missing_bounds(case.counts.correct, case.counts.lost), case.outcome)
    if agreed is None:
        return Outcome.INFRA, reasons.lost_decide(case)
    if agreed is Outcome.FAIL:
        return agreed, reasons.failed(case)
    if case.is_over_lost:
        return Outcome.INFRA, reasons.too_many_lost(case)
    if agreed is Outcome.PASS:
        return agreed, reasons.passed(case)
    return Outcome.INCONCLUSIVE, reasons.inconclusive(case)


def _interval(counts: Counts) -> Interval | None:
    """Wilson at 95 %: from the low end if all lost answers were wrong to the high end if all were right."""
    if counts.n == 0:
        return None
    bounds = missing_bounds(counts.correct, counts.lost)
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


def _truncation_warning(case: Case, outcome: Outcome) -> tuple[str, ...]:
    cut = case.counts.truncated
    if outcome is not Outcome.FAIL or case.counts.correct + cut < case.rule.k_reject:
        return ()
    what = "1 answer was" if cut == 1 else f"{cut} answers were"
    return (f"truncation alone may explain the FAIL: {what} cut off; raise protocol.max_tokens and run again",)
