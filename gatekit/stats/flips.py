"""Run-to-run spread on a fixed question set, and a threshold from the totals of k runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, sqrt

from scipy.special import stdtr, stdtrit

from gatekit.stats.exact import Real, exact, exact_probability, squared_deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipVariance:
    """The variance of a run's count from flips, its share of the binomial one, and its freedom."""

    flip_variance: float
    phi_flip: float | None
    satterthwaite_df: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeratedT:
    """A threshold from k totals, and what it came from; `phi_hat` is None where the runs cannot show it."""

    phi_hat: float | None
    phi_moderated: float
    df: float
    t_quantile: float
    k_pass: int
    p_value: float | None


def flip_variance(history_runs: int, per_question_correct: Sequence[int]) -> FlipVariance:
    """The variance of the next run's count from how often each question was right in k >= 2 runs.

    Hypotheses: the runs are exchangeable (distinct builds, not nights of one), the questions independent.
    Formula: V = sum u_i, u_i = k/(k-1) p_i (1-p_i); phi = V / (n pbar (1-pbar)); df = 2 V^2 / (sum u_i^2 -
    V^2/n). phi is None when every answer was right or every one wrong, df when all questions flip alike.
    Reference: Satterthwaite 1946. Valid for k >= 2 and counts within 0..k, else ValueError.

    >>> flip_variance(2, [1, 2])  # one flipped: 2 * 1/4; pbar = 3/4
    FlipVariance(flip_variance=0.5, phi_flip=1.3333333333333333, satterthwaite_df=4.0)
    """
    k, n = history_runs, len(per_question_correct)
    if k < 2 or n == 0 or not all(0 <= right <= k for right in per_question_correct):
        raise ValueError("flips need at least two runs, one question, and counts between 0 and the runs")
    terms = [Fraction(right * (k - right), k * (k - 1)) for right in per_question_correct]
    total, mean = sum(terms, Fraction(0)), Fraction(sum(per_question_correct), k * n)
    binomial = n * mean * (1 - mean)
    spread = sum((u * u for u in terms), Fraction(0)) - total * total / n
    return FlipVariance(
        flip_variance=float(total),
        phi_flip=float(total / binomial) if binomial else None,
        satterthwaite_df=float(2 * total * total / spread) if spread else None,
    )


def moderated_t(
    n: int, history_correct: Sequence[int], alpha: Real, phi0: Real, nu0: Real, new_correct: int | None = None
) -> ModeratedT:
    """A threshold for the next count from the totals of k runs, their spread shrunk towards a prior.

    Hypotheses: totals of exchangeable runs on the same questions, about normal; the dispersion phi = s^2 / v,
    v = S(1 - S/n), has a scaled inverse chi-square prior phi0 on nu0 degrees of freedom.
    Formula: phi~ = (nu0 phi0 + (k-1) phi) / (nu0 + k - 1), sd = sqrt(phi~ v (1 + 1/k)),
    k_pass = floor(S + t sd + 1/2), p = T((new + 1/2 - S) / sd). Reference: Smyth 2004.
    Valid for k >= 1, nu0 > 0, 0 < alpha < 1, else ValueError; identical runs still leave the prior's margin.

    >>> found = moderated_t(200, [180], 0.5, 0.2, 4)  # t = 0: the mean itself
    >>> found.k_pass, found.phi_moderated, found.df
    (180, 0.2, 4.0)
    """
    k, prior, freedom = len(history_correct), exact(phi0), exact(nu0)
    if k < 1 or freedom <= 0 or not all(0 <= right <= n for right in history_correct):
        raise ValueError("a moderated t needs a run, counts between 0 and n, and positive prior freedom")
    mean = Fraction(sum(history_correct), k)
    v = mean * (1 - mean / n)
    scatter = squared_deviations(history_correct) / v if v else Fraction(0)  # (k - 1) phi_hat
    phi = (freedom * prior + scatter) / (freedom + k - 1)
    df, sd = float(freedom + k - 1), sqrt(phi * v * (1 + Fraction(1, k)))
    quantile = _t_quantile(df, float(exact_probability(alpha, "alpha")))
    return ModeratedT(
        phi_hat=float(scatter / (k - 1)) if k > 1 and v else None,
        phi_moderated=float(phi),
        df=df,
        t_quantile=quantile,
        k_pass=floor(float(mean) + quantile * sd + 0.5),
        p_value=None if new_correct is None else _t_tail(df, float(new_correct + Fraction(1, 2) - mean), sd),
    )


def random_subset_dispersion(population: int, n: int, phi: Real) -> float:
    """The dispersion when every run draws n of N questions anew: phi + (1 - phi) (N - n) / (N - 1).

    Hypothesis: simple random subsets, flips independent of the draw. At n = 200 of 1319 and phi = 0.2 it is
    0.88: re-drawing throws away what a fixed set saves. Reference: finite-population sampling (Cochran
    1977). Valid for 1 <= n <= N, else ValueError.

    >>> random_subset_dispersion(3, 2, 0.5)
    0.75
    """
    if not 1 <= n <= population:
        raise ValueError(f"cannot draw {n} of {population} questions")
    share = Fraction(population - n, population - 1) if population > 1 else Fraction(0)
    return float(exact(phi) + (1 - exact(phi)) * share)


def _t_quantile(df: float, alpha: float) -> float:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be inside (0, 1), not {alpha}")
    return float(stdtrit(df, alpha))


def _t_tail(df: float, distance: float, sd: float) -> float:
    """P(T <= distance / sd), also where the history has no spread at all."""
    standard = distance / sd if sd else (inf if distance >= 0 else -inf)
    return float(stdtr(df, standard))
