"""Whether more questions changed sides than between earlier runs, in whichever direction."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gatekit.stats.exact import Real, exact
from gatekit.stats.predictive import predictive_pmf


def mean_churn(questions: Sequence[int]) -> Fraction:
    """The mean number of questions that differ between two of k >= 2 earlier runs.

    `questions[h]` is the number of questions right in h of the k runs. Formula: the sum of 2 h (k - h) / (k (k-1)),
    which is twice the flip variance. Reference: the definition, over all k (k-1) / 2 pairs. Valid for k >= 2,
    else ValueError.

    >>> mean_churn([7, 2, 9])  # k = 2: the two questions that were right once
    Fraction(2, 1)
    """
    k = len(questions) - 1
    if k < 2:
        raise ValueError("churn between earlier runs needs two of them")
    return Fraction(sum(2 * h * (k - h) * number for h, number in enumerate(questions)), k * (k - 1))


def churn_tail(n: int, history_mean: Real, history_runs: int, changed: int) -> float:
    """P(D >= changed): how surprising so many changed questions of n are after `history_runs` runs.

    Hypotheses: the runs are exchangeable and the questions flip independently, question i between two runs
    with a chance d_i. Formula: D ~ BetaBin(n, m D0 + 1/2, m (n - D0) + 1/2), D0 the mean churn of the earlier
    pairs and m = floor(k/2): the mean over all pairs varies no more than that over the m pairs that share no
    run (Hoeffding 1963, section 5), as if m n questions had been watched. Conservative twice: unequal d_i spread
    D less than the binomial does (Hoeffding 1956), and the new pair shares its earlier run with some of the old
    ones. A shock that moves a whole run is not allowed for. Valid for k >= 2 and 0 <= D0, changed <= n, else
    ValueError.

    >>> churn_tail(1, Fraction(1, 2), 2, 1)  # Beta(1, 1): one of two
    0.5
    """
    mean = exact(history_mean)
    if history_runs < 2 or not (0 <= mean <= n and 0 <= changed <= n):
        raise ValueError("churn is judged against at least two runs, and lies between 0 and n")
    watched = history_runs // 2
    pmf = predictive_pmf(n, float(watched * mean) + 0.5, float(watched * (n - mean)) + 0.5)
    return float(min(1.0, np.sum(pmf[changed:])))
