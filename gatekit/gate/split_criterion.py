"""The criterion of a gate, its error rates split with its sequential test where it has one.

A run that is judged twice, when it stops and at its end, has two chances to go wrong. So the rule is made at half of
alpha and beta, and the sequential test has the other half. It asks whether the whole run would get K0 right answers,
which is what the rule itself takes for no drop, or only K1, the most that must not pass: a healthy run ends below K0
with no more than the rule's own share, and where the whole run would end at K0 or above, Ville's inequality bounds the
stops on FAIL by the other. A rule that decides by its p-value fails other runs than those below K0, so that K0 then
costs a share of its own: a quarter of alpha each for K0 and for the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil

from gatekit.gate.alpha import nominal_alpha
from gatekit.gate.criterion import Criterion, binding_gate, full_rate, locked
from gatekit.gate.early_stop import builds_note, detailed_runs
from gatekit.gate.exchangeable import Exchangeable, exchangeable
from gatekit.gate.locked import LockFault
from gatekit.gate.needs import (
    check_drop,
    check_early_stop,
    check_repeated_observed,
    observed_accuracy,
    stated_observed,
)
from gatekit.gate.rung import Shortage
from gatekit.gate.split import SHARE, share_of
from gatekit.gate.wording import accuracy
from gatekit.records.past import Past
from gatekit.records.spec import EarlyStop, Gate, Method, Spec
from gatekit.records.verdict import Early
from gatekit.stats.binomial import accept_count
from gatekit.stats.exact import exact
from gatekit.stats.next_count import accept_from, reject_below
from gatekit.stats.paired_sprt import BUILDS_TO_FAIL

_STEP = Fraction(1, 1000)  # of the drops that are searched for one that works


def criterion(spec: Spec, n: int, past: Past) -> Criterion | Shortage | LockFault:
    """The criterion of a spec at n questions, or what leaves it without one: too short a history, no lock that holds.

    Where the gate's sequential test cannot be made, the rule keeps the whole of alpha and beta, and `early_note` says
    why. Raises ConfigError when the gate lacks what its method needs: as `gatekit.gate.rule.rule`,
    `gatekit.gate.needs.check_early_stop` and `check_repeated_observed`.
    """
    check_repeated_observed(spec, n // spec.protocol.repeats)
    gate = binding_gate(spec, n)
    history = exchangeable(gate, spec.hw.name, n, past)
    if gate.early_stop is EarlyStop.NONE:
        return full_rate(gate, n, past, history)
    check_early_stop(spec)
    whole = full_rate(gate, n, past, history)
    if not isinstance(whole, Criterion):
        return whole
    if whole.is_reference_missing:
        return replace(whole, early_note=f"no early stop: {gate.early_stop.value} needs a healthy accuracy")
    check_drop(gate, exact(whole.rule.reference_accuracy or 0.0))
    half = _half(gate, n, past, history)
    assert isinstance(half, Criterion)  # as `whole`: error rates do not change what there is to go by
    if gate.early_stop is EarlyStop.PAIRED_SPRT:
        return _paired(gate, whole, half, history)
    return _whole_run(gate, whole, half)


def _half(gate: Gate, n: int, past: Past, history: Exchangeable) -> Criterion | Shortage | LockFault:
    if gate.method is Method.LOCKED:
        return locked(share_of(gate), n, past, history, share=SHARE)
    return full_rate(share_of(gate), n, past, history)


def _paired(gate: Gate, whole: Criterion, half: Criterion, history: Exchangeable) -> Criterion:
    builds = len(detailed_runs(history))
    note = builds_note(builds)
    if builds < BUILDS_TO_FAIL:
        return replace(whole, early_note=note)
    early = replace(_early(gate, whole), builds=builds)
    return replace(half, rule=replace(half.rule, early=early), early_note=note)


def _whole_run(gate: Gate, whole: Criterion, half: Criterion) -> Criterion:
    early = _early(gate, whole)
    if half.rule.by_p_value:
        early = replace(early, alpha=SHARE * early.alpha)
    healthy, accept = _healthy(half, early), _accept(gate, half)
    assert gate.delta is not None
    dropped = accept(exact(gate.delta)) - 1
    if not 0 <= dropped < healthy <= half.rule.n:
        return replace(whole, early_note=_untold(gate, half, healthy, accept))
    early = replace(early, healthy=healthy, dropped=dropped)
    return replace(half, rule=replace(half.rule, early=early))


def _early(gate: Gate, whole: Criterion) -> Early:
    """The shares of the test; what the gate asks for is the alpha of the lock, or its own."""
    is_locked, lock_alpha = gate.method is Method.LOCKED, whole.rule.alpha
    alpha = lock_alpha if is_locked and lock_alpha is not None else nominal_alpha(gate)
    return Early(
        method=gate.early_stop.value,
        alpha=(1 - SHARE) * alpha,
        beta=(1 - SHARE) * gate.beta,
        asked_alpha=alpha,
        asked_beta=gate.beta,
    )


def _healthy(half: Criterion, early: Early) -> int:
    """K0: the count of the rule, or what the next count of an unchanged model stays below with the test's alpha."""
    if not half.rule.by_p_value or half.predicted is None:
        return half.rule.k_reject
    return max(half.floor, reject_below(half.predicted, early.alpha))


def _accept(gate: Gate, half: Criterion) -> Callable[[Fraction], int]:
    """The count that excludes a drop at the rule's share of beta, of any drop."""
    n, beta, predicted = half.rule.n, SHARE * gate.beta, half.predicted
    if predicted is not None:
        return lambda delta: accept_from(predicted, n * delta, beta)
    healthy = observed_accuracy(stated_observed(gate))
    return lambda delta: accept_count(n, max(Fraction(0), healthy - delta), beta)


def _untold(gate: Gate, half: Criterion, healthy: int, accept: Callable[[Fraction], int]) -> str:
    """Why n questions cannot tell the drop, and the smallest one that they can."""
    assert gate.delta is not None
    n, limit = half.rule.n, exact(half.rule.reference_accuracy or 0.0)
    low, high = int(exact(gate.delta) / _STEP), ceil(limit / _STEP)

    def works(step: int) -> bool:
        return accept(step * _STEP) - 1 < healthy

    why = f"no early stop: {'1 question' if n == 1 else f'{n} questions'} cannot tell a drop of {gate.delta:g}"
    if high - low < 2 or not works(high - 1):
        return f"{why}, or any other"
    high -= 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return f"{why} by {gate.early_stop.value}; the smallest that they can is gate.delta={accuracy(float(high * _STEP))}"
