"""How a stored verdict follows from its record, step by step, with the numbers put into the formulas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

from gatekit.gate.rule import Thresholds, binding_floor, thresholds
from gatekit.gate.sensitivity import Sensitivity, sensitivity, verdict_of
from gatekit.gate.wording import accuracy, bare_percent
from gatekit.records.answers import Counts
from gatekit.records.run import RunRecord
from gatekit.records.spec import Gate, Method, Spec
from gatekit.records.verdict import Outcome, Rule, Verdict
from gatekit.stats.binomial import lower_tail, upper_tail
from gatekit.stats.exact import exact

_STOPPED = "the run stopped early: its verdict rests on the test that stopped it, not on these counts"
_TYPED = frozenset({Method.STATIC_FLOOR.value, Method.EXACT_BINOMIAL.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a derivation: what it is about, and the sentence or formula."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The steps from a record to its verdict.

    `recomputed` is the outcome that the record gives today; None where it does not follow from the counts
    alone. `disagreement` says what differs from the stored verdict, in a sentence; None where nothing does.
    """

    steps: tuple[Step, ...]
    recomputed: Outcome | None
    disagreement: str | None
    sensitivity: Sensitivity | None


def derive(record: RunRecord) -> Derivation:
    """The derivation of a record's verdict.

    `static_floor` and `exact_binomial` are computed anew. A rule that rests on earlier runs, which the record
    does not hold, is shown as stored and nothing is computed.
    """
    rule, spec = record.verdict.rule, record.spec
    if rule is None or record.counts.n == 0:
        step = Step(label="rule", text="none: nothing was counted")
        return Derivation(steps=(step,), recomputed=None, disagreement=None, sensitivity=None)
    if rule.method not in _TYPED:
        return _as_stored(record, rule)
    spec = replace(spec, gate=replace(spec.gate, method=Method(rule.method)))
    now, own = verdict_of(spec, record.counts), _own_failure(record)
    is_open = record.counts.unasked > 0 and now.outcome is Outcome.INCONCLUSIVE
    recomputed = None if own is not None or is_open else now.outcome
    return Derivation(
        steps=(
            *_rule_steps(rule, spec.gate),
            *_count_steps(spec, record.counts),
            Step(label="verdict", text=own or (_STOPPED if is_open else _verdict_text(now, record.counts))),
        ),
        recomputed=recomputed,
        disagreement=_disagreement(record, rule, spec.gate, recomputed),
        sensitivity=None if recomputed is None else sensitivity(spec, record.counts),
    )


def _as_stored(record: RunRecord, rule: Rule) -> Derivation:
    steps = (
        Step(label="rule", text=_named(rule)),
        *_stored_rule(rule),
        Step(label="seen", text=f"{_parts(record.counts)} = {record.counts.n}"),
    )
    return Derivation(steps=steps, recomputed=None, disagreement=None, sensitivity=None)


def _own_failure(record: RunRecord) -> str | None:
    """Why the run itself failed, so that its counts do not decide; None where they do."""
    verdict = record.verdict
    if verdict.outcome is Outcome.INFRA and verdict.reason in record.events:
        return f"the run itself failed, which no count changes: {verdict.reason}"
    return None


def _disagreement(record: RunRecord, rule: Rule, gate: Gate, recomputed: Outcome | None) -> str | None:
    found = thresholds(gate, rule.n)
    now, then = (found.k_reject, found.k_accept), (rule.k_reject, rule.k_accept)
    if now != then:
        return f"the rule gives k_reject, k_accept = {_pair(now)} today, {_pair(then)} are stored"
    if recomputed is not None and recomputed is not record.verdict.outcome:
        return f"the counts give {recomputed.value} today, {record.verdict.outcome.value} is stored"
    return None


def _pair(counts: tuple[int, int | None]) -> str:
    return ", ".join("none" if k is None else str(k) for k in counts)


def _rule_steps(rule: Rule, gate: Gate) -> Iterator[Step]:
    alone = replace(gate, floor=None) if gate.method is Method.EXACT_BINOMIAL else gate
    found, floor = thresholds(alone, rule.n), binding_floor(gate, rule.n)
    yield Step(label="rule", text=_named(rule))
    yield from _inputs(gate, found, rule.n)
    yield Step(label="k_reject", text=_reject_text(gate, found, rule.n))
    if alone is not gate and floor:
        text = (
            f"gate.floor asks for {floor} of {rule.n} beside it, the larger count binds: {max(floor, found.k_reject)}"
        )
        yield Step(label="floor", text=text)
    if found.k_accept is not None:
        yield Step(label="k_accept", text=_accept_text(gate, found, rule.n))


def _named(rule: Rule) -> str:
    return f"{rule.method}: {rule.why}" if rule.why else rule.method


def _inputs(gate: Gate, found: Thresholds, n: int) -> Iterator[Step]:
    if gate.method is Method.STATIC_FLOOR:
        yield Step(label="inputs", text=f"n = {n}, floor {gate.floor!r}, tolerance {gate.tolerance:g}")
        return
    observed = gate.observed
    measured = "" if observed is None else f" (measured: {observed.correct} of {observed.n})"
    yield Step(label="inputs", text=f"n = {n}, healthy accuracy p = {accuracy(float(found.guarded))}{measured}")
    if found.alpha is not None:
        yield Step(label="alpha", text=_alpha_text(gate, found.alpha))


def _alpha_text(gate: Gate, alpha: float) -> str:
    if gate.alpha is not None or gate.budget is None:
        return f"{alpha:.3g}, as stated"
    nights, gates = gate.budget.nights, gate.budget.gates
    over = "1 gate" if gates == 1 else f"{gates} gates"
    return f"1 - (1 - 1/{nights})^(1/{gates}) = {alpha:.3g}: one false alarm in {nights} nights over {over}"


def _reject_text(gate: Gate, found: Thresholds, n: int) -> str:
    k, p = found.k_reject, found.guarded
    if gate.method is Method.STATIC_FLOOR:
        limits = f"({gate.floor or 0.0:g} - {gate.tolerance:g}) x {n}"
        return f"k_reject = ceil({limits}) = ceil({float(p * n):.8g}) = {k}, in exact decimals"
    distribution = f"X ~ Bin({n}, {_ratio(p)})"
    below = f"P(X < {k}) = {lower_tail(k, n, p):.3g}"
    if found.alpha is None:
        return f"{_sigma_text(gate, p, n)}, so {k}; {distribution}: {below}"
    beyond = f"P(X < {k + 1}) = {lower_tail(k + 1, n, p):.3g}"
    limit = f"k_reject = max{{k : P(X < k) <= {found.alpha:.3g}}}, {distribution}"
    return f"{limit}: {below}, {beyond} > alpha, so {k}"


def _ratio(p: Fraction) -> str:
    """The healthy accuracy exactly: as a decimal where it is a short one, else as the ratio of counts."""
    short = accuracy(float(p))
    return short if exact(float(short)) == p else f"{p.numerator}/{p.denominator}"


def _sigma_text(gate: Gate, p: Fraction, n: int) -> str:
    mean, deviation, sigmas = float(n * p), sqrt(n * p * (1 - p)), gate.sigmas or 0.0
    limit = f"{mean:.6g} - {sigmas:g} x {deviation:.4g} = {mean - sigmas * deviation:.6g}"
    return f"k_reject = min{{k : k >= n p - s sd}}, n p - s sd = {limit}"


def _accept_text(gate: Gate, found: Thresholds, n: int) -> str:
    k = found.k_accept or 0
    dropped = max(Fraction(0), found.guarded - exact(gate.delta or 0.0))
    distribution = f"Y ~ Bin({n}, {_ratio(found.guarded)} - {gate.delta:g})"
    tails = (
        f"P(Y >= {k}) = {upper_tail(k, n, dropped):.3g}, P(Y >= {k - 1}) = {upper_tail(k - 1, n, dropped):.3g} > beta"
    )
    return f"k_accept = min{{k : P(Y >= k) <= {gate.beta:g}}}, {distribution}: {tails}, so {k}"


def _stored_rule(rule: Rule) -> Iterator[Step]:
    """A rule on earlier runs, as the record holds it."""
    accept = "" if rule.k_accept is None else f", k_accept = {rule.k_accept}"
    yield Step(label="counts", text=f"k_reject = {rule.k_reject} of {rule.n}{accept}, as stored")
    names = ("reference_accuracy", "alpha", "realised_alpha", "sigmas", "noticed_drop", "phi", "df", "psi")
    known = [(name, getattr(rule, name)) for name in names if getattr(rule, name) is not None]
    if known:
        yield Step(label="inputs", text=", ".join(f"{name} = {value:.4g}" for name, value in known))
    if rule.used:
        yield Step(label="rests on", text=", ".join(rule.used))
    for reason, runs in rule.excluded.items():
        yield Step(label="left out", text=f"{runs}: {reason}")


def _count_steps(spec: Spec, counts: Counts) -> Iterator[Step]:
    yield Step(label="seen", text=f"{_parts(counts)} = {counts.n}")
    missing = counts.lost + counts.unasked
    if missing:
        known = replace(counts, lost=0, unasked=0, wrong=counts.wrong + missing)
        turned = replace(known, wrong=counts.wrong, correct=counts.correct + missing)
        low, high = (f"{ends.correct}, {verdict_of(spec, ends).outcome.value}" for ends in (known, turned))
        yield Step(label="two-sided", text=f"all {missing} missing answers wrong: {low}; all right: {high}")
    else:
        yield Step(label="two-sided", text="no answer is missing: one count, one verdict")
    for name, limit in (("lost", spec.gate.max_lost_share), ("truncated", spec.gate.max_truncated_share)):
        number = getattr(counts, name)
        if number:
            yield Step(label=name, text=_limit(number, counts.n, limit))


def _parts(counts: Counts) -> str:
    names = ("correct", "wrong", "no_answer", "truncated", "lost", "unasked")
    shown = [name for name in names if getattr(counts, name) or name in ("correct", "wrong")]
    return " + ".join(f"{getattr(counts, name)} {name.replace('_', ' ')}" for name in shown)


def _limit(number: int, n: int, share: float) -> str:
    relation = "over" if number > exact(share) * n else "within"
    return f"{number} of {n} ({bare_percent(number / n)}), {relation} the limit of {bare_percent(share)}"


def _verdict_text(now: Verdict, counts: Counts) -> str:
    """The comparison of one count with the thresholds, or what keeps it from being one."""
    if now.rule is None or now.outcome not in (Outcome.PASS, Outcome.FAIL):
        return f"{now.outcome.value}: {now.reason}"
    missing = counts.lost + counts.unasked
    k_pass = max(now.rule.k_reject, now.rule.k_accept or 0)
    right = f"{counts.correct} to {counts.correct + missing}" if missing else str(counts.correct)
    relation = f">= k_pass = {k_pass}" if now.outcome is Outcome.PASS else f"< k_reject = {now.rule.k_reject}"
    return f"{right} {relation}: {now.outcome.value}"
