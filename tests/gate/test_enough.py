"""How many questions a verdict takes."""

from __future__ import annotations

from math import ceil, log

import pytest

from gatekit.gate.enough import enough, n_to_decide, n_to_fail, n_to_pass
from gatekit.records.spec import Gate, Method, Observed


def floor(value: float, **fields: float) -> Gate:
    """A static floor."""
    return Gate(name="g", method=Method.STATIC_FLOOR, floor=value, **fields)  # type: ignore[arg-type]  # floats


@pytest.mark.parametrize("value", [0.7, 0.84, 0.9, 0.95, 0.96])
def test_a_floor_needs_the_questions_its_margin_takes(value: float) -> None:
    """PASS needs (floor - 0.05)^n <= 0.1, FAIL (1 - floor)^n <= 0.001: the first such n, none before."""
    to_pass, to_fail = ceil(log(0.1) / log(value - 0.05)), ceil(log(0.001) / log(1 - value) - 1e-9)
    assert (n_to_pass(floor(value)), n_to_fail(floor(value))) == (max(to_pass, to_fail), to_fail)
    assert enough(floor(value), max(to_pass, to_fail)).can_pass
    assert not enough(floor(value), to_pass - 1).can_pass
    assert not enough(floor(value), to_fail - 1).can_fail


def test_a_vacuous_gate_is_never_enough() -> None:
    """A floor of 0 supports no verdict at any n."""
    assert (n_to_pass(floor(0.0)), n_to_fail(floor(0.0))) == (None, None)


def test_an_exact_gate_needs_both_counts_within_n() -> None:
    """With p0 = 0.9, delta 5 points, beta 10 %, a perfect score must exclude 0.85: 15 questions."""
    gate = Gate(name="g", method=Method.EXACT_BINOMIAL, observed=Observed(correct=180, n=200), alpha=0.01, delta=0.05)
    assert n_to_pass(gate) == 15
    assert n_to_fail(gate) == 3
    assert n_to_decide(gate, 200, 0.001) == 810
    assert n_to_decide(gate, 200, None) is None
