"""What a gate must say for its method to mean anything: known from the spec, before there is any answer."""

from __future__ import annotations

from fractions import Fraction

from gatekit.errors import ConfigError, Problem
from gatekit.gate.wording import accuracy, points
from gatekit.records.spec import EarlyStop, Gate, Method, Observed, Spec
from gatekit.stats.exact import exact

_BY_OBSERVED = (Method.AUTO, Method.STATIC_FLOOR, Method.EXACT_BINOMIAL, Method.BETA_BINOMIAL_PREDICTIVE)


def check_gate(spec: Spec) -> None:
    """Raises the ConfigError that a run without any history would end in, whatever is answered.

    That is one of `check_early_stop`, `check_reference` and `check_drop`.
    """
    gate = spec.gate
    check_early_stop(spec)
    if gate.method is Method.STATIC_FLOOR:
        check_reference(gate)
    if gate.method in _BY_OBSERVED and gate.observed is not None:
        check_drop(gate, observed_accuracy(stated_observed(gate)))


def check_early_stop(spec: Spec) -> None:
    """Raises ConfigError, with every problem, when `gate.early_stop` lacks what it needs from the spec.

    `early-stop-needs-delta`: the drop that is tested; `early-stop-needs-order`: a recorded random order, because
    a prefix of the file's own order is no sample of it; `early-stop-needs-reference`: an accuracy beside a floor.
    `early-stop-with-repeats`: the tests take the order of the answers as exchangeable, and repeats of a question
    are alike.
    """
    gate = spec.gate
    if gate.early_stop is EarlyStop.NONE:
        return
    what, problems = f"gate {gate.name}: early_stop {gate.early_stop.value}", []
    if spec.protocol.repeats > 1:
        problems.append(
            Problem(
                where="gate.early_stop",
                what=f"{what} cannot test repeats of questions (protocol.repeats={spec.protocol.repeats})",
                reason="early-stop-with-repeats",
                hint="set gate.early_stop=none: a run that nothing can save still stops by itself",
            )
        )
    if gate.delta is None:
        problems.append(
            Problem(
                where="gate.delta",
                what=f"gate {gate.name}: early_stop needs gate.delta, the drop that it looks for",
                reason="early-stop-needs-delta",
                hint="set gate.delta, such as gate.delta=0.05",
            )
        )
    if spec.task.order_seed is None:
        problems.append(
            Problem(
                where="task.order_seed",
                what=f"{what} needs the questions in a recorded random order",
                reason="early-stop-needs-order",
                hint="set task.order_seed to any number; the same one every run, so that runs compare",
            )
        )
    if gate.method is Method.STATIC_FLOOR and gate.observed is None:
        problems.append(
            Problem(
                where="gate.observed",
                what=f"{what} needs a measured accuracy, a floor is none",
                reason="early-stop-needs-reference",
                hint="set gate.observed from a healthy run, or gate.early_stop=none",
            )
        )
    if problems:
        raise ConfigError(problems)


def check_repeated_observed(spec: Spec, questions: int) -> None:
    """Raises ConfigError (`repeats-of-other-questions`) where a run that asks each of so many questions several times
    would be judged by an accuracy that was measured on others.

    Repeats make the run surer about its own questions, not about how much harder they are than those of the number.
    A floor says itself what it asks for, and needs no measurement but to exclude a drop.
    """
    gate, repeats = spec.gate, spec.protocol.repeats
    is_used = gate.method in _BY_OBSERVED and (gate.method is not Method.STATIC_FLOOR or gate.delta is not None)
    if repeats == 1 or gate.observed is None or not is_used:
        return
    if gate.observed.n in (questions, questions * repeats):
        return
    raise ConfigError.one(
        f"gate {gate.name}: gate.observed is of {gate.observed.n:,} answers, not of the {questions:,} questions that "
        f"are asked {repeats} times each: these may be harder, which no repeat evens out, and healthy runs would FAIL",
        reason="repeats-of-other-questions",
        where="gate.observed",
        hint="set gate=auto gate.observed=null, so that history decides, or measure on these questions: "
        f"gate.observed.n={questions} or {questions * repeats}",
    )


def check_reference(gate: Gate) -> None:
    """Raises ConfigError (`floor-delta-needs-observed`) where a floor has no accuracy to take gate.delta from."""
    if gate.delta is None or gate.observed is not None:
        return
    raise ConfigError.one(
        f"gate {gate.name}: gate.delta asks for a drop below a healthy accuracy, and a floor is none",
        reason="floor-delta-needs-observed",
        where="gate.delta",
        hint="set gate.observed from a healthy run, or gate.delta=null",
    )


def check_drop(gate: Gate, healthy: Fraction) -> None:
    """Raises ConfigError (`drop-too-large`) when gate.delta leaves nothing of the healthy accuracy."""
    if gate.delta is None or exact(gate.delta) < healthy:
        return
    raise ConfigError.one(
        f"gate {gate.name}: a drop of {points(gate.delta)} from a healthy accuracy of {accuracy(float(healthy))} "
        "leaves nothing",
        reason="drop-too-large",
        where="gate.delta",
        hint="choose a smaller gate.delta",
    )


def observed_accuracy(observed: Observed) -> Fraction:
    """The healthy accuracy a measurement stands for: correct / n, exactly.

    A perfect score does not prove an accuracy of 1, at which a single wrong answer would be a regression: it
    counts as (n + 1/2) / (n + 1), the mean under the prior Beta(1/2, 1/2).

    >>> observed_accuracy(Observed(correct=180, n=200)), observed_accuracy(Observed(correct=2, n=2))
    (Fraction(9, 10), Fraction(5, 6))
    """
    if observed.correct == observed.n:
        return Fraction(2 * observed.n + 1, 2 * observed.n + 2)
    return Fraction(observed.correct, observed.n)


def stated_observed(gate: Gate) -> Observed:
    """The gate's measurement. Raises ConfigError: `gate-needs-observed`, `gate-observed-impossible`."""
    if gate.observed is None:
        raise ConfigError.one(
            f"gate {gate.name}: method {gate.method.value} needs a measured accuracy",
            reason="gate-needs-observed",
            where="gate.observed",
            hint="set gate.observed.correct and gate.observed.n from a healthy run, or use static_floor",
        )
    if not 0 <= gate.observed.correct <= gate.observed.n or gate.observed.n == 0:
        raise ConfigError.one(
            f"gate {gate.name}: {gate.observed.correct} correct of {gate.observed.n} is no measurement",
            reason="gate-observed-impossible",
            where="gate.observed",
            hint="gate.observed.correct lies between 0 and gate.observed.n, and n is at least 1",
        )
    return gate.observed
