"""How a verdict follows from its record, and what would change it, as text."""

from __future__ import annotations

from collections.abc import Iterator

from gatekit.gate.derivation import Derivation
from gatekit.gate.sensitivity import Change, Sensitivity
from gatekit.gate.wording import accuracy, tail
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome, Verdict
from gatekit.report.escape import escape_terminal
from gatekit.report.fact_lines import fact_lines
from gatekit.report.faults import fault_lines
from gatekit.report.served_lines import most_characters, served_lines

_TEXT_CHARACTERS = 600
_ALL_RIGHT = " at questions that all earlier runs got right"
_MOST_RIGHT = ", where most earlier runs were right,"

Line = tuple[str, str]


def derivation_text(record: RunRecord, derivation: Derivation) -> str:
    """The verdict, its steps, whether it holds today, and what would change it."""
    verdict = record.verdict
    head = f"{verdict.outcome.value}  {record.spec.name}: {verdict.reason}"
    lines = [_safe(head), ""]
    facts = [("run", record.run_id), *((step.label, step.text) for step in derivation.steps), *_seen_again(verdict)]
    facts += [*fault_lines(record), *served_lines(record)]
    facts += [("today", _today(derivation))]
    if derivation.sensitivity is not None:
        by_p_value = verdict.rule is not None and verdict.rule.by_p_value
        facts += _changes(derivation.sensitivity, is_stopped=record.counts.unasked > 0, by_p_value=by_p_value)
    facts += [("note", note) for note in (verdict.rule.notes if verdict.rule else ())]
    for label, text in facts:
        lines += fact_lines(label, text, most_characters=most_characters(label, _TEXT_CHARACTERS))
    return "\n".join(lines) + "\n"


def _safe(text: str) -> str:
    return escape_terminal(text, limit=_TEXT_CHARACTERS)


def _seen_again(verdict: Verdict) -> Iterator[Line]:
    """What rules on earlier runs add."""
    if verdict.p_value is not None:
        yield "p-value", f"{verdict.p_value:.3g}" if verdict.p_value else tail(0.0)
    if verdict.churn is not None:
        churn = verdict.churn
        sides = f"{churn.right_to_wrong} right to wrong, {churn.wrong_to_right} wrong to right"
        surprise = "" if churn.p_value is None else f" (p {tail(churn.p_value)})"
        yield "churn", f"{sides} against {churn.run_id}{surprise}"
    if verdict.cause is not None:
        yield "cause", verdict.cause


def _today(derivation: Derivation) -> str:
    if derivation.disagreement is not None:
        return f"DIFFERS: {derivation.disagreement}"
    if derivation.recomputed is None:
        return "as stored: it does not follow from what is at hand"
    return f"computed anew from the record: {derivation.recomputed.value}, as stored"


def _changes(found: Sensitivity, *, is_stopped: bool, by_p_value: bool) -> Iterator[Line]:
    fewer, more = (_ALL_RIGHT, _MOST_RIGHT) if by_p_value else ("", "")
    yield "fewer right", _change(found.fewer, "right answer", fewer, "wrong", is_stopped=is_stopped)
    yield "more right", _change(found.more, "wrong answer", more, "right", is_stopped=is_stopped)
    if found.lost_borne is not None:
        answers = "1 more answer" if found.lost_borne == 1 else f"{found.lost_borne} more answers"
        yield "losses borne", f"{answers} could be lost, whichever, and the verdict stands"
    if found.fails_from_alpha is not None:
        yield "other alphas", f"a FAIL at every alpha of {found.fails_from_alpha:.3g} or more, at no smaller one"
    if found.passes_to_floor is not None:
        yield (
            "other floors",
            f"an effective floor of up to {accuracy(found.passes_to_floor)} is reached, a higher one is not",
        )


def _change(change: Change | None, what: str, which: str, to: str, *, is_stopped: bool) -> str:
    if change is None:
        return f"no number of {what}s{which} turned {to} changes the verdict"
    answers = f"1 {what}{which}" if change.answers == 1 else f"{change.answers} {what}s{which}"
    goes_on = is_stopped and change.outcome is Outcome.INCONCLUSIVE
    return f"{answers} turned {to}: {'the run would have had to go on' if goes_on else change.outcome.value}"
