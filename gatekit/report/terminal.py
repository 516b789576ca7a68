"""One screen that explains a verdict: which rule, which counts, which error rates, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from gatekit.gate.wording import listed, p_value, percent, points
from gatekit.records.answers import Counts
from gatekit.records.run import RunRecord
from gatekit.records.spec import Budget, Gate, Method
from gatekit.records.verdict import Churn, Rule, Verdict
from gatekit.report.by_question import by_question
from gatekit.report.escape import escape_terminal
from gatekit.report.fact_lines import fact_lines
from gatekit.report.faults import fault_lines
from gatekit.report.served_lines import most_characters, served_lines

_CELL_CHARACTERS = 300
_KEY_CHARACTERS = 19
# Only of these rules are the false alarms those of a binomial count, in whose standard deviations the distance is.
_BINOMIAL = frozenset({Method.STATIC_FLOOR.value, Method.EXACT_BINOMIAL.value})

Line = tuple[str, str]


def explain(record: RunRecord, *, comparable_runs: int | None = None, stored_at: str | None = None) -> str:
    """The verdict of a run as plain text, about twenty lines, without control characters from anywhere.

    `comparable_runs` is how many earlier runs have the same comparability key, where that is known;
    `stored_at` where the record is kept.
    """
    verdict = record.verdict
    lines = [f"{verdict.outcome.value}  {_safe(record.spec.name)}: {_safe(verdict.reason)}", ""]
    for label, text in _facts(record, comparable_runs):
        lines += fact_lines(label, text, most_characters=most_characters(label, _CELL_CHARACTERS))
    if stored_at is not None:
        lines += fact_lines("record", stored_at, most_characters=_CELL_CHARACTERS)
    return "\n".join(lines) + "\n"


def _safe(text: str) -> str:
    return escape_terminal(text, limit=_CELL_CHARACTERS)


def _facts(record: RunRecord, comparable_runs: int | None) -> Iterator[Line]:
    verdict = record.verdict
    if verdict.hint:
        yield "next", verdict.hint.replace(" RUN ", f" {record.run_id} ")
    counts = record.counts
    has_answers = counts.lost + counts.unasked < counts.n
    if verdict.rule is not None and has_answers:
        yield from _rule(verdict.rule, record.spec.gate)
        yield from _history(verdict.rule)
    if has_answers:
        yield from _p_value(verdict)
        yield from _churn(verdict.churn)
    yield "seen", _seen(counts)
    yield from _repeats(record)
    if has_answers:
        yield from _interval(verdict, counts, record.spec.protocol.repeats)
    yield from fault_lines(record)
    yield from served_lines(record)
    yield "comparable", _compares(record, comparable_runs)
    yield "run", record.run_id
    for note in verdict.rule.notes if verdict.rule is not None and has_answers else ():
        yield "note", note
    for warning in verdict.warnings:
        yield "warning", warning


def _rule(rule: Rule, gate: Gate) -> Iterator[Line]:
    yield "rule", f"{rule.method}: {_counts(rule)}"
    if rule.why and gate.method is Method.AUTO:
        yield "why", rule.why
    yield "false alarms", _false_alarms(rule, gate)
    yield from _early(rule)
    if rule.noticed_drop == 0:
        yield "notices", f"nothing: an unchanged model fails in {percent(rule.power)} of runs or more"
    elif rule.noticed_drop is not None:
        about = "about " if rule.used else ""
        yield "notices", f"a drop of {about}{points(rule.noticed_drop)} or more, in {percent(rule.power)} of runs"


def _counts(rule: Rule) -> str:
    k_pass = max(rule.k_reject, rule.k_accept or 0)
    if rule.by_p_value:
        alpha = "alpha" if rule.alpha is None else f"{rule.alpha:.3g}"
        needs_more = rule.k_accept is not None and rule.k_accept > rule.k_reject
        accept = f"; PASS from {rule.k_accept}" if needs_more else ""
        if rule.realised_alpha is not None:  # that of a floor which binds
            return f"FAIL below {rule.k_reject} of {rule.n} (gate.floor), or where p is at most {alpha}{accept}"
        return f"FAIL where p is at most {alpha}, which is about below {rule.k_reject} of {rule.n}{accept}"
    between = f", {rule.k_reject} to {k_pass - 1} INCONCLUSIVE" if k_pass > rule.k_reject else ""
    return f"FAIL below {rule.k_reject} of {rule.n}, PASS from {k_pass}{between}"


def _early(rule: Rule) -> Iterator[Line]:
    early = rule.early
    if early is None:
        return
    rates = f"false alarms at most {percent(early.alpha)}, misses {percent(early.beta)}"
    if early.healthy is None:
        yield "early stop", f"{early.method}, question by question against {early.builds} builds: {rates}"
    else:
        counts = f"would the whole run reach {early.healthy}, or only {early.dropped}"
        yield "early stop", f"{early.method}: {counts}; {rates}"


def _false_alarms(rule: Rule, gate: Gate) -> str:
    asked = rule.alpha if rule.early is None else rule.early.asked_alpha
    if rule.by_p_value and asked is not None:
        by_floor = "" if rule.realised_alpha is None else f"about {percent(rule.realised_alpha)} by gate.floor, beside "
        of = f"of runs of an unchanged model{_budget(rule, gate.budget, gate.alpha)}"
        return f"{by_floor}at most {percent(asked)} {of}"
    if rule.realised_alpha is None or rule.reference_accuracy is None:
        return "unknown: no healthy accuracy is stated"
    reference = f"{100 * rule.reference_accuracy:.1f} %"
    is_floor = rule.method == Method.STATIC_FLOOR and gate.observed is None
    healthy = f"if {reference}, the floor itself, is healthy" if is_floor else f"at a healthy accuracy of {reference}"
    text = f"{percent(rule.realised_alpha)} of runs {healthy}"
    if rule.sigmas is not None and not is_floor and rule.method in _BINOMIAL:
        text += f" ({rule.sigmas:.2f} standard deviations)"
    if rule.early is not None:
        text += f", and at most {percent(rule.early.alpha)} by stopping early"
    if rule.alpha is not None and asked is not None:
        text += f"; asked for at most {percent(asked)}" + _budget(rule, gate.budget, gate.alpha)
    return text


def _history(rule: Rule) -> Iterator[Line]:
    if rule.used:
        ends = rule.used[:1] if len(rule.used) == 1 else (rule.used[0], rule.used[-1])
        runs = "1 run" if len(rule.used) == 1 else f"{len(rule.used)} runs"
        yield "history", f"{runs}, one per build: {' to '.join(ends)}"
    if rule.excluded:
        yield "left out", listed(rule.excluded)
    spread = (("phi", rule.phi, ".3f"), ("degrees of freedom", rule.df, ".1f"), ("psi", rule.psi, ".2f"))
    known = [f"{name} {value:{form}}" for name, value, form in spread if value is not None]
    if known:
        aside = (
            " (of the count that is shown: the p-value takes neither)" if rule.method == Method.EXACT_MCNEMAR else ""
        )
        yield "spread", ", ".join(known) + aside


def _p_value(verdict: Verdict) -> Iterator[Line]:
    if verdict.p_value is not None:
        yield "p-value", f"p {p_value(verdict.p_value)} for so few right answers if nothing changed"


def _churn(churn: Churn | None) -> Iterator[Line]:
    if churn is not None:
        surprise = "" if churn.p_value is None else f"; as many by chance: p {p_value(churn.p_value)}"
        flips = f"{churn.right_to_wrong} right to wrong, {churn.wrong_to_right} wrong to right"
        yield "churn", f"{flips} since run {churn.run_id}{surprise}"


def _budget(rule: Rule, budget: Budget | None, alpha: float | None) -> str:
    if budget is None or alpha is not None:
        return ""
    gates = "1 gate" if budget.gates == 1 else f"{budget.gates} gates"
    return f", one in {budget.nights} nights over {gates}"


def _seen(counts: Counts) -> str:
    names = ("correct", "wrong", "no_answer", "truncated", "lost")
    parts = [f"{getattr(counts, name)} {name.replace('_', ' ')}" for name in names]
    if counts.unasked:
        parts.append(f"{counts.unasked} not asked")
    return f"{', '.join(parts)}; {counts.n} in all"


def _repeats(record: RunRecord) -> Iterator[Line]:
    repeats = record.spec.protocol.repeats
    if repeats > 1:
        questions = len(record.dataset.question_ids) // repeats
        yield "repeats", f"{repeats} repeats of {questions:,} question{'' if questions == 1 else 's'}"
    found = by_question(record)
    if found is not None:
        unknown = f"; {found.unknown} lack an answer that would tell" if found.unknown else ""
        yield "questions", f"always right {found.always}, sometimes {found.sometimes}, never {found.never}{unknown}"


def _interval(verdict: Verdict, counts: Counts, repeats: int) -> Iterator[Line]:
    interval, missing = verdict.interval, counts.lost + counts.unasked
    if interval is not None:
        low, high = 100 * interval.low, 100 * interval.high
        ends = f"; from all {missing} missing answers wrong to all right" if missing else ""
        sample = "" if repeats == 1 else "; repeats count as far as they differ"
        yield "interval", f"{low:.1f} to {high:.1f} % ({percent(interval.confidence)}, Wilson{sample}{ends})"


def _compares(record: RunRecord, comparable_runs: int | None) -> str:
    key = record.comparability.key[:_KEY_CHARACTERS]
    if comparable_runs is None:
        return f"runs of key {key}"
    runs = "1 earlier run" if comparable_runs == 1 else f"{comparable_runs} earlier runs"
    return f"{runs} of key {key} (gate=auto decides by them)"
