"""The beta-binomial threshold against scipy.stats."""

from __future__ import annotations

import pytest
from scipy import stats

from gatekit.stats.predictive import predictive_count, predictive_pmf


@pytest.mark.parametrize(("s0", "n0", "n", "alpha"), [(180, 200, 200, 0.001), (0, 20, 30, 0.1), (20, 20, 50, 0.01)])
def test_the_count_brackets_alpha(s0: int, n0: int, n: int, alpha: float) -> None:
    """Size and next size are scipy.stats' beta-binomial tails, on both sides of alpha, at the edges too."""
    found = predictive_count(s0, n0, n, alpha)
    law = stats.betabinom(n, s0 + 0.5, n0 - s0 + 0.5)
    assert found.size == pytest.approx(law.cdf(found.k_pass - 1), rel=1e-8, abs=1e-300)
    assert found.size_next == pytest.approx(law.cdf(found.k_pass), rel=1e-8)
    assert found.size <= alpha < found.size_next


def test_an_improper_prior_is_a_certainty_or_refused() -> None:
    """A prior without weight on one side predicts only the other; without any weight it is refused."""
    assert predictive_pmf(2, 0, 1).tolist() == [1, 0, 0]
    assert predictive_pmf(2, 1, 0).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="no distribution"):
        predictive_pmf(2, 0, 0)
    with pytest.raises(ValueError, match="no measurement"):
        predictive_count(3, 2, 10, 0.1)
