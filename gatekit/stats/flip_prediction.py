"""A threshold for the next count from how often each question was right in earlier runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, sqrt

from scipy.special import ndtr, ndtri, stdtr, stdtrit

from gatekit.stats.exact import Real, exact, exact_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPrediction:
    """The threshold, and what it came from: mean and standard deviation of the next count (sd includes that of
    the mean), the dispersion seen (None when all answers were alike) and shrunk, and the freedom."""

    mean: float
    sd: float
    phi_flip: float | None
    phi_moderated: float
    df: float
    t_quantile: float
    k_pass: int
    p_value: float | None


def flip_prediction(
    history_runs: int,
    right_in_history: Mapping[int, int],
    alpha: Real,
    phi0: Real,
    nu0: Real,
    new_correct: int | None = None,
) -> FlipPrediction:
    """A threshold for the next count from k >= 2 runs on the same questions, an integer known before the run.

    `right_in_history` maps h, the right answers of a question in the k runs, to the number of such questions.
    Hypotheses: the runs are exchangeable (distinct builds, not nights of one), the questions flip
    independently, the count is about normal. A shock that moves a whole run is not seen: see `guarded_p`.
    Formula: V = sum u_i, u_i = k/(k-1) p_i (1-p_i), on d = 2 V^2 / (sum u_i^2 - V^2/n) degrees of freedom
    (as `flips.flip_variance`); then as `flips.moderated_t` with phi = V / v and d in place of k - 1.
    Where nothing flipped d is 0: the prior alone speaks. Reference: Satterthwaite 1946; Smyth 2004. Valid for
    k >= 2, n >= 1, 0 < alpha < 1, phi0 >= 0 and nu0 > 0, else ValueError.

    >>> found = flip_prediction(2, {1: 10, 2: 90}, 0.5, 0.2, 4)  # t = 0: the mean, 190 of 200; V = 10 / 2
    >>> found.k_pass, round(found.phi_flip, 12)  # v = 100 * 0.95 * 0.05
    (95, 1.052631578947)
    """
    k, n, freedom, prior = history_runs, sum(right_in_history.values()), exact(nu0), exact(phi0)
    level = float(exact_probability(alpha, "alpha"))
    if k < 2 or n < 1 or not all(0 <= h <= k and number >= 0 for h, number in right_in_history.items()):
        raise ValueError("flips need at least two runs, one question, and counts between 0 and the runs")
    if freedom <= 0 or prior < 0 or not 0 < level < 1:
        raise ValueError("a flip prediction needs 0 < alpha < 1 and a prior with positive freedom")
    mean = Fraction(sum(h * number for h, number in right_in_history.items()), k)
    binomial = mean * (1 - mean / n)
    flips, own_df = _flips(k, n, right_in_history)
    phi_flip = flips / binomial if binomial else None
    df = float(freedom) + own_df
    phi = _shrunk(float(freedom), float(prior), own_df, float(phi_flip or 0))
    sd = sqrt(phi * float(binomial) * (1 + 1 / k))
    t = float(stdtrit(df, level) if df < inf else ndtri(level))
    return FlipPrediction(
        mean=float(mean),
        sd=sd,
        phi_flip=None if phi_flip is None else float(phi_flip),
        phi_moderated=phi,
        df=df,
        t_quantile=t,
        k_pass=floor(float(mean) + t * sd + 0.5),
        p_value=None if new_correct is None else _tail(df, float(new_correct + Fraction(1, 2) - mean), sd),
    )


def _flips(k: int, n: int, right_in_history: Mapping[int, int]) -> tuple[Fraction, float]:
    """V and its degrees of freedom: 0 without any flip, infinite when all questions flip alike."""
    flipping = [(h * (k - h), number) for h, number in right_in_history.items()]
    first, second = sum(u * m for u, m in flipping), sum(u * u * m for u, m in flipping)
    spread = n * second - first * first
    own_df = float(Fraction(2 * n * first * first, spread)) if spread else (inf if first else 0.0)
    return Fraction(first, k * (k - 1)), own_df


def _shrunk(prior_df: float, prior: float, own_df: float, own: float) -> float:
    return own if own_df == inf else (prior_df * prior + own_df * own) / (prior_df + own_df)


def _tail(df: float, distance: float, sd: float) -> float:
    """P(T <= distance / sd), also where the history has no spread at all."""
    standard = distance / sd if sd else (inf if distance >= 0 else -inf)
    return float(stdtr(df, standard) if df < inf else ndtr(standard))
