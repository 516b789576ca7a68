"""The formulas of the rules on history, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatekit.gate.flips import questions, right_before
from gatekit.gate.from_history import from_history
from gatekit.gate.needs import stated_observed
from gatekit.gate.p_value_steps import p_value_steps
from gatekit.gate.retrial import Retrial
from gatekit.gate.rule import binding_floor
from gatekit.gate.rung import Rung
from gatekit.gate.spread_steps import flip_steps, threshold_steps, total_steps
from gatekit.gate.step import Step, alpha_step, floor_step, named, some
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Rule
from gatekit.stats.predictive import predictive_count, predictive_pmf


def history_steps(gate: Gate, again: Retrial) -> Iterator[Step]:
    """From the runs behind the rule to its counts and its p-value; for a locked gate from its lock."""
    rule = again.trial.rule
    yield named(rule)
    if rule.alpha is not None:
        yield alpha_step(gate, rule.alpha, rule.early)
    if rule.method == Method.LOCKED.value:
        yield from _lock_steps(again)
    else:
        yield Step(label="rests on", text=_rests_on(again.runs))
        yield from _rung_steps(gate, again)
    floor = binding_floor(gate, rule.n)
    if floor:
        yield floor_step(floor, rule.k_reject, rule.n)


def _rests_on(runs: Sequence[PastRun]) -> str:
    if not runs:
        return "no run: gate.observed is the baseline"
    return some([f"{run.run_id} ({run.correct})" for run in runs], ", ")


def _lock_steps(again: Retrial) -> Iterator[Step]:
    rule, lock = again.trial.rule, again.lock
    accept = "" if rule.k_accept is None else f", k_accept = {rule.k_accept}"
    yield Step(label="k_reject", text=f"k_reject = {rule.k_reject}{accept}: the counts of the lock, derived before")
    yield Step(label="rests on", text=some(rule.used, ", "))
    if lock is not None:
        t = f"T on {lock.df:.4g} degrees of freedom" if lock.df is not None else "a normal T"
        text = f"the next count is {lock.mean:.6g} + {lock.sd:.4g} T, {t}"
        yield Step(label="predicted", text=f"{text}; p = P(T <= (correct + 1/2 - {lock.mean:.6g}) / {lock.sd:.4g})")


def _rung_steps(gate: Gate, again: Retrial) -> Iterator[Step]:
    rule = again.trial.rule
    assert rule.alpha is not None
    method = Method(rule.method)
    if method is Method.BETA_BINOMIAL_PREDICTIVE:
        yield from _baseline_steps(gate, rule, again.runs)
        return
    rung = Rung(method=method, why=rule.why, runs=again.runs, excluded={})
    predicted = from_history(gate, rule.n, rung).predicted
    if method is Method.MODERATED_T:
        yield from total_steps(gate, rule.n, again.runs, rule.alpha)
        yield from threshold_steps(gate, rule, predicted)
        return
    sizes = questions(right_before(again.runs), len(again.runs))
    if len(again.runs) > 1:
        yield from flip_steps(gate, sizes, rule.alpha)
    else:
        yield from total_steps(gate, rule.n, again.runs, rule.alpha)
    if method is not Method.FLIP_PREDICTION:
        yield from p_value_steps(gate, again, sizes)
    yield from threshold_steps(gate, rule, predicted)


def _baseline_steps(gate: Gate, rule: Rule, runs: Sequence[PastRun]) -> Iterator[Step]:
    assert rule.alpha is not None
    observed = None if runs else stated_observed(gate)
    right, size = (runs[-1].correct, runs[-1].n) if observed is None else (observed.correct, observed.n)
    k = predictive_count(right, size, rule.n, rule.alpha).k_pass
    pmf = predictive_pmf(rule.n, right + 0.5, size - right + 0.5)
    below, beyond = (float(min(1.0, pmf[:count].sum())) for count in (k, k + 1))
    yield Step(label="baseline", text=f"{right} of {size}: Y ~ BetaBin({rule.n}, {right} + 1/2, {size - right} + 1/2)")
    limit = f"k_reject = max{{k : P(Y < k) <= {rule.alpha:.3g}}}"
    text = f"{limit}: P(Y < {k}) = {below:.3g}, P(Y < {k + 1}) = {beyond:.3g} > alpha, so {k}"
    yield Step(label="k_reject", text=text)
