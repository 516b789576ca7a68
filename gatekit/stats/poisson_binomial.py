"""The count of right answers when every question has its own probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatekit.stats.exact import exact_probability
from gatekit.stats.weights import Array


def poisson_binomial_pmf(p: Sequence[float]) -> Array:
    """P(S = 0), ..., P(S = n) for S the sum of independent answers with probabilities p[0], ..., p[n-1].

    Hypothesis: the answers are independent. Formula: one convolution with (1 - p_i, p_i) per question; all
    terms are positive, so nothing cancels. Reference: Hodges & Le Cam 1960. Valid for all p in [0, 1], else
    ValueError; cost O(n^2).

    >>> poisson_binomial_pmf([0.5, 1.0])
    array([0. , 0.5, 0.5])
    """
    pmf = np.ones(1)
    for chance in p:
        value = exact_probability(chance, "p")
        pmf = np.convolve(pmf, (float(1 - value), float(value)))
    return pmf


def poisson_binomial_cdf(p: Sequence[float], k: int) -> float:
    """P(S <= k). Hypothesis, reference and validity: as `poisson_binomial_pmf`.

    >>> poisson_binomial_cdf([0.5, 0.5], 0)
    0.25
    """
    return 1.0 if k >= len(p) else float(poisson_binomial_pmf(p)[: max(0, k + 1)].sum())


def poisson_binomial_variance(p: Sequence[float]) -> float:
    """Var(S) = sum p_i (1 - p_i), never above that of a binomial with the same mean (Hoeffding 1956).

    Hypothesis and validity: as `poisson_binomial_pmf`.

    >>> poisson_binomial_variance([0.5, 1.0, 0.5])
    0.5
    """
    values = [exact_probability(chance, "p") for chance in p]
    return float(sum(value * (1 - value) for value in values))
