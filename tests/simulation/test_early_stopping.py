"""Sequential tests keep their error rates when many requests are in flight and wrong answers are slow."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from gatekit.records.verdict import Outcome
from gatekit.stats.paired_sprt import PairedSprt
from gatekit.stats.stopping import first_crossing
from gatekit.stats.wor_mixture import WorMixture, wor_counts
from simulation.bounds import most_alarms
from simulation.streams import Ended, as_completed, by_prefixes, shuffled
from simulation.worlds import fixed_set

N = 1319
HEALTHY, DROPPED = wor_counts(N, 0.9, 0.05)
TEST = WorMixture(N, HEALTHY, DROPPED, 0.01, 0.01)
QUICK = 150


def _ended(right: int, in_flight: int, slow: float, runs: int) -> list[Ended]:
    rng = Random(right * 1000 + in_flight + int(slow))
    return [by_prefixes(TEST, shuffled(N, right, rng), in_flight, slow, rng) for _ in range(runs)]


def _number(ended: list[Ended], outcome: Outcome) -> int:
    return sum(one.outcome is outcome for one in ended)


def test_slow_wrong_answers_fool_the_naive_rule_and_not_ours() -> None:
    """With 64 in flight and wrong answers 4x slower, counting as completed misses the drop; prefixes do not."""
    rng = Random(7)
    naive = [as_completed(shuffled(N, DROPPED, rng), 64, 4.0, rng) for _ in range(QUICK)]
    assert _number(naive, Outcome.PASS) > 0.8 * QUICK
    assert _number(_ended(DROPPED, 64, 4.0, QUICK), Outcome.PASS) <= most_alarms(QUICK, 0.01)
    assert _number(_ended(HEALTHY, 64, 4.0, QUICK), Outcome.FAIL) <= most_alarms(QUICK, 0.01)


def test_a_dead_kernel_costs_tens_of_questions() -> None:
    """With 64 in flight from the start: at most 100 questions at accuracy 0, 160 at 0.3 with slow wrong answers."""
    dead, poor = _ended(0, 64, 1.0, 50), _ended(round(0.3 * N), 64, 4.0, 50)
    assert {one.outcome for one in dead + poor} == {Outcome.FAIL}
    assert max(one.sent for one in dead) <= 100
    assert max(one.sent for one in poor) <= 160


@pytest.mark.slow
@pytest.mark.parametrize(("in_flight", "slow"), [(64, 1.0), (64, 2.0), (256, 1.0), (256, 2.0), (256, 4.0)])
def test_error_rates_hold_out_of_order(in_flight: int, slow: float) -> None:
    """False alarms and misses are no more than a nominal 1 % explains, whatever is in flight and however slow."""
    runs = 2000
    false_alarms, misses = _errors(in_flight, slow, runs)
    assert max(false_alarms, misses) <= most_alarms(runs, 0.01) / runs


@pytest.mark.slow
def test_error_rates_hold_where_the_naive_rule_breaks() -> None:
    """At 64 in flight and wrong answers 4x slower both errors are at most 1.2 %: 16,000 runs, standard error 0.08 %."""
    assert max(_errors(64, 4.0, 16_000)) <= 0.012


def _errors(in_flight: int, slow: float, runs: int) -> tuple[float, float]:
    false_alarms = _number(_ended(HEALTHY, in_flight, slow, runs), Outcome.FAIL) / runs
    misses = _number(_ended(DROPPED, in_flight, slow, runs), Outcome.PASS) / runs
    print(f"{in_flight} in flight, wrong {slow:g}x slower: false alarms {false_alarms:.4f}, misses {misses:.4f}")
    return false_alarms, misses


@pytest.mark.slow
def test_the_naive_rule_misses_most_drops() -> None:
    """As completed, at 64 in flight and wrong answers 4x slower, about 92 % of 5-point drops pass."""
    runs, rng = 3000, Random(11)
    ended = [as_completed(shuffled(N, DROPPED, rng), 64, 4.0, rng) for _ in range(runs)]
    assert _number(ended, Outcome.PASS) / runs == pytest.approx(0.92, abs=0.03)


def _paired(builds: int, drop: float, runs: int) -> dict[Outcome | None, float]:
    """How often the paired test ends in each way in the fixed-set world, at a nominal 1 %."""
    rng, healthy = np.random.default_rng(builds), fixed_set(N)
    chances = np.repeat(healthy.chance, healthy.number)
    found: dict[Outcome | None, float] = {Outcome.FAIL: 0.0, Outcome.PASS: 0.0, None: 0.0}
    for _ in range(runs):
        order = rng.permutation(chances)
        test = PairedSprt(rng.binomial(builds, order).tolist(), builds, 0.05, 0.01, 0.01)
        now = rng.random(N) < order * (1 - drop / healthy.mean)
        found[first_crossing(test, now.tolist())] += 1 / runs
    return found


@pytest.mark.parametrize("scale", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_paired_test_keeps_its_error_rates(scale: int) -> None:
    """With 10 builds of history: false alarms and misses of a 5-point drop about the nominal 1 %, at most 2 %."""
    allowed: Callable[[int], float] = lambda runs: most_alarms(runs, 0.015) / runs  # noqa: E731
    assert _paired(10, 0.0, scale)[Outcome.FAIL] <= allowed(scale)
    assert _paired(10, 0.05, scale)[Outcome.PASS] <= allowed(scale)
    assert _paired(10, 0.05, scale)[Outcome.FAIL] >= 0.95


@pytest.mark.parametrize("scale", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_paired_test_with_three_builds_fails_only_with_reason(scale: int) -> None:
    """With 3 builds there is no PASS, and a healthy build fails about as rarely as stated."""
    found = _paired(3, 0.0, scale)
    assert found[Outcome.PASS] == 0
    assert found[Outcome.FAIL] <= most_alarms(scale, 0.015) / scale
