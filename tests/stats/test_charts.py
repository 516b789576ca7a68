"""Charts of nightly p-values: values by hand, run lengths by simulation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from gatekit.stats.charts import Chart, cusum, ewma, self_starting_p
from gatekit.stats.drift import cusum_arl, ewma_arl

Z1 = float(stats.norm.cdf(-1))  # the p-value of a night one standard deviation too low


def test_a_cusum_by_hand() -> None:
    """Scores 1, 1, -3, 2 with k = 1/2: 0.5, 1, back to 0, 1.5; the alarm is the first night above h."""
    nights = [float(stats.norm.cdf(-z)) for z in (1, 1, -3, 2)]
    found = cusum(nights, 0.5, h=0.9)
    assert found.path == pytest.approx((0.5, 1.0, 0.0, 1.5))
    assert (found.alarm, cusum(nights, 0.5, h=1.4).alarm, cusum(nights, 0.5, h=1.6).alarm) == (1, 3, None)


def test_an_ewma_by_hand() -> None:
    """Weights of 0.2 on scores 1, 1, -3: 0.2, 0.36, and reflected at 0."""
    nights = [float(stats.norm.cdf(-z)) for z in (1, 1, -3)]
    found = ewma(nights, 0.2, c=1.0)
    assert found.path == pytest.approx((0.2, 0.36, 0.0))
    assert found.limit == pytest.approx(1 / 3)
    assert found.alarm == 1


@pytest.mark.parametrize("chart", [lambda p: cusum(p, h=4.08), lambda p: ewma(p, c=3.0)])
def test_nights_without_a_p_value_leave_a_chart_as_it_was(chart: Callable[[list[float | None]], Chart]) -> None:
    """A lost night neither raises nor lowers the chart, and keeps its place in the path."""
    found, without = chart([Z1, None, Z1]), chart([Z1, Z1])
    assert found.path == (without.path[0], without.path[0], without.path[1])


@pytest.mark.parametrize("chart", [lambda p: cusum(p, h=4.08), lambda p: ewma(p, c=3.0)])
def test_p_values_of_0_and_1_stay_finite(chart: Callable[[list[float]], Chart]) -> None:
    """A p-value of 0 is an alarm, one of 1 no harm, and the chart comes back from both."""
    found = chart([1.0, 0.0, *([1.0] * 40)])
    assert np.all(np.isfinite(found.path))
    assert (found.alarm, found.path[-1]) == (1, 0.0)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_run_lengths_are_those_of_the_integral_equation(shift: float) -> None:
    """The mean run length of 800 simulated charts agrees with `drift` within 4 standard errors."""
    rng = np.random.default_rng(9)
    p = stats.norm.cdf(rng.standard_normal((800, 200)) - shift).tolist()
    charts: list[tuple[Callable[[list[float]], Chart], float]] = [
        (lambda nights: cusum(nights, 0.5, h=1.5), cusum_arl(0.5, 1.5, shift)),
        (lambda nights: ewma(nights, 0.2, c=1.7), ewma_arl(0.2, 1.7, shift)),
    ]
    for chart, expected in charts:
        alarms = [chart(nights).alarm for nights in p]
        lengths = np.array([200 if alarm is None else alarm + 1 for alarm in alarms])
        assert lengths.mean() == pytest.approx(expected, abs=4 * lengths.std() / 800**0.5)


def test_self_starting_p_values_are_t_tests_of_the_next_total() -> None:
    """Each p-value is Student's prediction of a new observation from those before it."""
    totals = [1187, 1180, 1193, 1185, 1170, 1190]
    found = self_starting_p(totals)
    assert found[:2] == (None, None)
    for j in range(2, len(totals)):
        before = np.array(totals[:j], dtype=np.float64)
        t = (totals[j] - before.mean()) / (before.std(ddof=1) * (1 + 1 / j) ** 0.5)
        assert found[j] == pytest.approx(stats.t.cdf(t, j - 1), rel=1e-10)


def test_self_starting_scores_are_standard_normal_in_control() -> None:
    """Whatever the unknown mean and variance, the p-values of healthy nights are uniform and uncorrelated."""
    rng = np.random.default_rng(10)
    rows = np.rint(rng.normal(118_700, 510, (400, 12))).astype(int).tolist()
    p = np.array([self_starting_p(row)[2:] for row in rows], dtype=np.float64)
    assert stats.kstest(p.ravel(), "uniform").pvalue > 0.01
    z = stats.norm.ppf(p)
    assert abs(np.corrcoef(z[:, :-1].ravel(), z[:, 1:].ravel())[0, 1]) < 0.06


def test_equal_totals_say_nothing() -> None:
    """As long as no spread was seen there is no p-value; then there is one."""
    found = self_starting_p([1187, 1187, 1187, 1186, 1186])
    assert found[:4] == (None,) * 4
    assert found[4] is not None
    assert self_starting_p([]) == ()


def test_a_drift_from_a_known_level_is_found() -> None:
    """Twenty healthy nights and a loss of two standard deviations: the self-starting chart alarms within ten."""
    rng = np.random.default_rng(11)
    totals = [int(c) for c in np.rint(np.concatenate((rng.normal(1187, 5, 20), rng.normal(1177, 5, 20))))]
    found = cusum(self_starting_p(totals), h=4.08)
    assert found.alarm is not None
    assert 20 <= found.alarm < 30


@pytest.mark.parametrize(
    "chart",
    [
        lambda: cusum([0.5], -0.1, h=1),
        lambda: cusum([0.5], h=0.0),
        lambda: cusum([0.5], h=float("inf")),
        lambda: cusum([1.5], h=1),
        lambda: cusum([float("nan")], h=1),
        lambda: ewma([0.5], 0.0, c=1),
        lambda: ewma([0.5], c=0.0),
    ],
)
def test_charts_that_make_no_sense_are_refused(chart: Callable[[], Chart]) -> None:
    """A negative allowance, a limit that never or always alarms, and a p-value outside [0, 1] are refused."""
    with pytest.raises(ValueError, match=r"CUSUM|EWMA|control limit|p-value"):
        chart()
