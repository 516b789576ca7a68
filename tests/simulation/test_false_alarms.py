"""No rung alarms more often than it says, in the world where it says so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gatekit.stats.binomial import lower_tail, reject_count
from gatekit.stats.threshold import floor_count
from simulation.bounds import most_alarms
from simulation.rungs import (
    Rejected,
    conditional_p,
    flip_rejected,
    guarded,
    mcnemar_p,
    moderated_rejected,
    predictive_rejected,
    textbook_conditional_p,
)
from simulation.worlds import Array, fixed_set, plain, tables, totals

N, ACCURACY = 1319, 0.9
QUESTIONS = fixed_set(N, ACCURACY)
ALPHAS = (0.05, 0.01, 0.001)

Rng = np.random.Generator
Rejects = Callable[[Rng, int], Callable[[float], Rejected]]  # draw once, then reject at any alpha


def _at(p: Array) -> Callable[[float], Rejected]:
    return lambda alpha: np.asarray(p <= alpha)


def _binomial_fresh(rng: Rng, runs: int) -> Callable[[float], Rejected]:
    found = rng.binomial(N, ACCURACY, runs)
    return lambda alpha: np.asarray(found < reject_count(N, ACCURACY, alpha))


def _binomial_fixed(rng: Rng, runs: int) -> Callable[[float], Rejected]:
    found = totals(rng, QUESTIONS, (runs,))
    return lambda alpha: np.asarray(found < reject_count(N, ACCURACY, alpha))


def _predictive_fresh(rng: Rng, runs: int) -> Callable[[float], Rejected]:
    found = rng.binomial(N, ACCURACY, (2, runs))
    return lambda alpha: predictive_rejected(found[0], found[1], N, alpha)


def _predictive_fixed(rng: Rng, runs: int) -> Callable[[float], Rejected]:
    found = totals(rng, QUESTIONS, (2, runs))
    return lambda alpha: predictive_rejected(found[0], found[1], N, alpha)


def _moderated(k: int) -> Rejects:
    def draw(rng: Rng, runs: int) -> Callable[[float], Rejected]:
        history, new = totals(rng, QUESTIONS, (runs, k)), totals(rng, QUESTIONS, (runs,))
        return lambda alpha: moderated_rejected(history, new, N, alpha)

    return draw


def _mcnemar(rng: Rng, runs: int) -> Callable[[float], Rejected]:
    return _at(mcnemar_p(tables(rng, QUESTIONS, QUESTIONS, 1, runs)))


def _conditional(k: int) -> Rejects:
    return lambda rng, runs: _at(conditional_p(tables(rng, QUESTIONS, QUESTIONS, k, runs)))


def _flips(k: int) -> Rejects:
    def draw(rng: Rng, runs: int) -> Callable[[float], Rejected]:
        found = tables(rng, QUESTIONS, QUESTIONS, k, runs)
        return lambda alpha: flip_rejected(found, alpha)

    return draw


def _guard(k: int) -> Rejects:
    def draw(rng: Rng, runs: int) -> Callable[[float], Rejected]:
        found, history = plain(rng, QUESTIONS, QUESTIONS, k, runs)
        return _at(guarded(conditional_p(found), found, history))

    return draw


RUNGS: dict[str, tuple[Rejects, int, int]] = {  # how to draw, runs in the quick and in the slow suite
    "exact_binomial, fresh questions": (_binomial_fresh, 100_000, 1_000_000),
    "exact_binomial, fixed set": (_binomial_fixed, 100_000, 1_000_000),
    "beta_binomial_predictive, fresh questions": (_predictive_fresh, 50_000, 1_000_000),
    "beta_binomial_predictive, fixed set": (_predictive_fixed, 50_000, 1_000_000),
    "moderated_t, k=3": (_moderated(3), 20_000, 500_000),
    "moderated_t, k=10": (_moderated(10), 20_000, 300_000),
    "exact_mcnemar": (_mcnemar, 20_000, 200_000),
    "exact_conditional, k=3": (_conditional(3), 2_000, 40_000),
    "exact_conditional, k=10": (_conditional(10), 2_000, 25_000),
    "flip_prediction, k=2": (_flips(2), 2_000, 60_000),
    "flip_prediction, k=10": (_flips(10), 2_000, 60_000),
    "overdispersion guard, k=3": (_guard(3), 1_000, 20_000),
    "overdispersion guard, k=10": (_guard(10), 500, 20_000),
}


def _excess(name: str, draw: Rejects, runs: int) -> list[str]:
    """The levels at which a rung alarmed more often than its 99.9 % bound, as text; every rate is printed."""
    rejected, excess = draw(np.random.default_rng(20261130), runs), []
    for alpha in ALPHAS:
        alarms, most = int(rejected(alpha).sum()), most_alarms(runs, alpha)
        told = f"{name}: {alarms} alarms in {runs} runs at alpha {alpha} (at most {most}), rate {alarms / runs:.5f}"
        print(told)
        if alarms > most:
            excess.append(told)
    return excess


@pytest.mark.parametrize("name", RUNGS)
def test_no_rung_exceeds_its_alpha(name: str) -> None:
    """In a few thousand healthy runs a rung alarms at most as often as chance allows at 5, 1 and 0.1 %."""
    draw, runs, _ = RUNGS[name]
    assert not _excess(name, draw, runs)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNGS)
def test_no_rung_exceeds_its_alpha_in_many_runs(name: str) -> None:
    """The same with enough runs to notice an alpha of 0.1 % that is really 0.2 %."""
    draw, _, runs = RUNGS[name]
    assert most_alarms(runs, 0.001) < 0.002 * runs
    assert not _excess(name, draw, runs)


def test_a_hand_typed_floor_alarms_as_often_as_it_is_said_to() -> None:
    """0.85 of 200 fails 0.95 % of healthy runs at 0.90 on fresh questions, and next to none on a fixed set."""
    k, runs, rng = floor_count(0.85, 0.0, 200), 200_000, np.random.default_rng(7)
    implied = lower_tail(k, 200, 0.9)
    assert implied == pytest.approx(0.0095, abs=5e-5)
    assert (rng.binomial(200, 0.9, runs) < k).mean() == pytest.approx(implied, rel=0.1)
    assert (totals(rng, fixed_set(200), (runs,)) < k).sum() <= 2


def test_the_bound_notices_a_rule_that_exceeds_its_alpha() -> None:
    """A threshold at three sample deviations of three runs, nominally 0.13 %, is caught by the same bound."""
    rng, runs = np.random.default_rng(3), 3_000
    history, new = totals(rng, QUESTIONS, (runs, 3)), totals(rng, QUESTIONS, (runs,))
    alarms = int((new < history.mean(axis=1) - 3 * history.std(axis=1, ddof=1)).sum())
    assert alarms > most_alarms(runs, 0.00135)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_conditional_test_simulated_is_the_one_of_the_textbook(k: int) -> None:
    """The quick form that the gate uses and the exact form give the same p-values on simulated worlds."""
    found = tables(np.random.default_rng(5), QUESTIONS, QUESTIONS.dropped(0.01), k, 200)
    assert conditional_p(found) == pytest.approx(textbook_conditional_p(found), rel=1e-9)


def test_nights_of_one_build_are_not_replicates() -> None:
    """Ten copies of one run as history make a nominal 0.1 % into more than 10 %: why builds are collapsed."""
    rng, runs = np.random.default_rng(4), 1_000
    one = tables(rng, QUESTIONS, QUESTIONS, 1, runs)
    ten = np.zeros((runs, 11, 2), dtype=np.int64)
    ten[:, 0], ten[:, 10] = one[:, 0], one[:, 1]
    assert (conditional_p(ten) <= 0.001).mean() == pytest.approx(0.141, abs=0.035)
