"""The p-value of a run among its questions, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatekit.gate.flips import flip_variance
from gatekit.gate.from_history import LEAST_FREEDOM
from gatekit.gate.prior import own_prior
from gatekit.gate.retrial import Retrial
from gatekit.gate.step import Step, some
from gatekit.records.spec import Gate
from gatekit.stats.conditional import conditional_tail, widened_p
from gatekit.stats.exact import squared_deviations
from gatekit.stats.overdispersion import guarded_p


def p_value_steps(gate: Gate, again: Retrial, sizes: Sequence[int]) -> Iterator[Step]:
    """The exact conditional p-value of the run with its open answers counted wrong."""
    right = again.trial.strata.right
    k = len(sizes) - 1
    plain = conditional_tail(sizes, right)
    if k == 1:
        fell, rose = sizes[1] - right[1], right[0]
        sides = f"b = {fell} right to wrong, c = {rose} wrong to right"
        text = f"{sides}: p = P(Bin({fell + rose}, 1/2) <= {rose}) = {plain:.4g}"
        yield Step(label="p", text=text)
        return
    table = [sizes[t] - right[t] + right[t - 1] for t in range(1, k + 1)]
    shown = some([f"t={t}: {m}" for t, m in enumerate(table, 1) if m], ", ") or "none"
    yield Step(label="t table", text=f"questions with t right answers in {k} runs and this one: {shown}")
    text = f"P(sum Bin(m_t, t/{k + 1}) <= {sum(right[:k])}) = {plain:.4g}"
    yield Step(label="p", text=f"{text}: right now in {sum(right[:k])} of those not all earlier runs got right")
    yield from _guard_steps(gate, [run.correct for run in again.runs], flip_variance(sizes), plain)


def _guard_steps(gate: Gate, totals: Sequence[int], variance: float, plain: float) -> Iterator[Step]:
    prior = own_prior(gate)
    guard = guarded_p(0.5, totals, variance, max(prior.nu_psi, LEAST_FREEDOM), prior.psi0)
    ratio = f"{float(squared_deviations(totals)) / variance:.4g}" if variance else "0"
    terms = f"({prior.nu_psi:g} x {prior.psi0:g} + {ratio}) / {guard.df:g}"
    yield Step(label="psi", text=f"(k-1) s^2 / V = {ratio}; psi = max(1, {terms}) = {guard.psi:.4g}")
    text = (
        f"p = T_{guard.df:g}(Phi^-1({plain:.4g}) / sqrt({guard.psi:.4g})) = {widened_p(plain, guard.psi, guard.df):.4g}"
    )
    yield Step(label="guarded p", text=text)
