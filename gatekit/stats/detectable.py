"""What each rung of the ladder can notice, before it has any history: error rates, drops, questions.

The world everywhere: n fixed questions of mean accuracy p, whose flips from run to run have the variance
V = phi n p (1 - p). A drop d costs n d right answers, in one of two shapes (`Shape`) between which real
regressions lie. Counts are taken as normal, which needs about ten expected flips (2 V >= 10); at n = 1319 the
figures agree with simulations of the rules themselves to about 5 points of power, those of the guarded one to
about 3 from three runs on and to about 7 with two; at n = 200 to about 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, partial
from math import floor, isfinite, sqrt

import numpy as np
from scipy.special import betainc, ndtr, ndtri, stdtr, stdtrit

from gatekit.stats.binomial import lower_tail_at_most, reject_count
from gatekit.stats.exact import Real, exact_probability
from gatekit.stats.overdispersion import DEFAULT_NU_PSI, likely_psi
from gatekit.stats.predictive import predictive_count
from gatekit.stats.weights import Array

_REACH = 6.0  # how far out, in standard deviations
_HALVINGS = 40


class Shape(Enum):
    """How a drop is spread over the questions.

    EVEN: every question loses the same share of its chance, so that sure questions begin to flip.
    WHOLE: some questions are lost outright and the rest flip as before, at dispersion phi.
    """

    EVEN = "even"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """n questions of one accuracy, the dispersion of their flips, and how many runs were seen before.

    `runs` is None where the healthy mean is known. 0 < accuracy < 1, 0 < phi <= 1, runs >= 1.
    """

    n: int
    accuracy: float
    phi: float
    runs: int | None

    def __post_init__(self) -> None:
        if self.n < 1 or not 0 < self.accuracy < 1 or not 0 < self.phi <= 1:
            raise ValueError("a world needs questions, an accuracy inside (0, 1) and a dispersion in (0, 1]")
        if self.runs is not None and self.runs < 1:
            raise ValueError("the history has at least one run, or is None")

    @property
    def flips(self) -> float:
        """The variance of a healthy run's count."""
        return self.phi * self.n * self.accuracy * (1 - self.accuracy)

    def flips_after(self, drop: float, shape: Shape) -> float:
        """The variance of a run's count after a drop.

        EVEN: sum r p_i (1 - r p_i) = r V + r (1 - r) (n p - V), r = 1 - drop / p. WHOLE: phi n q (1 - q),
        q = p - drop.
        """
        left = max(0.0, self.accuracy - drop)
        if shape is Shape.WHOLE:
            return self.phi * self.n * left * (1 - left)
        share = left / self.accuracy
        return share * self.flips + share * (1 - share) * (self.n * self.accuracy - self.flips)

    def changes(self, drop: float, shape: Shape) -> float:
        """How many questions are expected to differ between a healthy run and one after a drop."""
        if shape is Shape.WHOLE:
            return self.flips + self.flips_after(drop, shape) + self.n * drop
        right, share = self.n * self.accuracy, max(0.0, 1 - drop / self.accuracy)
        return right * (1 + share) - 2 * share * (right - self.flips)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTest:
    """A rule that fails a run whose count lies `margin` or more below the mean of the earlier ones.

    `quantile` is the positive critical value, and `df` the degrees of freedom of the statistic (None: normal). A
    conditional rule takes its spread from earlier runs and the new one together, so that a drop widens its margin.
    `widths` are equally likely factors on the quantile: what a guard happens to make of the earlier runs.
    """

    world: World
    quantile: float
    df: float | None
    is_conditional: bool = False
    widths: tuple[float, ...] = (1.0,)

    def margin(self, drop: float, shape: Shape) -> float:
        """How many answers below the earlier mean the rule fails, unwidened, when the true drop is `drop`."""
        return self._margin(drop, shape, 1.0)

    def fails(self, drop: float, shape: Shape) -> float:
        """P(FAIL) at a drop; at 0 the false-alarm rate. 0 where no count fails, whatever a curve says below zero."""
        if self.k_reject == 0:
            return 0.0
        spread = sqrt(self.world.flips_after(drop, shape) + self.world.flips * _per(self.world.runs))
        shares = [self._below(self._distance(drop, shape, width), spread) for width in self.widths]
        return sum(shares) / len(shares)

    @property
    def k_reject(self) -> int:
        """The count below which a run fails when the earlier mean is exactly n p, unwidened."""
        limit = self.world.n * self.world.accuracy - self.margin(0.0, Shape.EVEN)
        if not isfinite(limit):  # no quantile of so small an alpha fits into a float
            return 0
        return max(0, floor(limit) + 1 if self.is_conditional else floor(limit + 0.5))

    def _margin(self, drop: float, shape: Shape, width: float) -> float:
        k, quantile = self.world.runs, self.quantile * width
        if not self.is_conditional or k is None:
            return quantile * sqrt(self.world.flips * (1 + _per(k)))
        pooled = (k * (k - 1) * self.world.flips + k * self.world.changes(drop, shape)) / (k + 1) ** 2
        return (k + 1) / k * (quantile * sqrt(pooled) + 0.5)

    def _distance(self, drop: float, shape: Shape, width: float) -> float:
        return self.world.n * drop - self._margin(drop, shape, width)

    def _below(self, distance: float, spread: float) -> float:
        score = distance / spread if spread else float("inf") * distance
        return float(ndtr(score) if self.df is None else stdtr(self.df, score))


def known_mean(world: World, alpha: float) -> CountTest:
    """The limit of a long history: mean and spread known. Formula: z sqrt(V).

    Reference: the definition. Validity: as this file says.

    >>> test = known_mean(World(n=400, accuracy=0.5, phi=1.0, runs=None), 0.5)  # z = 0: half of all runs
    >>> test.k_reject, test.fails(0.0, Shape.EVEN)
    (200, 0.5)
    """
    return CountTest(world=replace(world, runs=None), quantile=-float(ndtri(alpha)), df=None)


def moderated_t_test(world: World, alpha: float, nu0: float) -> CountTest:
    """`moderated_t` on the totals of k runs, its prior right: t with nu0 + k - 1 degrees of freedom.

    Formula: t sqrt(V (1 + 1/k)). Reference: Smyth 2004. Validity: as this file says, k >= 1, nu0 > 0.

    >>> moderated_t_test(World(n=1319, accuracy=0.9, phi=0.213, runs=10), 0.001, 4).df
    13.0
    """
    df = float(nu0 + _runs(world) - 1)
    return CountTest(world=world, quantile=-float(stdtrit(df, alpha)), df=df)


def flip_prediction_test(world: World, alpha: float) -> CountTest:
    """`flip_prediction` on k >= 2 runs of the same questions, with the fewest degrees of freedom it can have.

    Formula: as `moderated_t_test` with df = 2 V / (u - V/n), u = k/(k-1) max p (1-p) the largest variance that
    one question can show in k runs. Reference: Satterthwaite 1946. Raises ValueError for fewer than 2 runs.

    >>> round(flip_prediction_test(World(n=1000, accuracy=0.5, phi=0.4, runs=2), 0.001).df)  # 200 / (0.5 - 0.1)
    500
    """
    k = _runs(world)
    if k < 2:
        raise ValueError("flips show from two runs on")
    largest = (k // 2) * (k - k // 2) / (k * (k - 1))
    df = 2 * world.flips / max(largest - world.flips / world.n, 1e-9)
    return CountTest(world=world, quantile=-float(stdtrit(df, alpha)), df=df)


def conditional_test(world: World, alpha: float) -> CountTest:
    """`exact_conditional` on k runs of the same questions, unguarded; with one run it is `exact_mcnemar`.

    Formula: S - mean <= -(k+1)/k (z sqrt(W) + 1/2), W = sum t (k+1-t) / (k+1)^2 the conditional variance at
    its expectation. Reference: Mantel & Haenszel 1959 (the normal form). Validity: as this file says.

    >>> test = conditional_test(World(n=1319, accuracy=0.9, phi=0.213, runs=1), 0.001)
    >>> round(test.fails(0.02, Shape.EVEN), 2)  # simulated: 0.44
    0.43
    """
    return CountTest(world=world, quantile=-float(ndtri(alpha)), df=None, is_conditional=True)


def guarded_test(world: World, alpha: float, nu_psi: float = DEFAULT_NU_PSI) -> CountTest:
    """`exact_conditional` as a gate applies it: from two runs on widened by the over-dispersion guard.

    Hypotheses: as `conditional_test`; totals scatter as flips do, so that psi is what `likely_psi` says.
    Formula: z becomes t sqrt(psi) on nu_psi + k - 1 degrees of freedom, and P(FAIL) the mean over psi.
    Reference: `overdispersion.guarded_p`. Validity: as this file says, nu_psi > 0.

    >>> test = guarded_test(World(n=1319, accuracy=0.9, phi=0.213, runs=10), 0.001)
    >>> round(test.fails(0.02, Shape.EVEN), 2)  # simulated: 0.75, and 0.89 without the guard
    0.74
    """
    k = _runs(world)
    if k < 2:
        return conditional_test(world, alpha)
    quantile = -float(stdtrit(nu_psi + k - 1, alpha))
    widths = tuple(float(width) for width in np.sqrt(likely_psi(k, nu_psi)))
    return CountTest(world=world, quantile=quantile, df=None, is_conditional=True, widths=widths)


@dataclass(frozen=True, kw_only=True)
class BaselineTest:
    """`beta_binomial_predictive` of n questions against one baseline of other questions.

    Hypotheses: baseline and new run are independent binomial samples; phi plays no part. P(FAIL) is summed
    over the baselines that could have been seen (`points` of them at most, up to 6 standard deviations), each with
    its exact threshold. Reference: Thatcher 1964. On the same questions it is conservative.
    """

    n: int
    baseline_n: int
    accuracy: float
    alpha: float
    points: int = 201

    @property
    def k_reject(self) -> int:
        """The threshold of a baseline of exactly the healthy accuracy."""
        return self._count(round(self.baseline_n * self.accuracy))

    def fails(self, drop: float) -> float:
        """P(FAIL) at a drop; at 0 the false-alarm rate."""
        counts, weights = self._thresholds
        left = max(0.0, self.accuracy - drop)
        inner = np.clip(counts, 1, self.n)
        tails = betainc(self.n - inner + 1, inner, 1 - left)
        tails = np.where(counts <= 0, 0.0, np.where(counts > self.n, 1.0, tails))
        return float(weights @ tails)

    @cached_property
    def _thresholds(self) -> tuple[Array, Array]:
        """The threshold of each baseline, and the baseline's probability."""
        mean = self.baseline_n * self.accuracy
        reach = _REACH * sqrt(mean * (1 - self.accuracy)) + 1
        ends = np.linspace(max(0.0, mean - reach), min(float(self.baseline_n), mean + reach), self.points)
        baselines = np.unique(np.rint(ends))
        density = _binomial_weights(baselines, self.baseline_n, self.accuracy)
        counts = np.array([self._count(int(s0)) for s0 in baselines], dtype=np.float64)
        return counts, density

    def _count(self, s0: int) -> int:
        return predictive_count(s0, self.baseline_n, self.n, self.alpha).k_pass


def smallest_drop(fails: Callable[[float], float], accuracy: Real, power: float) -> float | None:
    """The smallest drop at which `fails` reaches `power`; None when even the loss of everything does not.

    Hypothesis: `fails` grows with the drop. By bisection, to a thousandth of a thousandth of a point.

    >>> round(smallest_drop(lambda drop: drop, 1.0, 0.25), 9)
    0.25
    """
    low, high = 0.0, float(exact_probability(accuracy, "accuracy"))
    if fails(low) >= power:
        return 0.0
    if fails(high) < power:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fails(middle) >= power else (middle, high)
    return high


def smallest_size(fails: Callable[[int], float], power: float, n_max: int, start: int = 1) -> int | None:
    """The smallest n from `start` to n_max at which `fails` reaches `power`; None when there is none.

    Hypothesis: `fails` grows with n, apart from the sawtooth of counts, which is stepped over.

    >>> smallest_size(lambda n: n / 100, 0.5, 1000), smallest_size(lambda n: 0.1, 0.5, 1000)
    (50, None)
    """
    low, high = start - 1, start
    while fails(high) < power:
        if high >= n_max:
            return None
        low, high = high, min(2 * high, n_max)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) >= power else (middle, high)
    return high


def safe_size(p0: Real, p1: Real, alpha: Real, beta: Real, start: int, n_max: int) -> int | None:
    """The n from which on no size misses p1 more often than beta; None when that lies beyond n_max.

    `start` is a size that meets both error rates of the level-alpha count test, as `power.sample_size` finds it.
    Hypothesis: X ~ Bin(n, p). While the number c of wrong answers that a run may have stays the same, a larger n
    misses less; where c becomes c + 1 it misses more. These worst sizes are walked until one would meet beta even
    with one question less, so that rounding cannot let a later one miss it.
    Reference: Chernick & Liu 2002. Valid for p1 < p0, 0 < alpha, beta < 1.

    >>> safe_size(0.9, 0.5, 0.1, 0.3, 3, 100)  # c = 0 at n = 1, c = 1 for 2..5, c = 2 from 6: 22/64 is too much
    7
    """
    healthy, lost = exact_probability(p0, "p0"), 1 - exact_probability(p1, "p1")
    wrong, tooth, safe = start - reject_count(start, healthy, alpha), start, start
    while True:
        tooth = _first(partial(_allows_more, wrong=wrong, p0=healthy, alpha=alpha), tooth)
        wrong += 1
        meets = partial(_meets, wrong=wrong, lost=lost, beta=beta)
        if tooth > n_max or meets(tooth - 1):
            return safe if safe <= n_max else None
        safe = safe if meets(tooth) else _first(meets, tooth)


def _allows_more(n: int, *, wrong: int, p0: Real, alpha: Real) -> bool:
    """Whether n questions may have more than `wrong` wrong answers before they fail."""
    return not lower_tail_at_most(n - wrong, n, p0, alpha)


def _meets(n: int, *, wrong: int, lost: Real, beta: Real) -> bool:
    """Whether at most `wrong` wrong answers of n are as improbable as beta, at a share `lost` of wrong ones."""
    return lower_tail_at_most(wrong + 1, n, lost, beta)


def _first(holds: Callable[[int], bool], after: int) -> int:
    """The first n beyond `after` at which a condition holds that never ceases to."""
    low, step = after, 1
    while not holds(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _per(runs: int | None) -> float:
    return 0.0 if runs is None else 1 / runs


def _runs(world: World) -> int:
    if world.runs is None:
        raise ValueError("this rule needs a number of earlier runs")
    return world.runs


def _binomial_weights(counts: Array, n: int, p: float) -> Array:
    """P(X near each count): the mass of Bin(n, p) between the midpoints of neighbouring counts."""
    middles = np.floor((counts[1:] + counts[:-1]) / 2)
    inner = np.clip(middles + 1, 1, n)
    below = betainc(n - inner + 1, inner, 1 - p)  # P(X <= middle)
    return np.diff(np.concatenate(([0.0], below, [1.0])))
