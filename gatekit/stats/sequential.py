"""Stopping before the last question: sequential likelihood-ratio tests and their exact error rates.

The log likelihood ratio is of the dropped accuracy against the healthy one: a wrong answer moves it up,
FAIL is at the top, PASS at the bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np
from scipy.special import gammaln

from gatekit.records.verdict import Outcome
from gatekit.stats.exact import Real, exact, exact_probability
from gatekit.stats.weights import Array

_SLACK = 1e-12  # hitting a boundary crosses it, whatever the rounding of the sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """FAIL at or above `log_a`, PASS at or below `log_b`."""

    log_a: float
    log_b: float

    def outcome(self, llr: float) -> Outcome | None:
        """FAIL, PASS, or None while between."""
        if llr >= self.log_a - _SLACK:
            return Outcome.FAIL
        return Outcome.PASS if llr <= self.log_b + _SLACK else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What one right and one wrong answer add to the log likelihood ratio."""

    correct: float
    wrong: float

    def total(self, correct: int, wrong: int) -> float:
        """The log likelihood ratio of the counts; an impossible answer never seen adds nothing."""
        return (self.correct * correct if correct else 0.0) + (self.wrong * wrong if wrong else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Characteristic:
    """How often a test ends in each verdict, and after how many questions on average."""

    p_fail: float
    p_pass: float
    p_inconclusive: float
    expected_n: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where a stream of completions was decided: `consumed` questions were counted at that moment."""

    outcome: Outcome
    completions: int
    consumed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStops:
    """The same stream under the three rules that stay valid when answers come out of order."""

    in_order: Stop
    worst_case: Stop
    combined: Stop


def wald_boundaries(alpha: Real, beta: Real) -> Boundaries:
    """FAIL at ln((1-beta)/alpha), PASS at ln(beta/(1-alpha)): error rates about alpha and beta.

    Hypothesis: none beyond the likelihoods. Reference: Wald 1945. Valid for 0 < alpha, beta < 1, else
    ValueError.

    >>> wald_boundaries(0.5, 0.5)
    Boundaries(log_a=0.0, log_b=0.0)
    """
    a, b = _rates(alpha, beta)
    return Boundaries(log_a=log((1 - b) / a), log_b=log(b / (1 - a)))


def ville_boundaries(alpha: Real, beta: Real) -> Boundaries:
    """FAIL at ln(1/alpha), PASS at ln(beta): error rates at most alpha and beta under any stopping rule.

    Hypothesis: none beyond the likelihoods. Reference: Ville 1939. Valid for 0 < alpha, beta < 1, else
    ValueError.

    >>> ville_boundaries(0.5, 0.5).log_a == log(2)
    True
    """
    a, b = _rates(alpha, beta)
    return Boundaries(log_a=-log(a), log_b=log(b))


def llr_steps(p0: Real, p1: Real) -> Steps:
    """ln(p1/p0) for a right answer, ln((1-p1)/(1-p0)) for a wrong one.

    Hypothesis: answers are independent with probability p0 (healthy) or p1 (dropped). Reference: Wald 1945.
    Valid for probabilities in [0, 1] with p0 != p1; infinite where one of them excludes the answer.

    >>> llr_steps(0.5, 0.25).correct == log(0.5)
    True
    """
    healthy, dropped = exact_probability(p0, "p0"), exact_probability(p1, "p1")
    if healthy == dropped:
        raise ValueError("the two accuracies must differ")
    return Steps(
        correct=_log_ratio(float(dropped), float(healthy)),
        wrong=_log_ratio(float(1 - dropped), float(1 - healthy)),
    )


def sprt_characteristic(p0: Real, p1: Real, alpha: Real, beta: Real, n_max: int, p_true: Real) -> Characteristic:
    """The exact error rates and mean length of Wald's test cut off at n_max (then INCONCLUSIVE).

    Hypothesis: independent answers, right with probability p_true. Formula: dynamic programme over the
    number of wrong answers; hitting a boundary crosses it. Reference: Wald 1945. Valid for n_max >= 1, 0 <
    rates < 1.

    >>> sprt_characteristic(1.0, 0.5, 0.1, 0.5, 5, 1.0)  # each right answer halves: PASS at ln(0.5/0.9)
    Characteristic(p_fail=0.0, p_pass=1.0, p_inconclusive=0.0, expected_n=1.0)
    """
    steps, bounds = llr_steps(p0, p1), wald_boundaries(alpha, beta)
    true = exact_probability(p_true, "p_true")
    p, q = float(true), float(1 - true)

    def llr(t: int, wrong: Array) -> Array:
        return _scaled(steps.correct, t - wrong) + _scaled(steps.wrong, wrong)

    return _walk(n_max, bounds, llr, lambda t, wrong: (np.full(len(wrong), q), np.full(len(wrong), p)))


def wor_sprt_characteristic(
    population: int, healthy: int, dropped: int, alpha: Real, beta: Real, true: int
) -> Characteristic:
    """The exact error rates and mean length of the test that draws a fixed set without replacement.

    Would the full run of N questions reach K0 right answers, or only K1? Hypothesis: the order is random
    and each question's answer fixed; nothing is assumed about the accuracy. Formula: the ratio of C(N-t,
    K-s) / C(N, K) at K1 and K0 against Wald's boundaries, exact by dynamic programme; it always ends.
    Reference: Waudby-Smith & Ramdas 2020. Valid for 0 <= K1 < K0 <= N and 0 <= K_true <= N, else
    ValueError.

    >>> wor_sprt_characteristic(2, 2, 0, 0.1, 0.1, 2)  # the first right answer excludes K1 = 0
    Characteristic(p_fail=0.0, p_pass=1.0, p_inconclusive=0.0, expected_n=1.0)
    """
    if not (0 <= dropped < healthy <= population and 0 <= true <= population):
        raise ValueError("the counts must satisfy 0 <= K1 < K0 <= N and 0 <= K_true <= N")
    bounds = wald_boundaries(alpha, beta)

    def llr(t: int, wrong: Array) -> Array:
        seen = _log_orders(population, dropped, t, wrong)
        other = _log_orders(population, healthy, t, wrong)
        both = np.where(np.isneginf(other), 0.0, other)
        return np.where(np.isneginf(other), inf, seen - both)

    def chances(t: int, wrong: Array) -> tuple[Array, Array]:
        left = population - t
        wrong_left = np.clip(population - true - wrong, 0, left)
        return wrong_left / left, (left - wrong_left) / left

    return _walk(population, bounds, llr, chances)


def stream_stops(
    p0: Real,
    p1: Real,
    alpha: Real,
    beta: Real,
    concurrency: int,
    outcomes: Sequence[int],
    completion_order: Sequence[int],
) -> StreamStops:
    """Where a stream of completions would stop, by three rules that hold when wrong answers come late.

    `outcomes` (1 right, 0 wrong) are in dispatch order, `completion_order` says which question ended when.
    in_order consumes the contiguous prefix only; worst_case imputes every question in flight right (for
    FAIL) or wrong (for PASS); combined takes whichever comes first, in_order on a tie. Counting answers as
    they complete instead misses a 5-point drop up to 99 % of the time. Reference: Ville 1939. Valid for p0
    > p1.

    >>> stops = stream_stops(0.9, 0.1, 0.2, 0.2, 2, [0, 0, 1], [1, 0, 2])
    >>> stops.in_order.completions, stops.worst_case.completions
    (2, 2)
    """
    steps, bounds = llr_steps(p0, p1), ville_boundaries(alpha, beta)
    order = list(completion_order)
    in_order = _first_stop(_in_order(steps, bounds, outcomes, order), len(order))
    worst = _first_stop(_worst_case(steps, bounds, outcomes, order, concurrency), len(order))
    combined = worst if _is_earlier(worst, in_order) else in_order
    return StreamStops(in_order=in_order, worst_case=worst, combined=combined)


_Llr = Callable[[int, Array], Array]
_Chances = Callable[[int, Array], tuple[Array, Array]]


def _walk(n_max: int, bounds: Boundaries, llr: _Llr, chances: _Chances) -> Characteristic:
    """The distribution over wrong answers, question by question, absorbed at the boundaries.

    `chances(t, wrong)` are the probabilities of a wrong and a right answer as question t + 1.
    """
    alive, p_fail, p_pass, expected = np.ones(1), 0.0, 0.0, 0.0
    for t in range(1, n_max + 1):
        wrong_next, right_next = chances(t - 1, np.arange(t, dtype=np.float64))
        moved = np.zeros(t + 1)
        moved[:-1] += alive * right_next
        moved[1:] += alive * wrong_next
        ratio = llr(t, np.arange(t + 1, dtype=np.float64))
        fails, passes = ratio >= bounds.log_a - _SLACK, ratio <= bounds.log_b + _SLACK
        failing, passing = float(moved[fails].sum()), float(moved[passes & ~fails].sum())
        p_fail, p_pass, expected = p_fail + failing, p_pass + passing, expected + t * (failing + passing)
        alive = np.where(fails | passes, 0.0, moved)
    left = float(alive.sum())
    return Characteristic(p_fail=p_fail, p_pass=p_pass, p_inconclusive=left, expected_n=expected + n_max * left)


def _scaled(step: float, number: Array) -> Array:
    """step * number, with 0 for an infinite step not taken."""
    if np.isfinite(step):
        return np.asarray(step * number, dtype=np.float64)
    return np.where(number > 0, step, 0.0)


def _log_orders(population: int, right: int, t: int, wrong: Array) -> Array:
    """ln of C(N-t, K-s) / C(N, K), -inf where K right answers in all are impossible after s = t - wrong."""
    rest_right = right - (t - wrong)
    rest_wrong = population - right - wrong
    possible = (rest_right >= 0) & (rest_wrong >= 0)
    safe_right, safe_wrong = np.where(possible, rest_right, 0.0), np.where(possible, rest_wrong, 0.0)
    logs = gammaln(population - t + 1) - gammaln(safe_right + 1) - gammaln(safe_wrong + 1)
    all_orders = gammaln(population + 1) - gammaln(right + 1) - gammaln(population - right + 1)
    return np.where(possible, logs - all_orders, -inf)


_Look = tuple[Outcome | None, int, int]  # outcome so far, completions processed, questions counted


def _in_order(steps: Steps, bounds: Boundaries, outcomes: Sequence[int], order: Sequence[int]) -> Iterator[_Look]:
    done = [False] * len(outcomes)
    prefix = right = 0
    for number, question in enumerate(order, 1):
        done[question] = True
        while prefix < len(done) and done[prefix]:
            right, prefix = right + outcomes[prefix], prefix + 1
            yield bounds.outcome(steps.total(right, prefix - right)), number, prefix
        yield None, number, prefix


def _worst_case(
    steps: Steps, bounds: Boundaries, outcomes: Sequence[int], order: Sequence[int], concurrency: int
) -> Iterator[_Look]:
    right = 0
    for number, question in enumerate(order, 1):
        right += outcomes[question]
        dispatched = min(len(outcomes), number - 1 + concurrency)
        wrong, flying = number - right, dispatched - number
        failed = bounds.outcome(steps.total(right + flying, wrong)) is Outcome.FAIL
        passed = bounds.outcome(steps.total(right, wrong + flying)) is Outcome.PASS
        yield Outcome.FAIL if failed else Outcome.PASS if passed else None, number, dispatched


def _first_stop(looks: Iterator[_Look], completions: int) -> Stop:
    consumed = 0
    for outcome, number, consumed in looks:
        if outcome is not None:
            return Stop(outcome=outcome, completions=number, consumed=consumed)
    return Stop(outcome=Outcome.INCONCLUSIVE, completions=completions, consumed=consumed)


def _is_earlier(worst: Stop, in_order: Stop) -> bool:
    if worst.outcome is Outcome.INCONCLUSIVE:
        return False
    return in_order.outcome is Outcome.INCONCLUSIVE or worst.completions < in_order.completions


def _rates(alpha: Real, beta: Real) -> tuple[float, float]:
    a, b = float(exact(alpha)), float(exact(beta))
    if not (0 < a < 1 and 0 < b < 1):
        raise ValueError(f"alpha and beta must lie inside (0, 1), not {alpha} and {beta}")
    return a, b


def _log_ratio(above: float, below: float) -> float:
    if above == 0:
        return -inf
    return inf if below == 0 else log(above / below)
