"""What `gatekit power` says of the guarded rule is what simulated runs do: 1319 questions, accuracy 0.90."""

from __future__ import annotations

import numpy as np
import pytest

from gatekit.stats.detectable import Shape, World, guarded_test
from simulation.rungs import conditional_p, guarded
from simulation.worlds import Questions, fixed_set, plain

N, ALPHA = 1319, 0.001
HEALTHY = fixed_set(N, 0.9)
CASES = [  # earlier runs, nu_psi, drop, how far apart: about 3 points, and more in the tails of a short history
    (2, 8.0, 0.02, 0.03),
    (2, 8.0, 0.03, 0.09),
    (3, 8.0, 0.02, 0.03),
    (10, 8.0, 0.01, 0.03),
    (10, 8.0, 0.02, 0.03),
    (10, 30.0, 0.02, 0.03),
]


def _whole(drop: float) -> tuple[Questions, Questions]:
    """The same set before and after a drop that loses some of the sure questions outright."""
    sure = float(HEALTHY.chance[0])
    lost = round(drop * N / sure)
    kept = HEALTHY.number.copy()
    kept[0] -= lost
    number = np.append(kept, lost)
    return Questions(number, np.append(HEALTHY.chance, sure)), Questions(number, np.append(HEALTHY.chance, 0.0))


def _gap(shape: Shape, case: tuple[int, float, float, float], runs: int) -> float:
    k, nu_psi, drop, _ = case
    before, after = _whole(drop) if shape is Shape.WHOLE else (HEALTHY, HEALTHY.dropped(drop))
    tables, totals = plain(np.random.default_rng(21), before, after, k, runs)
    simulated = float((guarded(conditional_p(tables), tables, totals, nu_psi) <= ALPHA).mean())
    stated = guarded_test(World(n=N, accuracy=0.9, phi=HEALTHY.phi, runs=k), ALPHA, nu_psi).fails(drop, shape)
    print(f"{shape.value}, k={k}, nu_psi={nu_psi:g}, drop {drop}: simulated {simulated:.4f}, stated {stated:.4f}")
    return abs(simulated - stated)


@pytest.mark.parametrize("shape", Shape)
def test_the_guarded_rule_has_the_power_stated(shape: Shape) -> None:
    """With ten earlier runs and a drop of 2 points 1500 runs agree to 3 points, and 2.5 standard errors."""
    assert _gap(shape, (10, 8.0, 0.02, 0.03), 1_500) < 0.03 + 0.03


@pytest.mark.slow
@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize("case", CASES)
def test_the_guarded_rule_has_the_power_stated_in_many_runs(
    shape: Shape, case: tuple[int, float, float, float]
) -> None:
    """In 8000 runs the figures agree to about 3 points, after two runs and 3 points to 9."""
    assert _gap(shape, case, 8_000) < case[3]
