"""The formulas of `static_floor` and `exact_binomial`, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import sqrt

from gatekit.gate.needs import observed_accuracy
from gatekit.gate.rule import Thresholds, binding_floor, thresholds
from gatekit.gate.step import Step, alpha_step, floor_step, named
from gatekit.gate.wording import accuracy, tail
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Rule
from gatekit.stats.binomial import lower_tail, upper_tail
from gatekit.stats.exact import exact


def typed_steps(gate: Gate, rule: Rule) -> Iterator[Step]:
    """From the gate's numbers to its counts; `gate.method` is the rule's."""
    alone = replace(gate, floor=None) if gate.method is Method.EXACT_BINOMIAL else gate
    found, floor = thresholds(alone, rule.n), binding_floor(gate, rule.n)
    yield named(rule)
    yield from _inputs(gate, found, rule)
    yield Step(label="k_reject", text=_reject_text(gate, found, rule.n))
    if alone is not gate and floor:
        yield floor_step(floor, found.k_reject, rule.n)
    if found.k_accept is not None:
        yield Step(label="k_accept", text=_accept_text(gate, found, rule.n))


def _inputs(gate: Gate, found: Thresholds, rule: Rule) -> Iterator[Step]:
    if gate.method is Method.STATIC_FLOOR:
        yield Step(label="inputs", text=f"n = {rule.n}, floor {gate.floor!r}, tolerance {gate.tolerance:g}")
        return
    observed = gate.observed
    measured = "" if observed is None else f" (measured: {observed.correct} of {observed.n})"
    yield Step(label="inputs", text=f"n = {rule.n}, healthy accuracy p = {accuracy(float(found.guarded))}{measured}")
    if found.alpha is not None:
        yield alpha_step(gate, found.alpha, rule.early)


def _reject_text(gate: Gate, found: Thresholds, n: int) -> str:
    k, p = found.k_reject, found.guarded
    if gate.method is Method.STATIC_FLOOR:
        limits = f"({gate.floor or 0.0:g} - {gate.tolerance:g}) x {n}"
        return f"k_reject = ceil({limits}) = ceil({float(p * n):.8g}) = {k}, in exact decimals"
    distribution = f"X ~ Bin({n}, {_ratio(p)})"
    below = f"P(X < {k}) {tail(lower_tail(k, n, p)) if k > 0 else '= 0'}"
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
    healthy = found.guarded if gate.observed is None else observed_accuracy(gate.observed)
    dropped = max(Fraction(0), healthy - exact(gate.delta or 0.0))
    distribution = f"Y ~ Bin({n}, {_ratio(healthy)} - {gate.delta:g})"
    tails = (
        f"P(Y >= {k}) = {upper_tail(k, n, dropped):.3g}, P(Y >= {k - 1}) = {upper_tail(k - 1, n, dropped):.3g} > beta"
    )
    return f"k_accept = min{{k : P(Y >= k) <= {gate.beta:g}}}, {distribution}: {tails}, so {k}"
