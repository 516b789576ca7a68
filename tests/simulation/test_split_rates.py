"""A gate with a sequential test keeps its error rates over runs whose whole count varies, stops and end together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from gatekit.gate.criterion import Criterion
from gatekit.gate.decide import decide
from gatekit.gate.early_stop import early_test
from gatekit.gate.split_criterion import criterion
from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import EarlyStop, Method, Spec
from gatekit.records.verdict import Outcome
from gatekit.spec.resolve import config_dirs, resolve
from gatekit.stats.wor_mixture import WorMixture
from simulation.bounds import most_alarms
from simulation.worlds import fixed_set

BETA = 0.1


@dataclass(frozen=True)
class Rates:
    """How often healthy runs fail and dropped ones pass or fail."""

    false_alarms: int
    misses: int
    found: int


def gate_of(n: int, accuracy: float, delta: float, alpha: float) -> tuple[Spec, Criterion]:
    """A gate of a known accuracy with early stop."""
    observed = f"gate.observed={{correct: {round(1000 * accuracy)}, n: 1000}}"
    asked = (f"gate.alpha={alpha}", f"gate.delta={delta}", f"gate.beta={BETA}", "gate.early_stop=wor_mixture")
    spec = resolve([observed, *asked, "task.order_seed=1"], dirs=config_dirs([], {}))
    found = criterion(spec, n, Past())
    assert isinstance(found, Criterion)
    return spec, found


def boundaries(test: WorMixture) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The fewest wrong answers that FAIL and the most that PASS, after 0 to n questions."""
    fails, passes = [1], [-1]
    for t in range(1, test.n + 1):
        wrong, few = fails[-1], passes[-1]
        while wrong <= t and test.fail_ratio(t - wrong, wrong) < test.bounds.log_a - 1e-9:
            wrong += 1
        while few + 1 < t and test.pass_ratio(t - few - 1, few + 1) <= test.bounds.log_b + 1e-9:
            few += 1
        fails.append(wrong)
        passes.append(few)
    return np.array(fails), np.array(passes)


def answers(rng: np.random.Generator, n: int, accuracy: float, phi: float) -> NDArray[np.bool_]:
    """One run: a share phi of the questions is right by luck, the rest always or never, in random order."""
    sure = round((1 - phi) * n)
    certain = np.arange(sure) < round(accuracy * sure)
    lucky = rng.random(n - sure) < accuracy
    found: NDArray[np.bool_] = rng.permutation(np.concatenate((certain, lucky)))
    return found


def rates(n: int, accuracy: float, delta: float, alpha: float, phi: float, runs: int) -> Rates:
    """Counted against the gate: a healthy run that ever crosses FAIL, a dropped one that ever crosses PASS."""
    spec, found = gate_of(n, accuracy, delta, alpha)
    rule, early = found.rule, found.rule.early
    fails, passes = np.full(n + 1, n + 1), np.full(n + 1, -1)
    if early is not None:
        test = early_test(spec.gate, n, early, ())
        assert isinstance(test, WorMixture)
        fails, passes = boundaries(test)
    rng = np.random.default_rng([n, round(1000 * delta), round(10 * phi)])
    number = {(model, outcome): 0 for model in ("healthy", "dropped") for outcome in Outcome}
    for model, level in (("healthy", accuracy), ("dropped", accuracy - delta)):
        for _ in range(runs):
            right = answers(rng, n, level, phi)
            wrong, correct = np.concatenate(([0], np.cumsum(~right))), int(right.sum())
            number[model, Outcome.FAIL] += bool((wrong >= fails).any()) or correct < rule.k_reject
            enough = correct >= max(rule.k_reject, rule.k_accept or 0)
            number[model, Outcome.PASS] += bool((wrong <= passes).any()) or enough
    return Rates(
        false_alarms=number["healthy", Outcome.FAIL],
        misses=number["dropped", Outcome.PASS],
        found=number["dropped", Outcome.FAIL],
    )


@pytest.mark.parametrize("phi", [0.2, 1.0])
@pytest.mark.parametrize(("n", "accuracy", "delta"), [(200, 0.9, 0.2), (200, 0.95, 0.1), (1319, 0.9, 0.05)])
def test_both_errors_are_those_asked_for(n: int, accuracy: float, delta: float, phi: float) -> None:
    """Half of all healthy runs end below their mean: they fail with 5 % at most all the same, and drops are found."""
    runs = 800
    found = rates(n, accuracy, delta, 0.05, phi, runs)
    assert found.false_alarms <= most_alarms(runs, 0.05)
    assert found.misses <= most_alarms(runs, BETA)
    assert found.found >= 0.9 * runs


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 1 / 365])
@pytest.mark.parametrize("phi", [0.2, 1.0])
@pytest.mark.parametrize("delta", [0.01, 0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("accuracy", [0.9, 0.95])
@pytest.mark.parametrize("n", [200, 1319])
def test_both_errors_at_length(n: int, accuracy: float, delta: float, phi: float, alpha: float) -> None:
    """False alarms at most alpha and misses at most beta, by 99.9 % bounds over 10,000 runs of each."""
    runs = 10_000
    found = rates(n, accuracy, delta, alpha, phi, runs)
    print(f"{n} {accuracy} {delta} {phi} {alpha:.5f}: {found}")
    assert found.false_alarms <= most_alarms(runs, alpha)
    assert found.misses <= most_alarms(runs, BETA)


@pytest.mark.slow
@pytest.mark.parametrize("method", [EarlyStop.WOR_MIXTURE, EarlyStop.PAIRED_SPRT])
def test_a_rule_on_history_keeps_its_rate(method: EarlyStop) -> None:
    """Ten builds, flips from run to run: a healthy run stops or ends in FAIL with 5 % at most."""
    n, runs, alpha = 200, 400, 0.05
    asked = ("gate=auto", "gate.observed=null", f"gate.alpha={alpha}", "gate.delta=0.1", "task.order_seed=1")
    spec = resolve([*asked, f"gate.early_stop={method.value}"], dirs=config_dirs([], {}))
    rng, world, failed = np.random.default_rng(3), fixed_set(n), 0
    for _ in range(runs):
        chance = rng.permutation(np.repeat(world.chance, world.number))
        past = Past(runs=tuple(_build(number, rng.random(n) < chance) for number in range(10)))
        now = [Status.CORRECT if right else Status.WRONG for right in rng.random(n) < chance]
        found = criterion(spec, n, past)
        assert isinstance(found, Criterion)
        assert found.rule.method == Method.EXACT_CONDITIONAL.value
        assert found.rule.early is not None
        ends = decide(spec, now, past).outcome
        stops = any(
            decide(spec, [*now[:t], *[None] * (n - t)], past).outcome is Outcome.FAIL for t in (20, 60, 120, 199)
        )
        failed += ends is Outcome.FAIL or stops
    print(f"{method.value}: {failed} of {runs}")
    assert failed <= most_alarms(runs, alpha)


def _build(number: int, right: NDArray[np.bool_]) -> PastRun:
    return PastRun(
        run_id=f"r{number}",
        build=f"b{number}",
        hardware="cpu",
        finished_at=f"2026-11-{number + 1:02d}T00:00:00Z",
        n=len(right),
        correct=int(right.sum()),
        outcomes=right.tobytes(),
    )
