"""The count of unequal questions, by enumeration and against the binomial."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.stats.binomial import lower_tail
from gatekit.stats.poisson_binomial import (
    poisson_binomial_cdf,
    poisson_binomial_pmf,
    poisson_binomial_variance,
)

CHANCES = st.lists(st.integers(0, 100).map(lambda number: number / 100), max_size=9)


@given(CHANCES)
def test_probabilities_are_those_of_all_outcomes(p: list[float]) -> None:
    """Each probability is the summed weight of the 2^n outcomes with that many right answers."""
    weights = [0.0] * (len(p) + 1)
    for fall in product((0, 1), repeat=len(p)):
        weights[sum(fall)] += prod(x if right else 1 - x for x, right in zip(p, fall, strict=True))
    assert poisson_binomial_pmf(p).tolist() == pytest.approx(weights, rel=1e-12, abs=1e-15)
    mean = sum(k * w for k, w in enumerate(weights))
    variance = sum((k - mean) ** 2 * w for k, w in enumerate(weights))
    assert poisson_binomial_variance(p) == pytest.approx(variance, abs=1e-12)


@given(st.lists(st.integers(50, 100).map(lambda number: number / 100), min_size=2, max_size=60))
def test_hoeffding_a_binomial_threshold_is_conservative(p: list[float]) -> None:
    """At least one below the mean the true lower tail never exceeds the binomial one (Hoeffding 1956)."""
    mean = sum(p) / len(p)
    c = int(sum(p)) - 1
    assert poisson_binomial_cdf(p, c) <= lower_tail(c + 1, len(p), mean) + 1e-12
    assert poisson_binomial_cdf(p, len(p)) == 1.0
    assert poisson_binomial_cdf(p, -1) == 0.0
