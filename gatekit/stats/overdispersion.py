"""Whether totals scatter more than flips explain, and a p-value that allows for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from scipy.special import chdtri, gammaincc, ndtri, stdtr

from gatekit.stats.exact import Real, exact, exact_probability, squared_deviations
from gatekit.stats.weights import Array

DEFAULT_NU_PSI = 8.0
"""How firmly psi is held at 1 before a matrix of series has been pooled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The factor on the flip variance, its freedom, the p-value that allows for it, and the test of none.

    `dispersion_p` is small when the totals scatter more than independent flips do; None when no question flipped.
    """

    psi: float
    df: float
    p: float
    dispersion_p: float | None


def guarded_p(
    p: float,
    history_totals: Sequence[int],
    flip_variance: float,
    nu_psi: Real = DEFAULT_NU_PSI,
    psi0: Real = 1.0,
) -> Guarded:
    """The p-value of a per-question rule, widened by what k totals show beyond independent flips.

    Hypotheses: Var(S) = psi V, V the flip variance; 1/psi has a scaled chi-square prior at `psi0` on `nu_psi`
    degrees of freedom; the rule's score Phi^-1(p) is about normal. Hosts, kernels and caches that move a whole
    run make psi > 1, and a rule that knows only flips then fails healthy runs too often.
    Formula: psi = max(1, (nu psi0 + (k-1) s^2/V) / (nu + k - 1)), p' = T_{nu+k-1}(Phi^-1(p) / sqrt(psi));
    dispersion_p = P(chi2_{k-1} >= (k-1) s^2/V). Reference: Smyth 2004 for the shrinkage; McCullagh & Nelder
    1989 (9.2.4) for the factor. Valid for k >= 2 distinct builds, V >= 0, nu_psi > 0 and psi0 >= 0, else
    ValueError; below one half p' is never below p. Without any flip there is nothing to widen: psi = max(1, ..).

    >>> guarded_p(0.5, [10, 12], 0.5, 1, 1)  # s^2 = 2, s^2/V = 4, psi = (1 + 4) / 2; the middle stays
    Guarded(psi=2.5, df=2.0, p=0.5, dispersion_p=0.04550026389635857)
    """
    k, freedom, prior = len(history_totals), exact(nu_psi), exact(psi0)
    if k < 2 or freedom <= 0 or prior < 0:
        raise ValueError("the guard needs at least two runs, positive prior freedom and no negative prior")
    scatter = _scatter(history_totals, flip_variance)
    psi = float(max(Fraction(1), (freedom * prior + scatter) / (freedom + k - 1)))
    df = float(freedom + k - 1)
    score = float(ndtri(float(exact_probability(p, "p"))))
    return Guarded(
        psi=psi,
        df=df,
        p=float(stdtr(df, score / sqrt(psi))),
        dispersion_p=float(gammaincc((k - 1) / 2, float(scatter) / 2)) if flip_variance else None,
    )


def likely_psi(k: int, nu_psi: float = DEFAULT_NU_PSI, points: int = 64) -> Array:
    """The psi that `guarded_p` finds where only flips are at work, at `points` equally likely places, ascending.

    Hypothesis: (k-1) s^2/V is chi-square on k - 1 degrees of freedom; the prior lies at 1. Formula: as
    `guarded_p`, at the midpoints of `points` equal shares. At least half of them are 1: the guard widens only
    where totals scatter more than expected. Reference: as there. Valid for k >= 2 and nu_psi > 0, else ValueError.

    >>> likely_psi(3, 2.0, 2).round(4)  # chi-square on 2 is -2 ln(1 - u): (2 + 2 ln 4) / 4 at u = 3/4
    array([1.    , 1.1931])
    """
    if k < 2 or not nu_psi > 0:
        raise ValueError("the guard needs at least two runs, and positive prior freedom")
    above = 1 - (np.arange(points) + 0.5) / points
    scatter = np.asarray(chdtri(k - 1, above), dtype=np.float64)
    return np.maximum(1.0, (nu_psi + scatter) / (nu_psi + k - 1))


def _scatter(totals: Sequence[int], flip_variance: float) -> Fraction:
    """(k - 1) s^2 / V, exactly; 0 when neither totals nor questions moved."""
    squares = squared_deviations(totals)
    if flip_variance < 0 or (flip_variance == 0 and squares):
        raise ValueError("totals that differ need a positive flip variance")
    return squares / exact(flip_variance) if flip_variance else Fraction(0)
