"""Control charts over a series of nightly p-values: slow drift that no single night shows.

Convention: the score of a night is z = Phi^-1(p), low when the count is low; the charts sum -z, so that drift
in the bad direction is up, as in `drift`, where their run lengths and limits come from. Hypothesis everywhere:
in control the p-values are independent and uniform. A discrete p-value is too large on average and hides
drift: chart its mid-p, (P(S <= s) + P(S < s)) / 2. None is a night without a p-value; it leaves the chart as it
was. After an alarm the path goes on: starting anew is an act to record, not a side effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, inf, sqrt

import numpy as np
from scipy.special import ndtri, stdtr

_LEAST = 1e-300  # a p-value of 0 or 1 is one that was rounded: no night may move a chart by infinity
_MOST = 1 - 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The statistic after every night, and the index of the first night above `limit` (None: no alarm)."""

    path: tuple[float, ...]
    limit: float
    alarm: int | None


def cusum(p_values: Sequence[float | None], k: float = 0.5, *, h: float) -> Chart:
    """Page's chart: C = max(0, C - z - k) from 0, alarm when C > h; quickest against a lasting shift of 2k sd.

    `h` comes from `drift.cusum_limit(k, nights between false alarms)`. Reference: Page 1954. Valid for
    p-values in [0, 1], k >= 0 and h > 0, else ValueError.

    >>> cusum([0.5, 0.5], 0.0, h=1.0)  # z = 0: nothing adds up
    Chart(path=(0.0, 0.0), limit=1.0, alarm=None)
    >>> found = cusum([0.15865525393145707, None, 0.15865525393145707], h=0.75)  # z = -1, each adds 1 - 1/2
    >>> [round(c, 12) for c in found.path], found.alarm
    ([0.5, 0.5, 1.0], 2)
    """
    if not (k >= 0 and h > 0):
        raise ValueError(f"a CUSUM needs an allowance k >= 0 and a limit h > 0, not {k} and {h}")
    path, c = [], 0.0
    for score in _scores(p_values):
        c = c if score is None else max(0.0, c + score - k)
        path.append(c)
    return _chart(path, h)


def ewma(p_values: Sequence[float | None], lam: float = 0.2, *, c: float) -> Chart:
    """The weighted mean Z = max(0, (1 - lam) Z - lam z) from 0, alarm when Z > c sqrt(lam / (2 - lam)).

    `c` comes from `drift.ewma_arl`: 3.68 is one false alarm in 7300 nights at lam = 0.2. The limit is the
    asymptotic one, as there. Reference: Roberts 1959; Crowder 1987. Valid for p-values in [0, 1], 0 < lam <= 1
    and c > 0, else ValueError.

    >>> found = ewma([0.15865525393145707] * 2, 0.5, c=1.0)  # z = -1: 1/2, then 3/4 > sqrt(1/3)
    >>> [round(z, 12) for z in found.path], found.alarm
    ([0.5, 0.75], 1)
    """
    if not (0 < lam <= 1 and c > 0):
        raise ValueError(f"an EWMA chart needs 0 < lam <= 1 and c > 0, not {lam} and {c}")
    path, z = [], 0.0
    for score in _scores(p_values):
        z = z if score is None else max(0.0, (1 - lam) * z + lam * score)
        path.append(z)
    return _chart(path, c * sqrt(lam / (2 - lam)))


def self_starting_p(totals: Sequence[int]) -> tuple[float | None, ...]:
    """The p-value of each total among those before it: a chart that needs no in-control nights of its own.

    Hypothesis: in control the totals are independent normal with one mean and variance, both unknown; then
    the p-values are independent and uniform. Formula: with mean m and standard deviation s of the first j - 1,
    p_j = T_{j-2}(sqrt((j-1)/j) (x_j - m) / s). None where nothing can be said: the first two nights, and as
    long as all totals are equal. A drift in the first nights becomes the norm: it needs about 10 healthy ones.
    Reference: Hawkins 1987. Valid for every series of integers.

    >>> [p if p is None else round(p, 12) for p in self_starting_p([10, 12, 11])]  # 11 is the mean before it
    [None, None, 0.5]
    """
    found: list[float | None] = []
    total = squares = 0
    for earlier, x in enumerate(totals):
        scatter = earlier * squares - total * total  # earlier (earlier - 1) s^2, exactly
        found.append(_against(earlier, total, scatter, x) if scatter else None)
        total, squares = total + x, squares + x * x
    return tuple(found)


def _against(earlier: int, total: int, scatter: int, x: int) -> float:
    gap = earlier * x - total
    squared = Fraction(gap * gap * (earlier - 1), scatter * (earlier + 1))
    return float(stdtr(earlier - 1, copysign(sqrt(squared), gap)))


def _scores(p_values: Sequence[float | None]) -> list[float | None]:
    """-Phi^-1(p) of every night, finite."""
    for p in p_values:
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"a p-value lies in [0, 1], not {p}")
    filled = np.array([0.5 if p is None else p for p in p_values])
    scores = (-ndtri(np.clip(filled, _LEAST, _MOST))).tolist()
    return [None if p is None else float(z) for p, z in zip(p_values, scores, strict=True)]


def _chart(path: list[float], limit: float) -> Chart:
    if not 0 < limit < inf:
        raise ValueError(f"a control limit is positive and finite, not {limit}")
    alarm = next((night for night, value in enumerate(path) if value > limit), None)
    return Chart(path=tuple(path), limit=limit, alarm=alarm)
