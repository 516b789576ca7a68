"""Sequential tests against simulation, enumeration and their published characteristics."""

from __future__ import annotations

from itertools import permutations, product
from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.records.verdict import Outcome
from gatekit.stats.sequential import (
    llr_steps,
    sprt_characteristic,
    stream_stops,
    ville_boundaries,
    wald_boundaries,
    wor_sprt_characteristic,
)


def test_the_truncated_test_is_the_sum_over_all_answer_sequences() -> None:
    """By enumerating all sequences of ten answers: the same error rates and mean length."""
    p0, p1, true, n = 0.8, 0.4, 0.6, 10
    steps, bounds = llr_steps(p0, p1), wald_boundaries(0.1, 0.2)
    totals = {Outcome.FAIL: 0.0, Outcome.PASS: 0.0, None: 0.0}
    expected = 0.0
    for answers in product((0, 1), repeat=n):
        weight = true ** sum(answers) * (1 - true) ** (n - sum(answers))
        length, outcome = n, None
        for t in range(1, n + 1):
            outcome = bounds.outcome(steps.total(sum(answers[:t]), t - sum(answers[:t])))
            if outcome:
                length = t
                break
        totals[outcome] += weight
        expected += weight * length
    found = sprt_characteristic(p0, p1, 0.1, 0.2, n, true)
    got = (found.p_fail, found.p_pass, found.p_inconclusive, found.expected_n)
    assert got == pytest.approx((totals[Outcome.FAIL], totals[Outcome.PASS], totals[None], expected), rel=1e-12)


def test_the_open_test_keeps_its_error_rates_near_the_published_ones() -> None:
    """0.90 against 0.85 at 1 %: 414.8 questions on average when healthy, false alarms 0.86 %."""
    found = sprt_characteristic(0.9, 0.85, 0.01, 0.01, 1319, 0.9)
    assert found.expected_n == pytest.approx(414.76, abs=0.01)
    assert found.p_fail == pytest.approx(0.0086, abs=5e-5)


def test_drawing_without_replacement_is_the_mean_over_all_orders() -> None:
    """By enumerating all orders of six fixed answers: the same error rates and mean length."""
    size, healthy, dropped = 6, 5, 2
    bounds = wald_boundaries(0.2, 0.2)
    for true in range(size + 1):
        orders = sorted(set(permutations([1] * true + [0] * (size - true))))
        ends = [_wor_end(order, healthy, dropped, bounds.log_a, bounds.log_b) for order in orders]
        found = wor_sprt_characteristic(size, healthy, dropped, 0.2, 0.2, true)
        fails = sum(verdict == "FAIL" for verdict, _ in ends) / len(ends)
        assert found.p_fail == pytest.approx(fails, abs=1e-12)
        assert found.expected_n == pytest.approx(sum(t for _, t in ends) / len(ends), rel=1e-12)
        assert found.p_inconclusive == 0.0


def _wor_end(order: tuple[int, ...], healthy: int, dropped: int, log_a: float, log_b: float) -> tuple[str, int]:
    size = len(order)
    for t in range(1, size + 1):
        s = sum(order[:t])
        one = comb(size - t, dropped - s) / comb(size, dropped) if dropped >= s else 0.0
        other = comb(size - t, healthy - s) / comb(size, healthy) if healthy >= s else 0.0
        if other == 0.0 or (one > 0.0 and log(one / other) >= log_a - 1e-12):
            return "FAIL", t
        if one == 0.0 or log(one / other) <= log_b + 1e-12:
            return "PASS", t
    return "INCONCLUSIVE", size


STREAMS = st.integers(1, 60).flatmap(
    lambda n: st.tuples(st.lists(st.integers(0, 1), min_size=n, max_size=n), st.integers(1, n), st.randoms())
)


@settings(deadline=None)
@given(STREAMS)
def test_a_stop_means_that_some_true_prefix_crossed(stream: tuple[list[int], int, object]) -> None:
    """Both rules declare only what some prefix in dispatch order also declares, in any completion order."""
    outcomes, concurrency, chooser = stream
    order = _completion_order(len(outcomes), concurrency, chooser)
    steps, bounds = llr_steps(0.9, 0.6), ville_boundaries(0.1, 0.1)
    prefixes = {bounds.outcome(steps.total(s := sum(outcomes[:t]), t - s)) for t in range(1, len(outcomes) + 1)}
    stops = stream_stops(0.9, 0.6, 0.1, 0.1, concurrency, outcomes, order)
    for stop in (stops.in_order, stops.worst_case, stops.combined):
        assert stop.outcome is Outcome.INCONCLUSIVE or stop.outcome in prefixes


def _completion_order(n: int, concurrency: int, chooser: object) -> list[int]:
    flying, waiting, order = list(range(min(concurrency, n))), list(range(concurrency, n)), []
    while flying:
        order.append(flying.pop(chooser.randrange(len(flying))))  # type: ignore[attr-defined] # a Random
        if waiting:
            flying.append(waiting.pop(0))
    return order


def test_a_dead_kernel_is_seen_out_of_order() -> None:
    """All wrong, the first question slowest of all: the worst case fails long before the prefix can."""
    n = 40
    order = [*range(1, n), 0]
    stops = stream_stops(0.9, 0.8, 0.01, 0.01, 4, [0] * n, order)
    assert stops.in_order.completions == n
    assert stops.worst_case.completions == stops.combined.completions < 12
    assert stops.combined.outcome is Outcome.FAIL
    assert stops.worst_case.consumed == stops.worst_case.completions - 1 + 4, "a slot refills after the look"


def test_error_rates_hold_in_simulation() -> None:
    """Simulated healthy runs under Ville's boundaries fail no more often than alpha."""
    rng = np.random.default_rng(7)
    steps, bounds = llr_steps(0.9, 0.8), ville_boundaries(0.05, 0.05)
    right = rng.random((4000, 300)) < 0.9
    walks = np.cumsum(np.where(right, steps.correct, steps.wrong), axis=1)
    assert (walks.max(axis=1) >= bounds.log_a).mean() <= 0.05


def test_impossible_designs_are_refused() -> None:
    """Equal accuracies, rates of 0 and counts out of order are refused."""
    for call in (
        lambda: llr_steps(0.9, 0.9),
        lambda: wald_boundaries(0.0, 0.1),
        lambda: wor_sprt_characteristic(10, 5, 6, 0.1, 0.1, 5),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
