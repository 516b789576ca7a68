"""The threshold from flips against its formula and its parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.flip_prediction import flip_prediction
from gatekit.stats.flips import flip_variance

K, N = 5, 300
RIGHT = np.random.default_rng(3).binomial(K, np.random.default_rng(4).choice([0.01, 0.5, 0.99], N, p=[0.1, 0.1, 0.8]))
HISTORY = {int(h): int(number) for h, number in Counter(RIGHT.tolist()).items()}


def test_the_prediction_by_its_formula() -> None:
    """Mean, spread, freedom, threshold and p-value are those of the formula with scipy.stats' t."""
    parts = flip_variance(K, RIGHT.tolist())
    assert parts.phi_flip is not None
    assert parts.satterthwaite_df is not None
    mean = RIGHT.sum() / K
    v = mean * (1 - mean / N)
    phi = (4 * 0.2 + parts.satterthwaite_df * parts.phi_flip) / (4 + parts.satterthwaite_df)
    sd, df = (phi * v * (1 + 1 / K)) ** 0.5, 4 + parts.satterthwaite_df
    found = flip_prediction(K, HISTORY, 0.001, 0.2, 4, 240)
    assert [found.mean, found.sd, found.df] == pytest.approx([mean, sd, df])
    assert found.phi_flip == pytest.approx(parts.phi_flip, rel=1e-12)
    assert found.k_pass == int(np.floor(mean + stats.t.ppf(0.001, df) * sd + 0.5))
    assert found.p_value == pytest.approx(stats.t.cdf((240.5 - mean) / sd, df), rel=1e-9)


@given(st.integers(200, 260))
def test_count_and_p_value_agree(new: int) -> None:
    """A run is under the threshold exactly when its p-value is at most alpha."""
    found = flip_prediction(K, HISTORY, 0.01, 0.2, 4, new)
    assert found.p_value is not None
    assert (new < found.k_pass) == (found.p_value <= 0.01)


def test_a_history_without_flips_leaves_the_prior() -> None:
    """Where nothing flipped the margin is the prior's, on the prior's freedom, not none at all."""
    found = flip_prediction(3, {0: 20, 3: 180}, 0.001, 0.2, 4)
    assert (found.phi_flip, found.phi_moderated, found.df) == (0.0, 0.2, 4.0)
    assert found.k_pass < 175


def test_a_perfect_history_says_nothing_about_flips() -> None:
    """With every answer right the dispersion is None, and one wrong answer is already below the threshold."""
    found = flip_prediction(3, {3: 200}, 0.001, 0.2, 4, 199)
    assert (found.phi_flip, found.k_pass, found.p_value) == (None, 200, 0.0)


def test_questions_that_all_flip_alike_know_their_variance() -> None:
    """Where every question was right in one of two runs the freedom is infinite and the quantile normal."""
    found = flip_prediction(2, {1: 100}, 0.001, 0.2, 4, 30)
    assert (found.df, found.phi_moderated) == (float("inf"), found.phi_flip)
    assert found.t_quantile == pytest.approx(stats.norm.ppf(0.001))
    assert found.p_value == pytest.approx(stats.norm.cdf((30.5 - 50) / found.sd))


@pytest.mark.parametrize(
    ("k", "history", "alpha", "nu0"),
    [(1, {0: 5}, 0.01, 4), (2, {}, 0.01, 4), (2, {3: 5}, 0.01, 4), (2, {1: 5}, 0.0, 4), (2, {1: 5}, 0.01, 0)],
)
def test_histories_that_make_no_sense_are_refused(k: int, history: dict[int, int], alpha: float, nu0: float) -> None:
    """One run, no question, more right answers than runs, alpha = 0 and a prior without freedom are refused."""
    with pytest.raises(ValueError, match=r"at least two runs|positive freedom"):
        flip_prediction(k, history, alpha, 0.2, nu0)
