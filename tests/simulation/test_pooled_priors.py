"""What a prior pooled over twenty series does to rules that have few runs of their own.

Every matrix is drawn anew, pooled as `gatekit.gate.matrix_prior` pools it, and used on other worlds of the same kind.
Without shocks the guard of the per-question rules and the totals both gain: they no longer pay for not knowing the
spread. Under shocks the pooled psi is about 1.5 instead of 1: the guard then gains power with ten runs only, and the
false alarms stay where they belong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from gatekit.stats.flips import moderated_t
from gatekit.stats.pooling import Prior, SeriesTotals, pool_phi, pool_psi
from simulation.bounds import most_alarms
from simulation.rungs import NU0, PHI0, Rejected, conditional_p, flip_variance, guarded
from simulation.worlds import SHOCK, Counts, Questions, fixed_set, shocked

N, ALPHA, SERIES = 1319, 0.001, 20
HEALTHY = fixed_set(N, 0.9)
DROPPED = HEALTHY.dropped(0.02)

POWER = {  # k and shock: power of the guard with its own and with the pooled prior, of moderated_t with either
    (2, 0.0): (0.24, 0.44, 0.16, 0.69),
    (3, 0.0): (0.38, 0.51, 0.36, 0.71),
    (10, 0.0): (0.75, 0.87, 0.78, 0.90),
    (2, SHOCK): (0.25, 0.25, 0.17, 0.41),
    (3, SHOCK): (0.36, 0.33, 0.30, 0.47),
    (10, SHOCK): (0.61, 0.67, 0.59, 0.71),
}


@dataclass(frozen=True, slots=True)
class Rejections:
    """Which worlds each rule rejects, with its own prior and with the pooled one."""

    guard: Rejected
    pooled_guard: Rejected
    totals: Rejected
    pooled_totals: Rejected

    @property
    def shares(self) -> tuple[float, ...]:
        """As shares of the worlds."""
        return tuple(float(one.mean()) for one in (self.guard, self.pooled_guard, self.totals, self.pooled_totals))


def _pooled(rng: np.random.Generator, k: int, shock: float) -> tuple[Prior, Prior]:
    tables, history = shocked(rng, HEALTHY, HEALTHY, k, SERIES, shock)
    series = [
        SeriesTotals(n=N, correct=tuple(totals), flip_variance=flip_variance(table))
        for totals, table in zip(history.tolist(), tables.sum(axis=2), strict=True)
    ]
    psi, phi = pool_psi(series), pool_phi(series)
    assert psi is not None
    assert phi is not None
    return psi, phi


def _below(history: Counts, new: Counts, phi0: float, nu0: float) -> Rejected:
    worlds = zip(history.tolist(), new.tolist(), strict=True)
    return np.array([count < moderated_t(N, totals, ALPHA, phi0, nu0).k_pass for totals, count in worlds])


def _rejections(seed: int, k: int, shock: float, now: Questions, matrices: int, worlds: int) -> Rejections:
    rng = np.random.default_rng(seed)
    found: list[tuple[Rejected, ...]] = []
    for _ in range(matrices):
        psi, phi = _pooled(rng, k, shock)
        tables, history = shocked(rng, HEALTHY, now, k, worlds, shock)
        p, new = conditional_p(tables), tables[:, :, 1].sum(axis=1)
        found.append(
            (
                np.asarray(guarded(p, tables, history) <= ALPHA),
                np.asarray(guarded(p, tables, history, psi.freedom, psi.scale) <= ALPHA),
                _below(history, new, PHI0, NU0),
                _below(history, new, phi.scale, phi.freedom),
            )
        )
    return Rejections(*(np.concatenate(column) for column in zip(*found, strict=True)))


@pytest.mark.parametrize("k", [2, 3])
def test_pooling_gives_power_to_short_histories(k: int) -> None:
    """A drop of 2 points is noticed far more often once the spread is known from twenty series."""
    found = _rejections(5, k, 0.0, DROPPED, 60, 10).shares
    print(f"k={k}: guard {found[0]:.3f} -> {found[1]:.3f}, moderated_t {found[2]:.3f} -> {found[3]:.3f}")
    assert found == pytest.approx(POWER[k, 0.0], abs=0.08)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "shock"), POWER)
def test_the_power_of_pooled_priors(k: int, shock: float) -> None:
    """Power at a drop of 2 points with either prior, without and with shocks of 0.3 points."""
    found = _rejections(7, k, shock, DROPPED, 500, 10).shares
    print(f"k={k}, shock {shock}: guard {found[0]:.3f} -> {found[1]:.3f}, moderated_t {found[2]:.3f} -> {found[3]:.3f}")
    assert found == pytest.approx(POWER[k, shock], abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "shock"), POWER)
def test_pooled_priors_keep_alpha(k: int, shock: float) -> None:
    """With a pooled prior neither rule alarms more often than its nominal 0.1 %, with shocks or without."""
    runs = 20_000
    found = _rejections(8, k, shock, HEALTHY, 400, runs // 400)
    for name, rejected in (("guard", found.pooled_guard), ("moderated_t", found.pooled_totals)):
        print(f"{name}, k={k}, shock {shock}: {int(rejected.sum())} of {runs}")
        assert int(rejected.sum()) <= most_alarms(runs, ALPHA)
