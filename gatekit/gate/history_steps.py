"""The formulas of the rules on history, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gatekit.gate.flips import questions, right_before
from gatekit.gate.from_history import from_history
from gatekit.gate.locked import predicted_by
from gatekit.gate.needs import stated_observed
from gatekit.gate.p_value_steps import conditional_steps, tail_steps
from gatekit.gate.retrial import Retrial
from gatekit.gate.rule import binding_floor
from gatekit.gate.rung import LAST_RUN, OLDER, Rung
from gatekit.gate.spread_steps import flip_steps, threshold_steps, total_steps
from gatekit.gate.step import Step, alpha_step, floor_step, named, some
from gatekit.gate.wording import tail
from gatekit.records.lock import Lock
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Rule
from gatekit.stats.predictive import predicted_counts, predictive_reject, predictive_tail


def history_steps(gate: Gate, again: Retrial) -> Iterator[Step]:
    """From the runs behind the rule to its counts and its p-value; for a locked gate from its lock."""
    rule = again.trial.rule
    yield named(rule)
    if rule.alpha is not None:
        yield alpha_step(gate, rule.alpha, rule.early)
    if rule.method == Method.LOCKED.value:
        yield from _lock_steps(again)
    else:
        yield Step(label="rests on", text=_rests_on(again.runs) + _of_the_norm(rule.method, rule.excluded))
        yield from _rung_steps(gate, again)
    floor = binding_floor(gate, rule.n)
    if floor:
        yield floor_step(floor, rule.k_reject, rule.n)


def _rests_on(runs: Sequence[PastRun]) -> str:
    if not runs:
        return "no run: gate.observed is the baseline"
    return some([f"{run.run_id} ({run.correct})" for run in runs], ", ")


def _of_the_norm(method: str, excluded: Mapping[str, int]) -> str:
    """That the rule uses the newest run of the norm alone, where the norm holds more."""
    older = excluded.get(OLDER, 0)
    if method not in LAST_RUN or not older:
        return ""
    others = "1 older one is" if older == 1 else f"{older} older ones are"
    return f": {method} rests on the newest run of the norm alone, its {others} not used"


def _lock_steps(again: Retrial) -> Iterator[Step]:
    rule, lock = again.trial.rule, again.lock
    accept = "" if rule.k_accept is None else f", k_accept = {rule.k_accept}"
    yield Step(label="k_reject", text=f"k_reject = {rule.k_reject}{accept}: the counts of the lock, derived before")
    norm = "" if lock is None else _of_the_norm(lock.method, lock.excluded)
    yield Step(label="rests on", text=some(rule.used, ", ") + norm)
    if lock is not None:
        yield Step(label="predicted", text=_predicted_text(lock))
    yield from tail_steps(again)


def _predicted_text(lock: Lock) -> str:
    counts = predicted_by(lock).counts
    if counts is not None:
        of = f"{lock.mean:.6g} of {lock.n}"
        text = f"from {of}, the next count is Y ~ BetaBin({counts.n}, {counts.a:.6g}, {counts.b:.6g})"
        return f"{text}; p = P(Y <= correct)"
    t = f"T on {lock.df:.4g} degrees of freedom" if lock.df is not None else "a normal T"
    text = f"the next count is {lock.mean:.6g} + {lock.sd:.4g} T, {t}"
    return f"{text}; p = P(T <= (correct + 1/2 - {lock.mean:.6g}) / {lock.sd:.4g})"


def _rung_steps(gate: Gate, again: Retrial) -> Iterator[Step]:
    rule = again.trial.rule
    assert rule.alpha is not None
    method = Method(rule.method)
    if method is Method.BETA_BINOMIAL_PREDICTIVE:
        yield from _baseline_steps(gate, rule, again.runs)
        yield from tail_steps(again)
        return
    rung = Rung(method=method, why=rule.why, runs=again.runs, excluded={})
    predicted = from_history(gate, rule.n, rung).predicted
    if method is Method.MODERATED_T:
        yield from total_steps(gate, rule.n, again.runs, rule.alpha)
        yield from threshold_steps(gate, rule, predicted)
        yield from tail_steps(again)
        return
    sizes = questions(right_before(again.runs), len(again.runs))
    if len(again.runs) > 1:
        yield from flip_steps(gate, sizes, rule.alpha)
    else:
        yield from total_steps(gate, rule.n, again.runs, rule.alpha)
    if method is not Method.FLIP_PREDICTION:
        yield from conditional_steps(gate, again, sizes)
    yield from threshold_steps(gate, rule, predicted)
    if method is Method.FLIP_PREDICTION:
        yield from tail_steps(again)


def _baseline_steps(gate: Gate, rule: Rule, runs: Sequence[PastRun]) -> Iterator[Step]:
    assert rule.alpha is not None
    observed = None if runs else stated_observed(gate)
    right, size = (runs[-1].correct, runs[-1].n) if observed is None else (observed.correct, observed.n)
    counts = predicted_counts(right, size, rule.n)
    k = predictive_reject(counts, rule.alpha)
    below, beyond = (tail(predictive_tail(counts, count - 1)) for count in (k, k + 1))
    yield Step(label="baseline", text=f"{right} of {size}: Y ~ BetaBin({rule.n}, {right} + 1/2, {size - right} + 1/2)")
    limit = f"k_reject = max{{k : P(Y < k) <= {rule.alpha:.3g}}}"
    text = f"{limit}: P(Y < {k}) {below if k else '= 0'}, P(Y < {k + 1}) {beyond} > alpha, so {k}"
    yield Step(label="k_reject", text=text)
