"""A threshold derived from history anew, as a lock to be reviewed: the same inputs give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from gatekit.gate.exchangeable import Exchangeable, exchangeable
from gatekit.gate.from_history import FromHistory, from_history
from gatekit.gate.rung import Rung, Shortage, choose
from gatekit.records.canonical import Plain, digest, to_plain
from gatekit.records.lock import Lock, Prior
from gatekit.records.past import Past, PastRun
from gatekit.records.run import Comparability
from gatekit.records.spec import Budget, Gate, Method

_ON_HISTORY = frozenset(
    {
        Method.BETA_BINOMIAL_PREDICTIVE,
        Method.MODERATED_T,
        Method.EXACT_MCNEMAR,
        Method.FLIP_PREDICTION,
        Method.EXACT_CONDITIONAL,
    }
)
_YEARLY = Budget(nights=365, gates=1)


def recompute(
    gate: Gate,
    hw: str,
    spec: str,
    key: Comparability,
    n: int,
    past: Past,
    prior: Prior,
    *,
    as_of: str | None,
    version: str,
) -> Lock | Shortage:
    """The lock of a series of n questions from all that it holds; see `lock_of_norm`."""
    history = norm_of(gate, hw, n, past)
    return lock_of_norm(gate, hw, spec, key, n, history, prior, as_of=as_of, version=version)


def norm_of(gate: Gate, hw: str, n: int, past: Past) -> Exchangeable:
    """The runs that a lock of this gate rests on, and those that it leaves out."""
    return exchangeable(derived_gate(gate), hw, n, past)


def lock_of_norm(
    gate: Gate,
    hw: str,
    spec: str,
    key: Comparability,
    n: int,
    history: Exchangeable,
    prior: Prior,
    *,
    as_of: str | None,
    version: str,
) -> Lock | Shortage:
    """The lock of a series of n questions, or the Shortage of history that leaves it without one.

    `hw` is the name of the hardware, `spec` that of the spec, `history` the norm of the series (`norm_of`), `prior`
    the spread assumed before it speaks (`matrix_prior` or `own_prior`), `as_of` up to when the history was read and
    `version` gatekit's. The method is the gate's own where that is a rung on history, else the strongest that the
    history supports; `gate.floor` and `gate.observed` are typed numbers and stay out, the floor binds beside the
    lock. A gate without a false-alarm rate gets one false alarm in 365 nights. The counts are those of the rule:
    k_reject of a rule that decides by its p-value is what that comes to, over-dispersion guard included.
    """
    derived = derived_gate(gate)
    rung = choose(derived, history)
    if isinstance(rung, Shortage):
        return rung
    found = from_history(derived, n, rung, prior)
    inputs = digest(_inputs(derived, hw, key, n, rung, prior, as_of, version))
    return _lock(spec, hw, key, found, prior, as_of=as_of, version=version, inputs=inputs)


def derived_gate(gate: Gate) -> Gate:
    """The gate as a rule on history alone: no typed number, a method and a false-alarm rate where it has none."""
    has_rate = gate.alpha is not None or gate.sigmas is not None or gate.budget is not None
    return replace(
        gate,
        method=gate.method if gate.method in _ON_HISTORY else Method.AUTO,
        floor=None,
        tolerance=0.0,
        observed=None,
        measured_under=None,
        budget=gate.budget if has_rate else _YEARLY,
    )


def _lock(
    spec: str,
    hw: str,
    key: Comparability,
    found: FromHistory,
    prior: Prior,
    *,
    as_of: str | None,
    version: str,
    inputs: str,
) -> Lock:
    rule, predicted = found.rule, found.predicted
    assert rule.alpha is not None
    return Lock(
        spec=spec,
        key=key.key,
        fields=_sorted(key.fields),
        method=rule.method,
        why=rule.why,
        n=rule.n,
        k_reject=rule.k_reject,
        k_accept=rule.k_accept,
        alpha=rule.alpha,
        mean=predicted.mean,
        sd=predicted.sd,
        df=None if predicted.df == inf else predicted.df,
        noticed_drop=rule.noticed_drop,
        phi=rule.phi,
        psi=rule.psi,
        prior=prior,
        used=rule.used,
        excluded=dict(sorted(rule.excluded.items())),
        as_of=as_of,
        inputs=inputs,
        gatekit_version=version,
        hw=hw,
    )


def _sorted(fields: Plain) -> dict[str, Plain]:
    return dict(sorted(fields.items()))


def _inputs(
    gate: Gate, hw: str, key: Comparability, n: int, rung: Rung, prior: Prior, as_of: str | None, version: str
) -> Plain:
    """All that the lock follows from. The gate's phi0, nu0 and nu_psi speak through the prior only."""
    return {
        "key": key.key,
        "n": n,
        "hw": hw,
        "gate": _design(gate),
        "runs": _told(rung.runs),
        "prior": to_plain(prior),
        "as_of": as_of,
        "gatekit_version": version,
    }


def _design(gate: Gate) -> Plain:
    return {
        "method": gate.method.value,
        "alpha": gate.alpha,
        "sigmas": gate.sigmas,
        "budget": to_plain(gate.budget),
        "delta": gate.delta,
        "beta": gate.beta,
        "exchangeable_hardware": sorted(gate.exchangeable_hardware),
        "baseline_builds": gate.baseline_builds,
    }


def _told(runs: Sequence[PastRun]) -> Plain:
    answers = [None if run.outcomes is None else digest(run.outcomes.hex()) for run in runs]
    return [
        {"run_id": run.run_id, "correct": run.correct, "outcomes": outcomes}
        for run, outcomes in zip(runs, answers, strict=True)
    ]
