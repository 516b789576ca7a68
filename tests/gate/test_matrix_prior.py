"""The prior that many series make together."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.exchangeable import Exchangeable, exchangeable
from gatekit.gate.matrix_prior import matrix_prior
from gatekit.gate.prior import own_prior
from gatekit.records.past import Past
from gatekit.records.spec import Gate, Method
from gatekit.stats.pooling import SeriesTotals, pool_phi, pool_psi
from past_builders import detailed, flipped, totals

GATE = Gate(name="g", method=Method.AUTO, alpha=0.01, phi0=0.3, nu0=5.0, nu_psi=7.0)
N = 200


def counted(past: Past, n: int = N) -> Exchangeable:
    """What counts of a series."""
    return exchangeable(GATE, "b200", n, past)


def answers(seed: int, runs: int) -> Past:
    """Runs that flip a few of their questions."""
    rng = Random(seed)
    return detailed([flipped(N, [*range(10), *rng.sample(range(10, 60), rng.randint(6, 14))]) for _ in range(runs)])


@pytest.mark.parametrize("series", [[], [totals([180], N)] * 3, [totals([180, 184], N), totals([170], N)]])
def test_fewer_than_two_series_say_nothing(series: list[Past]) -> None:
    """Without two series of two runs the gate's own prior stands, and says that nothing was pooled."""
    assert matrix_prior(GATE, [counted(past) for past in series]) == own_prior(GATE)


def test_totals_pool_phi_alone() -> None:
    """Series of totals give phi0 and nu0 as `pool_phi` does; psi stays the gate's own."""
    counts = [(178, 180, 182), (181, 183), (150, 158, 155, 154)]
    found = matrix_prior(GATE, [counted(totals(one, N)) for one in counts])
    pooled = pool_phi([SeriesTotals(n=N, correct=one) for one in counts])
    assert pooled is not None
    assert (found.phi0, found.nu0, found.series) == (pooled.scale, pooled.freedom, 3)
    assert (found.psi0, found.nu_psi) == (1.0, 7.0)


def test_answers_pool_psi_too() -> None:
    """Series with answers give psi0 and nu_psi as `pool_psi` does, from the runs that hold their answers."""
    series = [answers(seed, 3 + seed) for seed in range(4)]
    found = matrix_prior(GATE, [counted(past) for past in series])
    told = []
    for past in series:
        before = [sum(column) for column in zip(*(run.outcomes or b"" for run in past.runs), strict=True)]
        k = len(past.runs)
        variance = sum(h * (k - h) for h in before) / (k * (k - 1))
        told.append(SeriesTotals(n=N, correct=tuple(run.correct for run in past.runs), flip_variance=variance))
    pooled = pool_psi(told)
    assert pooled is not None
    assert found.psi0 == pytest.approx(pooled.scale)
    assert found.nu_psi == pytest.approx(pooled.freedom)
    assert found.series == 4


def test_series_of_other_sizes_pool_together() -> None:
    """The dispersion is a share, so that series of 200 and of 1319 questions tell of one matrix."""
    found = matrix_prior(GATE, [counted(totals([178, 181], N)), counted(totals([1180, 1187, 1190], 1319), 1319)])
    assert found.series == 2
    assert 0 < found.phi0 < 1


def test_the_norm_alone_is_pooled() -> None:
    """Runs after the baseline move no prior: the drift of one gate must not loosen the others."""
    gate = Gate(name="g", method=Method.AUTO, baseline_builds=3)
    quiet = [totals([180, 182, 179], N), totals([170, 171, 174], N)]
    drifted = [Past(runs=(*past.runs, *totals([120, 110, 100], N).runs)) for past in quiet]
    priors = [
        matrix_prior(gate, [exchangeable(gate, "b200", N, past) for past in series]) for series in (quiet, drifted)
    ]
    assert priors[0] == priors[1]


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.lists(st.integers(100, 199), min_size=1, max_size=5), min_size=0, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_the_series_is_irrelevant(counts: list[list[int]], order: Random) -> None:
    """Every order of the series gives the same prior, always one that a rule can use."""
    series = [counted(totals(one, N)) for one in counts]
    found = matrix_prior(GATE, series)
    order.shuffle(series)
    again = matrix_prior(GATE, series)
    assert again == found
    assert found.phi0 > 0
    assert found.nu0 > 0
