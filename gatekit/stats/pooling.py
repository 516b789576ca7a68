"""One prior for the spread of many series: what a matrix of gates knows that none of them knows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, isfinite, log

import numpy as np
from scipy.special import polygamma, psi

from gatekit.stats.exact import squared_deviations
from gatekit.stats.weights import Array

_NEWTON_STEPS = 50
_ROUNDING_VARIANCE = Fraction(1, 12)  # an integer total cannot show less spread than its own rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Where the ratios of a matrix lie, and how many degrees of freedom that knowledge is worth to one series.

    `freedom` is large when the series differ by no more than chance; it never exceeds `pooled_freedom`.
    """

    scale: float
    freedom: float
    series: int
    pooled_freedom: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTotals:
    """The totals of k exchangeable runs on n questions; `flip_variance` where per-question history exists."""

    n: int
    correct: tuple[int, ...]
    flip_variance: float | None = None


def pool_phi(series: Sequence[SeriesTotals]) -> Prior | None:
    """phi0 (`scale`) and nu0 (`freedom`) for `moderated_t`, from the totals of the whole matrix.

    Hypotheses: as `fit_scaled_f`, of phi_hat = s^2 / v, v = S (1 - S/n), on k - 1 degrees of freedom.
    Series of one run, or all right or all wrong, say nothing about phi and are left out; None when fewer
    than two remain. A variance below 1/12, the rounding of a count, is taken as 1/12. Reference: Smyth 2004.
    Valid for counts within 0..n, else ValueError.

    >>> pool_phi([SeriesTotals(n=200, correct=(180, 183))]) is None  # one series is no matrix
    True
    >>> same = pool_phi([SeriesTotals(n=200, correct=(179, 181))] * 4)  # s^2 = 2, v = 18, no difference
    >>> same.scale, same.freedom
    (0.1111111111111111, 4.0)
    """
    ratios, freedoms = [], []
    for one in series:
        if not all(0 <= right <= one.n for right in one.correct):
            raise ValueError(f"a count lies outside 0..{one.n}")
        mean = Fraction(sum(one.correct), max(1, len(one.correct)))
        if len(one.correct) > 1 and 0 < mean < one.n:
            ratios.append(float(_variance(one.correct) / (mean * (1 - mean / one.n))))
            freedoms.append(len(one.correct) - 1)
    return fit_scaled_f(ratios, freedoms) if len(ratios) > 1 else None


def pool_psi(series: Sequence[SeriesTotals]) -> Prior | None:
    """psi0 (`scale`) and nu_psi (`freedom`) for `guarded_p`, from the series that have per-question history.

    Hypotheses: as `fit_scaled_f`, of s^2 / V on k - 1 degrees of freedom, V the flip variance, taken as known;
    its own error makes the fitted freedom smaller, which is the careful side. Without run-level shocks the
    scale is about 1. Left out: series without V, of one run, or in which nothing flipped; None when fewer
    than two remain. Reference: Smyth 2004.

    >>> same = pool_psi([SeriesTotals(n=200, correct=(179, 181), flip_variance=1.0)] * 4)  # s^2/V = 2 each
    >>> same.scale, same.freedom
    (2.0, 4.0)
    """
    ratios, freedoms = [], []
    for one in series:
        if one.flip_variance and len(one.correct) > 1:
            ratios.append(float(_variance(one.correct)) / one.flip_variance)
            freedoms.append(len(one.correct) - 1)
    return fit_scaled_f(ratios, freedoms) if len(ratios) > 1 else None


def fit_scaled_f(ratios: Sequence[float], freedoms: Sequence[float]) -> Prior:
    """The scale and freedom at which ratios_j / scale ~ F(freedoms_j, freedom).

    Hypotheses: each ratio is a variance estimate on its own degrees of freedom d_j, the true variances have a
    scaled inverse chi-square distribution, the series are independent.
    Formula: e_j = ln r_j - digamma(d_j/2) + ln(d_j/2); trigamma(freedom/2) = var(e) - mean trigamma(d_j/2);
    ln scale = mean(e) + digamma(freedom/2) - ln(freedom/2). Where the e_j differ no more than chance, the
    freedom would be infinite and the scale is the pooled sum(d r) / sum(d). The freedom is capped at
    sum(d): a prior is not known better than all series together know it. Reference: Smyth 2004, section 6.2;
    limma's fitFDist and eBayes (df.pooled). Valid for two or more positive ratios and d_j > 0, else ValueError.

    >>> fit_scaled_f([0.2, 0.2], [3, 5])
    Prior(scale=0.2, freedom=8.0, series=2, pooled_freedom=8.0)
    """
    r, d = np.asarray(ratios, dtype=np.float64), np.asarray(freedoms, dtype=np.float64)
    if len(r) < 2 or len(r) != len(d) or not (np.all(np.isfinite(r)) and np.all(r > 0) and np.all(d > 0)):
        raise ValueError("pooling needs at least two positive ratios, each with positive freedom")
    pooled = float(d.sum())
    centred = np.log(r) - psi(d / 2) + np.log(d / 2)
    excess = float(centred.var(ddof=1) - polygamma(1, d / 2).mean())
    freedom = 2 * trigamma_inverse(excess) if excess > 0 else inf
    scale = _scale(centred, freedom) if isfinite(freedom) else float((d * r).sum() / pooled)
    return Prior(scale=scale, freedom=min(freedom, pooled), series=len(r), pooled_freedom=pooled)


def trigamma_inverse(value: float) -> float:
    """The x > 0 with trigamma(x) = value.

    Formula: Newton's method on 1/trigamma, which is convex and almost linear, from 1/2 + 1/value; it moves
    one way only. Reference: Smyth 2004, appendix. Valid for value > 0, else ValueError; relative error 1e-12.

    >>> round(trigamma_inverse(3.141592653589793**2 / 6), 12)  # trigamma(1) = pi^2 / 6
    1.0
    """
    if not value > 0:
        raise ValueError(f"trigamma is positive, not {value}")
    x = 0.5 + 1 / value
    for _ in range(_NEWTON_STEPS):
        slope = float(polygamma(1, x))
        step = slope * (1 - slope / value) / float(polygamma(2, x))
        x += step
        if abs(step) < 1e-13 * x:
            break
    return x


def _scale(centred: Array, freedom: float) -> float:
    return exp(float(centred.mean()) + float(psi(freedom / 2)) - log(freedom / 2))


def _variance(totals: Sequence[int]) -> Fraction:
    return max(_ROUNDING_VARIANCE, squared_deviations(totals) / (len(totals) - 1))
