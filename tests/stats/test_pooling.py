"""A prior for the dispersion from many series."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import polygamma

from gatekit.stats.pooling import SeriesTotals, fit_scaled_f, pool_phi, pool_psi, trigamma_inverse

# Published repeated runs: questions, runs, mean accuracy and standard deviation of the accuracy.
PUBLISHED = [
    (1314, 10, 0.8550, 0.0015),
    (1314, 10, 0.5842, 0.0044),
    (1319, 50, 0.8681, 0.00366),
    (200, 61, 0.860, 0.009),
    (200, 20, 0.7798, 0.0062),
    (1319, 10, 0.9216, 0.0027),
    (200, 5, 0.910, 0.0071),
    (500, 95, 0.9495, 0.0058),
    (500, 90, 0.9495, 0.0058),
    (500, 61, 0.944, 0.0069),
    (500, 55, 0.948, 0.0066),
]
PHI = [sd * sd / (mean * (1 - mean) / n) for n, _, mean, sd in PUBLISHED]
FREEDOM = [runs - 1 for _, runs, _, _ in PUBLISHED]


def most_likely(ratios: list[float], freedoms: list[int]) -> tuple[float, float]:
    """Scale and freedom of the scaled F distribution by maximum likelihood."""
    r, d = np.array(ratios), np.array(freedoms)

    def loss(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        scale, freedom = np.exp(logs)
        return -float((stats.f.logpdf(r / scale, d, freedom) - np.log(scale)).sum())

    scale, freedom = np.exp(optimize.minimize(loss, [-2.0, 1.0], method="Nelder-Mead", tol=1e-9).x)
    return float(scale), float(freedom)


@pytest.mark.parametrize(("series", "phi0", "nu0"), [(11, 0.13, 3.9), (8, 0.10, 5.8)])
def test_the_published_series_give_the_default_prior(series: int, phi0: float, nu0: float) -> None:
    """All 11 published series, and with the last model counted once, give the published prior to 10 %.

    The published figures are maximum likelihood, reproduced here; the moments agree with them.
    """
    likely = most_likely(PHI[:series], FREEDOM[:series])
    assert list(likely) == pytest.approx([phi0, nu0], rel=0.03)
    found = fit_scaled_f(PHI[:series], FREEDOM[:series])
    assert [found.scale, found.freedom] == pytest.approx([phi0, nu0], rel=0.1)
    assert (found.series, found.pooled_freedom) == (series, sum(FREEDOM[:series]))


def test_the_fit_solves_its_moment_equations() -> None:
    """Mean and variance of ln(F) at the fitted scale and freedom, by scipy's numbers, are those of the data."""
    ratios, d = [0.05, 0.3, 0.9, 0.12], 6
    found = fit_scaled_f(ratios, [d] * 4)
    logs = np.log(ratios)
    sample = stats.loggamma(d / 2), stats.loggamma(found.freedom / 2)  # ln chi2_d is ln 2 + loggamma(d / 2)
    mean = np.log(found.scale) + sample[0].mean() - np.log(d) - sample[1].mean() + np.log(found.freedom)
    assert logs.mean() == pytest.approx(mean, rel=1e-9)
    assert logs.var(ddof=1) == pytest.approx(sample[0].var() + sample[1].var(), rel=1e-9)


def test_a_known_prior_is_recovered() -> None:
    """4000 series drawn from phi0 = 0.2 and nu0 = 6 give both back to a few percent."""
    rng = np.random.default_rng(5)
    d = rng.integers(2, 12, 4000)
    ratios = 0.2 * rng.f(d, 6.0)
    found = fit_scaled_f(ratios.tolist(), d.tolist())
    assert found.scale == pytest.approx(0.2, rel=0.04)
    assert found.freedom == pytest.approx(6.0, rel=0.12)


def test_series_alike_are_pooled_with_a_bounded_freedom() -> None:
    """Series that differ no more than chance share one dispersion, known as well as all of them know it."""
    rng = np.random.default_rng(6)
    ratios = 0.2 * rng.chisquare(5, 40) / 5
    found = fit_scaled_f(ratios.tolist(), [5] * 40)
    assert found.freedom <= found.pooled_freedom == 200
    assert found.scale == pytest.approx(ratios.mean(), rel=0.05)


@pytest.mark.parametrize("value", [1e-7, 1e-3, 0.5, 1.0, 30.0, 1e6])
def test_the_inverse_of_trigamma(value: float) -> None:
    """The inverse holds from nearly infinite to nearly no freedom."""
    assert float(polygamma(1, trigamma_inverse(value))) == pytest.approx(value, rel=1e-10)


def test_phi_is_pooled_from_totals() -> None:
    """The ratios are s^2 / v of each series, and series that cannot show a dispersion are left out."""
    rng = np.random.default_rng(7)
    rows = [tuple(int(c) for c in 1187 + np.rint(rng.normal(0, 5, k))) for k in (3, 5, 8, 4)]
    silent = [SeriesTotals(n=200, correct=(200, 200)), SeriesTotals(n=200, correct=(180,))]
    found = pool_phi([SeriesTotals(n=1319, correct=row) for row in rows] + silent)
    ratios = [float(np.var(row, ddof=1) / (np.mean(row) * (1 - np.mean(row) / 1319))) for row in rows]
    expected = fit_scaled_f(ratios, [2, 4, 7, 3])
    assert found is not None
    assert [found.scale, found.freedom] == pytest.approx([expected.scale, expected.freedom], rel=1e-9)
    assert found.series == 4


def test_psi_is_pooled_from_series_with_flips() -> None:
    """Totals with 1.6 times the flip variance give a psi0 near 1.6; series without flips are left out."""
    rng = np.random.default_rng(8)
    rows = [tuple(int(c) for c in np.rint(rng.normal(1187, 40**0.5, 10))) for _ in range(2000)]
    series = [SeriesTotals(n=1319, correct=row, flip_variance=25.0) for row in rows]
    found = pool_psi([*series, SeriesTotals(n=1319, correct=(1187, 1190))])
    assert found is not None
    assert found.series == 2000
    assert found.scale == pytest.approx(1.6, rel=0.04)


def test_identical_totals_do_not_pool_to_zero() -> None:
    """A series of equal counts has the variance of rounding, 1/12, and does not drag the prior to nothing."""
    found = pool_phi([SeriesTotals(n=1319, correct=(1187,) * 4), SeriesTotals(n=1319, correct=(1187, 1180, 1190))])
    assert found is not None
    assert 1e-4 < found.scale < 1
    assert pool_phi([]) is None
    assert pool_psi([SeriesTotals(n=9, correct=(4, 5), flip_variance=0.0)] * 3) is None


def test_ratios_that_make_no_sense_are_refused() -> None:
    """Zero, infinite, single and unmatched ratios are refused, as is a count beyond the questions."""
    for ratios, freedoms in (([0.0, 1.0], [1, 1]), ([float("inf"), 1.0], [1, 1]), ([1.0], [1]), ([1.0, 1.0], [1])):
        with pytest.raises(ValueError, match="at least two positive ratios"):
            fit_scaled_f(ratios, freedoms)
    with pytest.raises(ValueError, match="outside"):
        pool_phi([SeriesTotals(n=9, correct=(4, 10))])
    with pytest.raises(ValueError, match="positive"):
        trigamma_inverse(0.0)
