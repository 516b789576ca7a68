"""Control charts against tables, a Markov chain and their own definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm

from gatekit.stats.drift import cusum_arl, cusum_limit, ewma_arl, ewma_limit


def markov_arl(keep: float, scale: float, allowance: float, limit: float, cells: int = 1200) -> float:
    """Brook & Evans: mean run length of max(0, keep S + scale z - allowance) on a fine grid of states."""
    edges = np.linspace(0, limit, cells + 1)
    centres = np.concatenate(([0.0], (edges[1:] + edges[:-1]) / 2))
    reach = norm.cdf((edges[None, :] + allowance - keep * centres[:, None]) / scale)
    moves = np.column_stack((reach[:, 0], np.diff(reach, axis=1)))
    return float(np.linalg.solve(np.eye(cells + 1) - moves, np.ones(cells + 1))[0])


@pytest.mark.parametrize(("k", "h"), [(0.5, 4.0), (0.25, 8.0), (1.0, 2.5)])
def test_cusum_run_lengths_agree_with_a_markov_chain(k: float, h: float) -> None:
    """The integral equation and a chain of 1200 states give the same mean run length to 0.01 %."""
    assert cusum_arl(k, h) == pytest.approx(markov_arl(1.0, 1.0, k, h), rel=1e-4)


def test_ewma_run_lengths_agree_with_a_markov_chain() -> None:
    """The same for the exponentially weighted chart."""
    limit = 2.6 * (0.1 / 1.9) ** 0.5
    assert ewma_arl(0.1, 2.6) == pytest.approx(markov_arl(0.9, 0.1, 0.0, limit), rel=1e-3)


@pytest.mark.parametrize("nights", [365, 3650, 7300])
def test_the_limit_gives_the_run_length_asked_for(nights: int) -> None:
    """The limit found gives the wanted in-control run length, at the published values 4.08, 6.36 and 7.05."""
    h = cusum_limit(0.5, nights)
    assert cusum_arl(0.5, h) == pytest.approx(nights, rel=1e-9)
    assert h == pytest.approx({365: 4.08, 3650: 6.36, 7300: 7.05}[nights], abs=0.005)


@pytest.mark.parametrize(
    ("chart", "numbers"),
    [(cusum_arl, (0.5, 0.0)), (ewma_arl, (0.0, 3.0)), (cusum_limit, (0.5, 1.5)), (ewma_limit, (0.2, 1.5))],
)
def test_charts_that_make_no_sense_are_refused(chart: Callable[..., float], numbers: tuple[float, float]) -> None:
    """A limit of 0, a weight of 0 and a run length no chart is short enough for are refused."""
    with pytest.raises(ValueError, match=r"control limit|EWMA chart|even [hc] = 0"):
        chart(*numbers)


@pytest.mark.parametrize(("nights", "c"), [(365, 2.758), (7300, 3.68), (1_000_000, 4.817)])
def test_the_ewma_limit_gives_the_run_length_asked_for(nights: int, c: float) -> None:
    """The limit found gives the wanted in-control run length at lam = 0.2, 3.68 for 7300 nights as published."""
    found = ewma_limit(0.2, nights)
    assert ewma_arl(0.2, found) == pytest.approx(nights, rel=1e-6)
    assert found == pytest.approx(c, abs=0.005)
