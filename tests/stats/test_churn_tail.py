"""How surprising churn is: simulated in the world it is made for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gatekit.stats.churn import churn_tail, mean_churn


def test_the_tail_is_beta_binomial() -> None:
    """The probability is that of scipy's beta-binomial distribution."""
    found = churn_tail(200, 20, 5, 40)
    assert found == pytest.approx(stats.betabinom.sf(39, 200, 2 * 20 + 0.5, 2 * 180 + 0.5), rel=1e-9)


def test_mean_churn_is_that_over_all_pairs() -> None:
    """The sum over strata equals the mean over pairs, counted one by one."""
    runs = np.random.default_rng(5).random((4, 60)) < 0.8
    pairs = [int(np.sum(runs[i] != runs[j])) for i in range(4) for j in range(i)]
    assert float(mean_churn(np.bincount(runs.sum(axis=0), minlength=5).tolist())) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("runs", [2, 3, 6])
def test_healthy_churn_is_seldom_called_surprising(runs: int) -> None:
    """On fixed questions with unequal flip rates p <= 1 % comes in at most 1 % of healthy nights."""
    random = np.random.default_rng(11)
    chances = random.choice([0.998, 0.02, 0.5], p=[0.86, 0.06, 0.08], size=400)
    alarms, nights = 0, 1500
    for _ in range(nights):
        answers = random.random((runs + 1, 400)) < chances
        questions = np.bincount(answers[:-1].sum(axis=0), minlength=runs + 1).tolist()
        changed = int(np.sum(answers[-1] != answers[-2]))
        alarms += churn_tail(400, mean_churn(questions), runs, changed) <= 0.01
    assert alarms <= stats.binom.ppf(0.999, nights, 0.01)


@pytest.mark.parametrize(("mean", "runs", "changed"), [(5, 1, 3), (11, 2, 3), (5, 2, 11)])
def test_impossible_churn_is_refused(mean: int, runs: int, changed: int) -> None:
    """One run has no churn of its own, and no more questions change than there are."""
    with pytest.raises(ValueError, match="churn"):
        churn_tail(10, mean, runs, changed)


def test_one_run_has_no_mean_churn() -> None:
    """Pairs need two runs."""
    with pytest.raises(ValueError, match="two"):
        mean_churn([1, 2])
