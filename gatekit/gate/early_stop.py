"""The sequential test of a gate: what it compares, what it needs, and what it says of a run that was cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.errors import ConfigError, Problem
from gatekit.gate.alpha import nominal_alpha
from gatekit.gate.exchangeable import exchangeable
from gatekit.records.answers import Status
from gatekit.records.past import Past
from gatekit.records.spec import EarlyStop, Gate, Method, Spec
from gatekit.records.verdict import Outcome, Rule
from gatekit.stats.paired_sprt import BUILDS_TO_FAIL, BUILDS_TO_PASS, PairedSprt
from gatekit.stats.stopping import PrefixTest, first_crossing
from gatekit.stats.wor_mixture import WorMixture, wor_counts

_KNOWN = {Status.CORRECT: True, Status.WRONG: False, Status.NO_ANSWER: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTest:
    """A gate's sequential test; `test` is None where history does not yet support it, and `note` says so."""

    method: EarlyStop
    test: PrefixTest | None
    note: str = ""


def check_early_stop(spec: Spec) -> None:
    """Raises ConfigError, with every problem, when `gate.early_stop` lacks what it needs from the spec.

    `early-stop-needs-delta`: the drop that is tested; `early-stop-needs-order`: a recorded random order, because
    a prefix of the file's own order is no sample of it.
    """
    gate = spec.gate
    if gate.early_stop is EarlyStop.NONE:
        return
    what, problems = f"gate {gate.name}: early_stop {gate.early_stop.value}", []
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
    if problems:
        raise ConfigError(problems)


def early_test(spec: Spec, n: int, rule: Rule, past: Past) -> EarlyTest | None:
    """The sequential test of n questions; None when `gate.early_stop` is none.

    Healthy is the rule's reference accuracy, dropped is `gate.delta` below it, the error rates are the gate's
    alpha and beta. Raises ConfigError as `check_early_stop`, and `early-stop-needs-reference` or
    `early-stop-untestable` when there is no measured accuracy, or none that n questions can tell from its drop.
    """
    method = spec.gate.early_stop
    if method is EarlyStop.NONE:
        return None
    check_early_stop(spec)
    if method is EarlyStop.PAIRED_SPRT:
        return _paired(spec, n, rule, past)
    return EarlyTest(method=method, test=_wor(spec.gate, n, rule))


def early_outcome(test: PrefixTest, statuses: Sequence[Status | None]) -> Outcome | None:
    """What the test says of these statuses, in asking order, None where unknown; None while undecided.

    Answers that are lost or cut off tell nothing: like the unknown, they count right for FAIL, wrong for PASS.
    """
    return first_crossing(test, [known(status) for status in statuses])


def known(status: Status | None) -> bool | None:
    """Whether a question was answered right; None where that is unknown, lost, or cut off."""
    return None if status is None else _KNOWN.get(status)


def _wor(gate: Gate, n: int, rule: Rule) -> WorMixture:
    assert gate.delta is not None
    reference = rule.reference_accuracy
    if reference is None or (rule.method == Method.STATIC_FLOOR.value and gate.observed is None):
        raise ConfigError.one(
            f"gate {gate.name}: early_stop needs a measured accuracy, a floor is none",
            reason="early-stop-needs-reference",
            where="gate.observed",
            hint="set gate.observed from a healthy run, or gate.early_stop=none",
        )
    try:
        return WorMixture(n, *wor_counts(n, reference, gate.delta), _alpha(gate, rule), gate.beta)
    except ValueError as error:
        raise _untestable(gate, error) from None


def _paired(spec: Spec, n: int, rule: Rule, past: Past) -> EarlyTest:
    gate = spec.gate
    assert gate.delta is not None
    runs = exchangeable(gate, spec.hw.name, n, past).runs
    outcomes = [run.outcomes for run in runs if run.outcomes is not None]
    builds = len(outcomes)
    note = _shortage(builds)
    if builds < BUILDS_TO_FAIL:
        return EarlyTest(method=gate.early_stop, test=None, note=note)
    right = [sum(answers) for answers in zip(*outcomes, strict=True)]
    try:
        test = PairedSprt(right, builds, gate.delta, _alpha(gate, rule), gate.beta)
    except ValueError as error:
        raise _untestable(gate, error) from None
    return EarlyTest(method=gate.early_stop, test=test, note=note)


def _alpha(gate: Gate, rule: Rule) -> float:
    """The gate's; a locked gate need not state the one that its lock was derived with."""
    is_locked = rule.method == Method.LOCKED.value
    return rule.alpha if is_locked and rule.alpha is not None else nominal_alpha(gate)


def _shortage(builds: int) -> str:
    have = f"early_stop paired_sprt: {builds} distinct builds with answers per question"
    if builds < BUILDS_TO_FAIL:
        return f"{have}, {BUILDS_TO_FAIL} needed to stop on FAIL and {BUILDS_TO_PASS} on PASS: this run asks on"
    return f"{have}, {BUILDS_TO_PASS} needed to stop on PASS" if builds < BUILDS_TO_PASS else ""


def _untestable(gate: Gate, error: ValueError) -> ConfigError:
    return ConfigError.one(
        f"gate {gate.name}: early_stop {gate.early_stop.value} cannot test this: {error}",
        reason="early-stop-untestable",
        where="gate.delta",
        hint="set another gate.delta, ask more questions, or set gate.early_stop=none",
    )
