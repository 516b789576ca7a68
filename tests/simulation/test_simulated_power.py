"""How often a drop of 2 points is noticed: 1319 questions, accuracy 0.90, dispersion about 0.2, alpha 0.1 %."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gatekit.stats.binomial import reject_count
from simulation.rungs import conditional_p, flip_rejected, guarded, mcnemar_p, moderated_rejected
from simulation.worlds import fixed_set, plain, tables, totals

N, ALPHA, DROP = 1319, 0.001, 0.02
HEALTHY = fixed_set(N, 0.9)
DROPPED = HEALTHY.dropped(DROP)

Rng = np.random.Generator
Power = Callable[[Rng, int], float]


def _binomial_fresh(rng: Rng, runs: int) -> float:
    return float((rng.binomial(N, 0.9 - DROP, runs) < reject_count(N, 0.9, ALPHA)).mean())


def _binomial_fixed(rng: Rng, runs: int) -> float:
    return float((totals(rng, DROPPED, (runs,)) < reject_count(N, 0.9, ALPHA)).mean())


def _moderated(k: int) -> Power:
    def power(rng: Rng, runs: int) -> float:
        history, new = totals(rng, HEALTHY, (runs, k)), totals(rng, DROPPED, (runs,))
        return float(moderated_rejected(history, new, N, ALPHA).mean())

    return power


def _mcnemar(rng: Rng, runs: int) -> float:
    return float((mcnemar_p(tables(rng, HEALTHY, DROPPED, 1, runs)) <= ALPHA).mean())


def _conditional(k: int) -> Power:
    return lambda rng, runs: float((conditional_p(tables(rng, HEALTHY, DROPPED, k, runs)) <= ALPHA).mean())


def _flips(k: int) -> Power:
    return lambda rng, runs: float(flip_rejected(tables(rng, HEALTHY, DROPPED, k, runs), ALPHA).mean())


def _guard(k: int, nu_psi: float = 8.0) -> Power:
    def power(rng: Rng, runs: int) -> float:
        found, history = plain(rng, HEALTHY, DROPPED, k, runs)
        return float((guarded(conditional_p(found), found, history, nu_psi) <= ALPHA).mean())

    return power


RUNGS: dict[str, tuple[Power, float, float]] = {  # how to simulate, and the power promised: from, to
    "exact_binomial, fresh questions": (_binomial_fresh, 0.18, 0.25),
    "exact_binomial, fixed set": (_binomial_fixed, 0.07, 0.13),
    "moderated_t, k=3": (_moderated(3), 0.30, 0.42),
    "moderated_t, k=10": (_moderated(10), 0.72, 0.84),
    "exact_mcnemar": (_mcnemar, 0.40, 0.50),
    "exact_conditional, k=3": (_conditional(3), 0.72, 0.84),
    "exact_conditional, k=10": (_conditional(10), 0.85, 0.95),
    "flip_prediction, k=2": (_flips(2), 0.75, 0.85),
    "flip_prediction, k=10": (_flips(10), 0.86, 0.96),
    "overdispersion guard, k=2": (_guard(2), 0.18, 0.30),
    "overdispersion guard, k=3": (_guard(3), 0.33, 0.45),
    "overdispersion guard, k=10": (_guard(10), 0.70, 0.80),
    "overdispersion guard pooled to 30 df, k=2": (_guard(2, 30.0), 0.54, 0.65),
    "overdispersion guard pooled to 30 df, k=3": (_guard(3, 30.0), 0.63, 0.74),
    "overdispersion guard pooled to 30 df, k=10": (_guard(10, 30.0), 0.80, 0.89),
}


def test_the_world_is_the_one_described() -> None:
    """The fixed set has 1319 questions, accuracy 0.90 and a dispersion near 0.21; a drop takes what it says."""
    assert HEALTHY.n == N
    assert HEALTHY.mean == pytest.approx(0.9, abs=1e-12)
    assert HEALTHY.phi == pytest.approx(0.21, abs=0.01)
    assert DROPPED.mean == pytest.approx(0.88, abs=1e-12)
    counts = totals(np.random.default_rng(1), HEALTHY, (50_000,))
    assert counts.var() / (N * 0.09) == pytest.approx(HEALTHY.phi, rel=0.03)


@pytest.mark.parametrize("name", RUNGS)
def test_each_rung_has_the_power_promised(name: str) -> None:
    """In 1000 runs after a drop of 2 points a rung fails as often as the documentation promises."""
    power, low, high = RUNGS[name]
    found = power(np.random.default_rng(11), 1_000)
    print(f"{name}: power {found:.4f}")
    assert low <= found <= high


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNGS)
def test_each_rung_has_the_power_promised_in_many_runs(name: str) -> None:
    """The same in 15000 runs, where the promise must hold with 3 standard errors to spare."""
    power, low, high = RUNGS[name]
    runs = 15_000
    found = power(np.random.default_rng(12), runs)
    spare = 3 * (found * (1 - found) / runs) ** 0.5
    print(f"{name}: power {found:.4f}")
    assert low + spare <= found <= high - spare
