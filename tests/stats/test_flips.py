"""Dispersion on a fixed set, and the threshold from totals."""

from __future__ import annotations

from statistics import mean, variance

import numpy as np
import pytest
from scipy import stats

from gatekit.stats.flips import flip_variance, moderated_t, random_subset_dispersion


def test_two_runs_give_half_the_discordant_questions() -> None:
    """For k = 2 the variance is (b + c) / 2, whichever questions flipped."""
    assert flip_variance(2, [1] * 7 + [2] * 90 + [0] * 3).flip_variance == 3.5


def test_the_flip_variance_is_the_sum_of_the_sample_variances() -> None:
    """V is the sum over questions of the sample variance of their right answers."""
    answers = np.random.default_rng(1).random((40, 5)) < 0.8
    found = flip_variance(5, answers.sum(axis=1).tolist())
    assert found.flip_variance == pytest.approx(answers.var(axis=1, ddof=1).sum(), rel=1e-12)


def test_what_the_history_cannot_show_is_none() -> None:
    """With every answer right there is no dispersion and no degrees of freedom, not 0 of them."""
    found = flip_variance(3, [3, 3, 3])
    assert (found.flip_variance, found.phi_flip, found.satterthwaite_df) == (0.0, None, None)
    with pytest.raises(ValueError, match="at least two runs"):
        flip_variance(1, [1])


def test_the_moderated_threshold_by_hand() -> None:
    """Mean, shrunk dispersion, quantile and p-value are those of the formula with scipy.stats' t."""
    history, n = [1205, 1196, 1198], 1319
    found = moderated_t(n, history, 0.000137, 0.2, 8, 1169)
    v = mean(history) * (1 - mean(history) / n)
    phi = (8 * 0.2 + 2 * variance(history) / v) / 10
    sd = (phi * v * (1 + 1 / 3)) ** 0.5
    assert found.phi_moderated == pytest.approx(phi, rel=1e-12)
    assert found.t_quantile == pytest.approx(stats.t.ppf(0.000137, 10), rel=1e-10)
    assert found.p_value == pytest.approx(stats.t.cdf((1169.5 - mean(history)) / sd, 10), rel=1e-10)
    assert (found.k_pass, found.p_value is not None and found.p_value <= 0.000137) == (1170, True)


@pytest.mark.parametrize("new", range(1190, 1215))
def test_count_and_p_value_agree(new: int) -> None:
    """A run is under the threshold exactly when its p-value is at most alpha."""
    found = moderated_t(1319, [1215, 1220, 1211], 0.01, 0.2, 4, new)
    assert found.p_value is not None
    assert (new < found.k_pass) == (found.p_value <= 0.01)


def test_the_threshold_is_rounded_at_one_half() -> None:
    """At a quantile of 0 the threshold is floor(mean + 1/2): a mean of 180.55 gives 181."""
    assert moderated_t(200, [180] * 9 + [181] * 11, 0.5, 0.2, 4).k_pass == 181


def test_identical_runs_still_leave_a_margin() -> None:
    """Ten identical totals do not make the next question's loss a regression: the prior keeps a margin."""
    assert moderated_t(1319, [1253] * 10, 0.001, 0.2, 4).k_pass < 1250
    perfect = moderated_t(1319, [1319] * 3, 0.001, 0.2, 4, 1318)
    assert (perfect.phi_hat, perfect.k_pass, perfect.p_value) == (None, 1319, 0.0)


def test_redrawing_the_subset_costs_the_saving() -> None:
    """200 of 1319 anew each run at phi 0.2 has dispersion 0.88; all of them has phi itself."""
    assert random_subset_dispersion(1319, 200, 0.2) == pytest.approx(0.8792, abs=1e-4)
    assert random_subset_dispersion(1319, 1319, 0.2) == 0.2
    assert random_subset_dispersion(1, 1, 0.2) == 0.2
