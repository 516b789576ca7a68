"""What a typed number means."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.stats.exact import exact, exact_probability


@given(st.integers(0, 10**9), st.integers(0, 12))
def test_a_float_means_the_decimal_that_was_typed(digits: int, places: int) -> None:
    """A decimal read from a file as a float comes back as that decimal, not as its binary neighbour."""
    text = f"{digits}e-{places}"
    assert exact(float(text)) == Fraction(text)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(number: float) -> None:
    """NaN and infinity have no exact value and are refused."""
    with pytest.raises(ValueError, match=r"nan|inf"):
        exact(number)


@pytest.mark.parametrize("number", [-0.1, 1.7])
def test_a_probability_outside_its_range_is_named(number: float) -> None:
    """A probability outside [0, 1] is refused with its name."""
    with pytest.raises(ValueError, match="alpha must be between 0 and 1"):
        exact_probability(number, "alpha")
