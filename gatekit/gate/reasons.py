"""Why a verdict is what it is: a stable code, one sentence with the numbers, and the next step."""

from __future__ import annotations

from dataclasses import dataclass

from gatekit.gate.case import Case
from gatekit.gate.enough import margin, n_to_decide, n_to_fail, n_to_pass
from gatekit.gate.wording import bare_percent, points, seen
from gatekit.records.answers import Counts
from gatekit.records.spec import Spec

_MEND = "mend what the failures of the lost questions name, then run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A stable kebab-case code, one sentence, and what to do next (empty when there is nothing to do)."""

    code: str
    text: str
    hint: str = ""


def mismatch(spec: Spec, counts: Counts) -> Reason | None:
    """Where the run differs from the protocol its gate was measured under; None where it does not."""
    measured, protocol = spec.gate.measured_under, spec.protocol
    if measured is None:
        return None
    pairs = (
        ("api", measured.api, protocol.api),
        ("shots", measured.shots, protocol.shots),
        ("max_tokens", measured.max_tokens, protocol.max_tokens),
        ("n", measured.n, counts.n),
    )
    other = [f"{name}={was} (this run: {now})" for name, was, now in pairs if was is not None and was != now]
    if not other:
        return None
    return Reason(
        code="protocol-mismatch",
        text=f"gate {spec.gate.name} was measured under {', '.join(other)}: its threshold says nothing here",
        hint="run under the protocol of gate.measured_under, or measure the gate again under this one",
    )


def no_questions(counts: Counts) -> Reason | None:
    """Nothing was asked; None where something was."""
    if counts.n > 0:
        return None
    hint = "set task.n to at least 1, or leave it out to ask all"
    return Reason(code="no-questions", text="no question was asked", hint=hint)


def passed(case: Case) -> Reason:
    """Enough right answers."""
    return Reason(code="at-or-above-threshold", text=f"{_seen(case)}, {_needed(case)}{_lost_aside(case)}")


def failed(case: Case) -> Reason:
    """Too few right answers."""
    needed = f"at least {case.rule.k_reject} needed"
    aside = "" if case.k_pass == case.rule.k_reject else f" not to fail ({case.k_pass} to pass)"
    return Reason(
        code="below-threshold",
        text=f"{_seen(case)}, {needed}{aside}{_lost_aside(case)}",
        hint="read the wrong answers in the record, beside those of the last run that passed",
    )


def lost_decide(case: Case) -> Reason:
    """The verdict hangs on the lost answers."""
    counts = case.counts
    reach = f"{counts.correct} to {counts.correct + counts.lost} correct, {_needed(case)}"
    text = f"{counts.lost} of {counts.n} answers were lost and decide the verdict: {reach}"
    return Reason(code="lost-answers-decide", text=text, hint=_MEND)


def too_many_lost(case: Case) -> Reason:
    """More answers were lost than the gate allows."""
    counts = case.counts
    share, limit = bare_percent(counts.lost / counts.n), bare_percent(case.gate.max_lost_share)
    text = f"{share} of the answers lost ({counts.lost} of {counts.n}), limit {limit}"
    return Reason(code="too-many-lost", text=text, hint=_MEND)


def inconclusive(case: Case) -> Reason:
    """Which of truncation, too few questions, or the zone between the two counts leaves the run undecided."""
    correct = case.counts.correct
    if case.is_over_truncated:
        return _too_many_truncated(case)
    if correct < case.rule.k_reject:
        return _too_small(case, "FAIL", n_to_fail(case.gate))
    if correct >= case.k_pass or case.k_pass > case.counts.n:
        return _too_small(case, "PASS", n_to_pass(case.gate))
    return _between(case)


def _too_many_truncated(case: Case) -> Reason:
    counts = case.counts
    share, limit = bare_percent(counts.truncated / counts.n), bare_percent(case.gate.max_truncated_share)
    return Reason(
        code="too-many-truncated",
        text=f"{share} truncated, limit {limit}: raise protocol.max_tokens",
        hint=f"{counts.truncated} of {counts.n} answers were cut off at protocol.max_tokens",
    )


def _too_small(case: Case, verdict: str, needed: int | None) -> Reason:
    n, name = case.counts.n, case.gate.name
    if needed is None:
        never = "can never FAIL" if case.rule.k_reject <= 0 else f"can never give a {verdict}"
        text = f"{_seen(case)}, but gate {name} {never}, whatever the number of questions"
        return Reason(code="gate-cannot-decide", text=text, hint="change gate.floor, gate.tolerance or gate.delta")
    few = "1 question is too few" if n == 1 else f"{n} questions are too few"
    limit = f"a margin of {points(margin(case.gate))} needs at least {needed}"
    text = f"{_seen(case)}, but {few} for a {verdict}: {limit}"
    return Reason(code="too-small", text=text, hint=f"set task.n to {needed} or more")


def _between(case: Case) -> Reason:
    zone = f"under {case.rule.k_reject} is a FAIL, {case.k_pass} or more a PASS"
    alpha = case.rule.alpha if case.rule.alpha is not None else case.rule.realised_alpha
    needed = n_to_decide(case.gate, case.rule.n, alpha)
    more = "ask more questions" if needed is None else f"ask about {needed} questions"
    return Reason(
        code="between-thresholds",
        text=f"{_seen(case)}: {zone}, and in between the run cannot tell",
        hint=f"{more}, or accept a larger gate.delta",
    )


def _needed(case: Case) -> str:
    return f"at least {case.k_pass} needed"


def _seen(case: Case) -> str:
    return seen(case.counts.correct, case.counts.n)


def _lost_aside(case: Case) -> str:
    lost = case.counts.lost
    what = "1 lost answer" if lost == 1 else f"{lost} lost answers"
    return f"; {what} cannot change the verdict" if lost else ""
