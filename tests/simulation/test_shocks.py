"""What run-level shocks do: rules from flips exceed their alpha, the guard and the totals do not.

Shocks of 0.3 points (hosts, kernels, caches) make the answers of one run move together, which per-question
rules cannot see: the variance of a count is psi = 1.6 times what flips explain. The rates of the rules from
flips are documented here, not promised by them. They depend on how a shock acts; here it moves only uncertain
questions and creates no new ones, which is the hardest case.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from simulation.bounds import most_alarms
from simulation.rungs import conditional_p, flip_rejected, guarded, mcnemar_p, moderated_rejected
from simulation.worlds import SHOCK, Counts, Questions, fixed_set, shocked

N, ALPHA, RUNS = 1319, 0.001, 20_000
HEALTHY = fixed_set(N, 0.9)
ADDED_PHI = N * SHOCK**2 / 0.09
EXPECTED = float(norm.cdf(norm.ppf(ALPHA) / (1 + ADDED_PHI / HEALTHY.phi) ** 0.5))  # of a rule blind to shocks


def _worlds(seed: int, k: int, runs: int, now: Questions = HEALTHY) -> tuple[Counts, Counts]:
    return shocked(np.random.default_rng(seed), HEALTHY, now, k, runs)


def _told(name: str, alarms: int, runs: int) -> float:
    print(f"{name}: {alarms} of {runs} runs, rate {alarms / runs:.5f}")
    return alarms / runs


def test_shocks_add_to_the_variance_of_a_count() -> None:
    """Var(S) is phi v + n^2 tau^2: a shock of 0.3 points adds 0.13 to the dispersion at 1319 questions."""
    _, history = _worlds(1, 2, 2_000)
    assert pytest.approx(0.13, abs=0.005) == ADDED_PHI
    assert history.mean() == pytest.approx(0.9 * N, abs=0.5)
    assert history.var() / (N * 0.09) == pytest.approx(HEALTHY.phi + ADDED_PHI, rel=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 10])
def test_rules_from_flips_exceed_their_alpha_under_shocks(k: int) -> None:
    """A nominal 0.1 % becomes about 0.6 %, near the 0.7 % that a normal count with 1.6 times the variance gives."""
    tables, _ = _worlds(2, k, RUNS)
    alarms = {"exact_mcnemar": mcnemar_p(tables) <= ALPHA} if k == 1 else {}
    if k > 1:
        alarms = {"exact_conditional": conditional_p(tables) <= ALPHA, "flip_prediction": flip_rejected(tables, ALPHA)}
    for name, rejected in alarms.items():
        count = int(rejected.sum())
        assert EXPECTED / 2 < _told(f"{name}, k={k}, shocks", count, RUNS) < EXPECTED * 1.25
        assert count > most_alarms(RUNS, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 10])
def test_the_guard_keeps_alpha_under_shocks(k: int) -> None:
    """The conditional test widened by the scatter of the totals stays within the nominal 0.1 %."""
    tables, history = _worlds(3, k, RUNS)
    alarms = int((guarded(conditional_p(tables), tables, history) <= ALPHA).sum())
    _told(f"guard, k={k}, shocks", alarms, RUNS)
    assert alarms <= most_alarms(RUNS, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "multiple"), [(3, 1), (10, 2)])
def test_totals_see_shocks(k: int, multiple: int) -> None:
    """A threshold from totals widens by itself: alpha holds at 3 runs; at 10, prior 0.2 allows twice as many."""
    tables, history = _worlds(5, k, 2 * RUNS)
    alarms = int(moderated_rejected(history, tables[:, :, 1].sum(axis=1), N, ALPHA).sum())
    _told(f"moderated_t, k={k}, shocks", alarms, 2 * RUNS)
    assert alarms <= most_alarms(2 * RUNS, multiple * ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "power"), [(3, 0.36), (10, 0.60)])
def test_the_guard_costs_power(k: int, power: float) -> None:
    """The price under shocks at a drop of 2 points: 0.36 and 0.60 instead of 0.74 and 0.85."""
    tables, history = _worlds(6, k, 4_000, HEALTHY.dropped(0.02))
    p = conditional_p(tables)
    found, unguarded = (guarded(p, tables, history) <= ALPHA).mean(), (p <= ALPHA).mean()
    print(f"guard, k={k}, shocks: power {found:.4f}, without the guard {unguarded:.4f}")
    assert found == pytest.approx(power, abs=0.03)
    assert unguarded > found + 0.2
