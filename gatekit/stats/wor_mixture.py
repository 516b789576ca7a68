"""Would the full run reach K0 right answers, or only K1? The sequential test on a fixed set in random order.

Nothing is assumed about accuracy: the order is random, each answer is fixed, and the likelihoods are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, floor, inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from gatekit.stats.exact import Real, exact, exact_probability
from gatekit.stats.sequential import Boundaries, Characteristic, ville_boundaries
from gatekit.stats.weights import Array

_COLLAPSED = (0.6, 0.2)  # accuracies of a model that is broken rather than worse
_COLLAPSED_WEIGHT = 0.1
_SLACK = 1e-9  # a float accuracy times n that means an integer; hitting a boundary crosses it


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way to have dropped: `right` answers of the whole set, and its weight in the mixture."""

    right: int
    weight: float


class WorMixture:
    """The test of K >= `healthy` against K <= `dropped` right answers in a set of `n`, of which t are seen.

    FAIL side: a mixture of alternatives, .8 on `dropped`, .1 each on .6 n and .2 n where these are below it
    (what is left out falls to `dropped`), so that a collapse is found within a handful of questions. PASS
    side: `dropped` alone. Ville's boundaries: over random orders a set with K >= `healthy` is failed with
    probability at most alpha, one with K <= `dropped` passed with probability at most beta, wherever one stops.
    """

    def __init__(self, n: int, healthy: int, dropped: int, alpha: Real, beta: Real) -> None:
        if not 0 <= dropped < healthy <= n:
            raise ValueError(f"the counts must satisfy 0 <= K1 < K0 <= N, not K1={dropped}, K0={healthy}, N={n}")
        self.n, self.healthy, self.dropped = n, healthy, dropped
        self.bounds: Boundaries = ville_boundaries(alpha, beta)
        self.alternatives = _alternatives(n, dropped)
        self._log_factorials: list[float] = gammaln(np.arange(n + 1) + 1.0).tolist()
        self._healthy_constant = self._log_sets(healthy, 0, 0)
        self._constants = tuple(log(a.weight) - self._log_sets(a.right, 0, 0) for a in self.alternatives)

    def ledger(self) -> WorLedger:
        """An empty ledger of known answers."""
        return WorLedger(self)

    def fail_ratio(self, right: int, wrong: int) -> float:
        """ln of the mixture's likelihood over that of K0 after these answers; +inf where K0 is impossible."""
        healthy = self._log_sets(self.healthy, right, wrong)
        if healthy == -inf:
            return inf if wrong > self.n - self.healthy else -inf
        base = healthy - self._healthy_constant
        parts = [
            constant + self._log_sets(a.right, right, wrong) - base
            for a, constant in zip(self.alternatives, self._constants, strict=True)
        ]
        top = max(parts)
        return top if top == -inf else top + log(sum([exp(part - top) for part in parts]))

    def pass_ratio(self, right: int, wrong: int) -> float:
        """ln of the likelihood of K1 over that of K0 after these answers; -inf where K1 is too few."""
        dropped, healthy = self._log_sets(self.dropped, right, wrong), self._log_sets(self.healthy, right, wrong)
        if dropped == -inf or healthy == -inf:
            return -inf if right > self.dropped else inf
        return dropped - self._log_sets(self.dropped, 0, 0) - healthy + self._healthy_constant

    def _log_sets(self, total: int, right: int, wrong: int) -> float:
        """ln C(N - t, K - s) less ln (N - t)!, which is the same for every K; -inf where K is impossible."""
        more_right, more_wrong = total - right, self.n - total - wrong
        if more_right < 0 or more_wrong < 0:
            return -inf
        return -self._log_factorials[more_right] - self._log_factorials[more_wrong]


class WorLedger:
    """The known answers among the first t questions of a `WorMixture`: two counts."""

    def __init__(self, test: WorMixture) -> None:
        self._test = test
        self._known_right = self._known_wrong = 0

    def add(self, index: int, *, right: bool) -> None:
        """Count one known answer."""
        if right:
            self._known_right += 1
        else:
            self._known_wrong += 1

    def fails(self, t: int) -> bool:
        """Whether the first t questions cross FAIL even with every unknown one right."""
        return self._known_wrong > 0 and self.fail_ratio(t) >= self._test.bounds.log_a - _SLACK

    def passes(self, t: int) -> bool:
        """Whether the first t questions cross PASS even with every unknown one wrong."""
        return self._known_right > 0 and self.pass_ratio(t) <= self._test.bounds.log_b + _SLACK

    def fail_ratio(self, t: int) -> float:
        """That of the mixture, with every unknown answer right."""
        return self._test.fail_ratio(t - self._known_wrong, self._known_wrong)

    def pass_ratio(self, t: int) -> float:
        """That of K1, with every unknown answer wrong."""
        return self._test.pass_ratio(self._known_right, t - self._known_right)


def wor_counts(n: int, p0: Real, delta: Real) -> tuple[int, int]:
    """K0 = ceil(n p0) and K1 = floor(n (p0 - delta)): a set is healthy at an accuracy >= p0, dropped at <= p0 - delta.

    Hypothesis: none. Reference: the definition; a float product within 1e-9 of an integer is that integer.
    Valid for 0 <= p0 <= 1 and 0 < delta <= p0, else ValueError.

    >>> wor_counts(200, 0.9, 0.05)
    (180, 170)
    """
    accuracy, drop = exact_probability(p0, "p0"), exact(delta)
    if not 0 < drop <= accuracy:
        raise ValueError(f"the drop must lie above 0 and not above the accuracy {float(p0):g}, not {float(delta):g}")
    return ceil(float(n * accuracy) - _SLACK), floor(float(n * (accuracy - drop)) + _SLACK)


def wor_mixture_characteristic(
    n: int, healthy: int, dropped: int, alpha: Real, beta: Real, true: int
) -> Characteristic:
    """The exact error rates and mean length of `WorMixture` when the set has `true` right answers.

    Hypothesis: the order is random and each answer fixed. Formula: dynamic programme over the number of wrong
    answers; the ratio of C(N-t, K-s) / C(N, K) at the alternatives and at K0. It always ends. Reference:
    Waudby-Smith & Ramdas 2020; Ville 1939. Valid for 0 <= K1 < K0 <= N and 0 <= K_true <= N, else ValueError.

    >>> wor_mixture_characteristic(2, 2, 0, 0.1, 0.1, 2)  # the first right answer excludes K1 = 0
    Characteristic(p_fail=0.0, p_pass=1.0, p_inconclusive=0.0, expected_n=1.0)
    """
    if not 0 <= true <= n:
        raise ValueError(f"a set of {n} questions cannot have {true} right answers")
    test = WorMixture(n, healthy, dropped, alpha, beta)
    alive, p_fail, p_pass, expected = np.ones(1), 0.0, 0.0, 0.0
    for t in range(1, n + 1):
        wrong = np.arange(t, dtype=np.float64)
        wrong_left = np.clip(n - true - wrong, 0, n - t + 1) / (n - t + 1)
        moved = np.zeros(t + 1)
        moved[:-1] += alive * (1 - wrong_left)
        moved[1:] += alive * wrong_left
        fails, passes = _decided(test, t, moved)
        failing, passing = float(moved[fails].sum()), float(moved[passes].sum())
        p_fail, p_pass, expected = p_fail + failing, p_pass + passing, expected + t * (failing + passing)
        alive = np.where(fails | passes, 0.0, moved)
    left = float(alive.sum())
    return Characteristic(p_fail=p_fail, p_pass=p_pass, p_inconclusive=left, expected_n=expected + n * left)


def _decided(test: WorMixture, t: int, weight: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which numbers of wrong answers among t end the test: both sets are half-lines, found by bisection."""
    bounds = test.bounds
    first_fail = _first(t + 1, lambda wrong: test.fail_ratio(t - wrong, wrong) >= bounds.log_a - _SLACK)
    first_not_pass = _first(t + 1, lambda wrong: test.pass_ratio(t - wrong, wrong) > bounds.log_b + _SLACK)
    wrong = np.arange(len(weight))
    fails = wrong >= first_fail
    return fails, (wrong < first_not_pass) & ~fails


def _first(end: int, holds: Callable[[int], bool]) -> int:
    """The smallest integer below `end` at which a condition that stays true holds, else `end`."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _alternatives(n: int, dropped: int) -> tuple[Alternative, ...]:
    collapsed = sorted({round(share * n) for share in _COLLAPSED if round(share * n) < dropped}, reverse=True)
    rest = 1 - _COLLAPSED_WEIGHT * len(collapsed)
    found = [Alternative(right=dropped, weight=rest)]
    return (*found, *(Alternative(right=right, weight=_COLLAPSED_WEIGHT) for right in collapsed))
