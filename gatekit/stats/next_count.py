"""The count of the next run, predicted from earlier ones, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf, sqrt

from scipy.special import ndtr, ndtri, stdtr, stdtrit

from gatekit.stats.exact import Real, exact, exact_probability
from gatekit.stats.predictive import BetaBinomial, predictive_reject, predictive_tail


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCount:
    """The next count is about `mean` + `sd` times Student's t on `df` degrees of freedom (inf: normal).

    `sd` includes the error of the mean, so that it belongs to a new run and not to a long-run average. Where the
    rule knows the distribution of the count itself, `counts` is that: what is said of an unchanged model (its tail,
    the count of a drop) is then exact, and mean and sd serve only for what a drop moves.
    """

    mean: float
    sd: float
    df: float
    counts: BetaBinomial | None = None


def reject_below(predicted: NextCount, alpha: Real) -> int:
    """The largest k with P(S < k) <= alpha, at least 0: fewer right answers are a drop at level alpha.

    Hypothesis: as `NextCount`, with the continuity correction of 1/2. Formula: floor(mean + t_alpha sd + 1/2); of
    known counts as `predictive.predictive_reject`.
    Reference: the prediction interval of Student's t. Valid for 0 < alpha < 1, else ValueError.

    >>> reject_below(NextCount(mean=180.0, sd=3.0, df=4.0), 0.5)
    180
    """
    if predicted.counts is not None:
        return predictive_reject(predicted.counts, alpha)
    return max(0, floor(predicted.mean + t_quantile(predicted.df, alpha) * predicted.sd + 0.5))


def accept_from(predicted: NextCount, lost: Real, beta: Real) -> int:
    """The smallest count that a model `lost` right answers worse reaches with probability <= beta only.

    Hypothesis: as `NextCount`; a drop moves the mean and leaves the spread. Formula: ceil(mean - lost +
    t_{1-beta} sd + 1/2). Reference: as `reject_below`. Valid for 0 < beta < 1, else ValueError.

    >>> accept_from(NextCount(mean=180.0, sd=3.0, df=4.0), 10, 0.5)
    171
    """
    return ceil(predicted.mean - float(exact(lost)) - t_quantile(predicted.df, beta) * predicted.sd + 0.5)


def count_tail(predicted: NextCount, correct: int) -> float:
    """P(S <= correct): the p-value of a drop.

    Hypothesis and reference: as `reject_below`. Formula: T((correct + 1/2 - mean) / sd), of known counts as
    `predictive.predictive_tail`. Without any spread it is 0 or 1. Always valid.

    >>> count_tail(NextCount(mean=180.5, sd=3.0, df=4.0), 180)
    0.5
    """
    if predicted.counts is not None:
        return predictive_tail(predicted.counts, correct)
    distance = correct + 0.5 - predicted.mean
    standard = distance / predicted.sd if predicted.sd else (inf if distance >= 0 else -inf)
    return float(stdtr(predicted.df, standard) if predicted.df < inf else ndtr(standard))


def noticed_loss(predicted: NextCount, k_reject: int, power: Real) -> float | None:
    """The smallest loss of right answers with P(S < k_reject) >= power; None when no loss reaches it.

    Hypothesis: as `accept_from`. Formula: mean - k_reject + 1/2 + t_power sd, at least 0.
    Reference: as `reject_below`. Valid for 0 < power < 1, else ValueError; None for k_reject <= 0.

    >>> noticed_loss(NextCount(mean=180.0, sd=3.0, df=4.0), 171, 0.5)
    9.5
    """
    loss = predicted.mean - k_reject + 0.5 + t_quantile(predicted.df, power) * predicted.sd
    return max(0.0, loss) if k_reject > 0 and loss <= predicted.mean else None


def widened(predicted: NextCount, binomial_variance: Real, alpha: Real) -> NextCount:
    """The prediction whose `reject_below` at level alpha lies one binomial standard deviation under its mean, or more.

    Equal totals show no spread at all, and are more often the repeats of one deterministic engine than the
    luck of a quiet one. Hypothesis: none. Formula: sd = max(sd, (sqrt(v) + 1/2) / -t_alpha), the 1/2 being the
    continuity correction. Reference: none, a safety. Valid for 0 < alpha < 1, else ValueError; alpha >= 1/2 asks
    for no margin.

    >>> round(widened(NextCount(mean=90.0, sd=0.0, df=1.0), 9, 0.25).sd, 12)  # t is -1: 90 - 3 - 1/2
    3.5
    """
    quantile = t_quantile(predicted.df, alpha)
    if quantile >= 0:
        return predicted
    least = (sqrt(float(exact(binomial_variance))) + 0.5) / -quantile
    return NextCount(mean=predicted.mean, sd=max(predicted.sd, least), df=predicted.df)


def binomial_variance(total: Real, n: int) -> Fraction:
    """n p (1 - p) at p = total / n; at 0 and at n, where it would vanish, at p = (total + 1/2) / (n + 1).

    Hypothesis: X ~ Bin(n, p); a perfect score does not prove p = 1. Reference: the mean under Jeffreys' prior.
    Valid for 0 <= total <= n and n >= 1, else ValueError.

    >>> binomial_variance(90, 100), binomial_variance(1, 1)
    (Fraction(9, 1), Fraction(3, 16))
    """
    right = exact(total)
    if n < 1 or not 0 <= right <= n:
        raise ValueError(f"{total} of {n} is no count")
    p = right / n if 0 < right < n else (right + Fraction(1, 2)) / (n + 1)
    return n * p * (1 - p)


def t_quantile(df: float, probability: Real) -> float:
    """Student's t on `df` degrees of freedom at this probability; inf is the normal.

    Hypothesis: none. Reference: the definition. Valid for 0 < probability < 1, else ValueError.

    >>> t_quantile(3.0, 0.5)
    0.0
    """
    level = float(exact_probability(probability, "probability"))
    if not 0 < level < 1:
        raise ValueError(f"a quantile needs a probability inside (0, 1), not {probability}")
    return float(stdtrit(df, level) if df < inf else ndtri(level))
