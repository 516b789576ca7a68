"""A gate as integer counts, with the error rates it really has."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from gatekit.errors import ConfigError
from gatekit.gate.alpha import no_alpha
from gatekit.gate.needs import check_drop, observed_accuracy, stated_observed
from gatekit.gate.wording import accuracy, percent, points
from gatekit.records.spec import Gate, Method, Observed
from gatekit.records.verdict import Rule
from gatekit.stats.binomial import accept_count, lower_tail, reject_count
from gatekit.stats.exact import exact
from gatekit.stats.power import noticed_drop
from gatekit.stats.threshold import alpha_from_budget, floor_count, sigma_count

POWER = 0.9
DEFAULT_DELTA = 0.05
_HALF_POINT = Fraction(1, 200)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The two counts of a gate at n questions, and the accuracy they guard.

    `guarded` is what a healthy model must not fall below: the floor less its tolerance, or the observed
    accuracy.
    """

    guarded: Fraction
    alpha: float | None
    k_reject: int
    k_accept: int | None


def rule(gate: Gate, n: int) -> Rule:
    """The gate's decision rule at n questions: counts, error rates, and what it cannot see, in words.

    Raises ConfigError when the gate lacks what its method needs: `gate-needs-floor`, `gate-needs-observed`,
    `gate-needs-alpha`, `gate-observed-impossible`, `gate-needs-questions` for n < 1, or `drop-too-large`.
    """
    found = thresholds(gate, n)
    reference = _reference(gate, found)
    if gate.method is not Method.STATIC_FLOOR or gate.observed is not None:
        check_drop(gate, reference)
    p, k = float(reference), found.k_reject
    deviation = sqrt(n * reference * (1 - reference))
    drop = noticed_drop(n, k, reference, POWER)
    return Rule(
        method=gate.method.value,
        n=n,
        k_reject=k,
        k_accept=found.k_accept,
        reference_accuracy=p,
        alpha=found.alpha,
        realised_alpha=lower_tail(k, n, reference),
        sigmas=float(n * reference - k) / deviation if deviation else None,
        noticed_drop=drop,
        power=POWER,
        notes=(
            *zone_notes(k, found.k_accept),
            *_notes(gate, n, found, reference),
            _blindness(found, n, reference, drop),
        ),
    )


def thresholds(gate: Gate, n: int) -> Thresholds:
    """The gate's counts at n questions, without words. Errors: as `rule`, but for `drop-too-large`.

    A floor has a k_accept only where `gate.observed` says what a drop would be from.
    """
    if n < 1:
        raise ConfigError.one(
            f"a gate needs at least one question, not {n}",
            reason="gate-needs-questions",
            where="task.n",
            hint="set task.n to the number of questions, or leave it out to ask all",
        )
    if gate.method is Method.STATIC_FLOOR:
        return _floor_thresholds(gate, n)
    p0 = observed_accuracy(stated_observed(gate))
    alpha, k_reject = _alpha_and_count(gate, n, p0)
    k_reject = max(k_reject, binding_floor(gate, n))
    return Thresholds(guarded=p0, alpha=alpha, k_reject=k_reject, k_accept=_accept(gate, n, p0))


def _accept(gate: Gate, n: int, p0: Fraction) -> int | None:
    """The count that excludes a drop of gate.delta below p0; None where no delta is set."""
    if gate.delta is None:
        return None
    return accept_count(n, max(Fraction(0), p0 - exact(gate.delta)), gate.beta)


def binding_floor(gate: Gate, n: int) -> int:
    """The count that `gate.floor` less its tolerance asks for beside any method; 0 where no floor is set."""
    return 0 if gate.floor is None else floor_count(gate.floor, gate.tolerance, n)


def _floor_thresholds(gate: Gate, n: int) -> Thresholds:
    if gate.floor is None:
        raise ConfigError.one(
            f"gate {gate.name}: method static_floor needs a floor",
            reason="gate-needs-floor",
            where="gate.floor",
            hint="set gate.floor to an accuracy between 0 and 1",
        )
    k_accept = None
    if gate.observed is not None:
        k_accept = _accept(gate, n, observed_accuracy(stated_observed(gate)))
    guarded = max(Fraction(0), exact(gate.floor) - exact(gate.tolerance))
    k_reject = floor_count(gate.floor, gate.tolerance, n)
    return Thresholds(guarded=guarded, alpha=None, k_reject=k_reject, k_accept=k_accept)


def _alpha_and_count(gate: Gate, n: int, p0: Fraction) -> tuple[float | None, int]:
    """The nominal false-alarm rate (None where sigmas were asked for) and k_reject."""
    if gate.alpha is not None:
        return gate.alpha, reject_count(n, p0, gate.alpha)
    if gate.sigmas is not None:
        return None, sigma_count(n, p0, gate.sigmas)
    if gate.budget is not None:
        alpha = alpha_from_budget(gate.budget.gates, gate.budget.nights)
        return alpha, reject_count(n, p0, alpha)
    raise no_alpha(gate)


def _reference(gate: Gate, found: Thresholds) -> Fraction:
    """The healthy accuracy that the error rates refer to."""
    if gate.method is Method.STATIC_FLOOR and gate.observed is None:
        return exact(gate.floor or 0.0)
    return observed_accuracy(stated_observed(gate)) if gate.observed is not None else found.guarded


def zone_notes(k_reject: int, k_accept: int | None) -> tuple[str, ...]:
    """The warning of a rule that can never fail, or that leaves counts between its two thresholds."""
    if k_reject <= 0:
        return ("VACUOUS: k_reject is 0, so this gate can never fail",)
    if k_accept is not None and k_accept > k_reject:
        zone = f"{k_reject} to {k_accept - 1} correct give no verdict"
        return (f"UNDERPOWERED: k_accept {k_accept} is above k_reject {k_reject}: {zone}",)
    return ()


def floor_notes(gate: Gate, n: int) -> tuple[str, ...]:
    """What a floor beside another method asks for."""
    if gate.floor is None or gate.method is Method.STATIC_FLOOR:
        return ()
    return (f"gate.floor stands beside it: FAIL below {binding_floor(gate, n)} of {n}",)


def _notes(gate: Gate, n: int, found: Thresholds, reference: Fraction) -> tuple[str, ...]:
    notes = []
    if gate.method is Method.STATIC_FLOOR and gate.tolerance:
        limits = f"{accuracy(gate.floor or 0.0)} less {accuracy(gate.tolerance)}"
        notes.append(f"the effective floor is {accuracy(float(found.guarded))} ({limits})")
    if gate.method is Method.STATIC_FLOOR and found.k_reject > 0:
        notes.append(_false_alarms(found, n))
    if gate.observed is None:
        notes.append("no measured accuracy is given: the error rates refer to the floor itself")
    else:
        notes.append(_measurement(gate.observed, reference))
    return (*floor_notes(gate, n), *notes)


def _false_alarms(found: Thresholds, n: int) -> str:
    """How often a model half a point above the floor fails: the price of a floor close to the truth."""
    healthy = min(Fraction(1), found.guarded + _HALF_POINT)
    rate = percent(lower_tail(found.k_reject, n, healthy))
    floor = accuracy(float(found.guarded))
    return f"{floor} at n={n} fails a healthy model of accuracy {accuracy(float(healthy))} in {rate} of runs"


def _measurement(observed: Observed, reference: Fraction) -> str:
    """The reference is a measurement too: its binomial standard deviation, in points."""
    spread = points(sqrt(reference * (1 - reference) / observed.n))
    text = f"the reference {accuracy(float(reference))} is itself one measurement of {observed.n} questions"
    perfect = " (a perfect score counts as half an answer less)" if observed.correct == observed.n else ""
    return f"{text}{perfect}: its standard deviation is {spread}"


def _blindness(found: Thresholds, n: int, reference: Fraction, drop: float | None) -> str:
    """The smallest drop that is noticed, and how often a drop of 5 points is."""
    p = accuracy(float(reference))
    if drop is None:
        return f"blind to every drop below {p}"
    dropped = max(Fraction(0), reference - exact(DEFAULT_DELTA))
    rate = percent(lower_tail(found.k_reject, n, dropped))
    if drop == 0:
        return f"at an accuracy of {p} it fails in {percent(lower_tail(found.k_reject, n, reference))} of runs as it is"
    small = f"blind to drops of less than {points(drop)} below {p} (noticed in under {percent(POWER)} of runs)"
    return f"{small}; a drop to {accuracy(float(dropped))} fails in {rate} of runs"
