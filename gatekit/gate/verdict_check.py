"""Whether an outcome can follow from the counts that are told with it."""

from __future__ import annotations

from gatekit.records.answers import Counts
from gatekit.records.verdict import Outcome, Rule, Verdict


def outcome_flaw(verdict: Verdict, counts: Counts) -> str | None:
    """Why no gate can have come from these counts to this PASS or FAIL; None where one can.

    A PASS has enough right answers with every open question wrong, a FAIL too few with every open question right. A
    sequential test decides otherwise where questions were left unasked, and a p-value beside the count of its rule.
    """
    rule, outcome = verdict.rule, verdict.outcome
    if rule is not None and rule.n != counts.n:
        return f"its rule is one for {rule.n} questions, and it counts {counts.n}"
    if outcome not in (Outcome.PASS, Outcome.FAIL):
        return None
    if rule is None:
        return f"it is {outcome.value} by no rule"
    if counts.unasked and rule.early is not None:
        return None
    return _passed(rule, counts) if outcome is Outcome.PASS else _failed(rule, counts)


def _passed(rule: Rule, counts: Counts) -> str | None:
    needed = max(0 if rule.by_p_value else rule.k_reject, rule.k_accept or 0)
    if counts.correct >= needed:
        return None
    return f"it is PASS with {counts.correct} of {counts.n} right, and its rule asks for {needed}"


def _failed(rule: Rule, counts: Counts) -> str | None:
    best = counts.correct + counts.lost + counts.unasked
    if rule.by_p_value or best < rule.k_reject:
        return None
    return f"it is FAIL with {best} of {counts.n} right or open, and its rule fails below {rule.k_reject}"
