"""Multiple gates against scipy.stats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatekit.stats.multiple import bh_adjusted, bh_rejected, e_bh_rejected

P_VALUES = st.lists(st.integers(0, 1000).map(lambda number: number / 1000), min_size=1, max_size=40)


@given(P_VALUES)
def test_adjusted_p_values_agree_with_scipy(p: list[float]) -> None:
    """The adjusted p-values are scipy.stats.false_discovery_control's."""
    assert bh_adjusted(p) == pytest.approx(stats.false_discovery_control(p).tolist(), rel=1e-12)


@given(P_VALUES)
def test_one_over_p_makes_e_bh_the_same_procedure(p: list[float]) -> None:
    """With e = 1/p, e-BH rejects what Benjamini & Hochberg reject (p = 1/1024 steps, exact in floats)."""
    powers = [2.0 ** -round(10 * value) for value in p]
    assert e_bh_rejected([1 / value for value in powers], 0.25) == bh_rejected(powers, 0.25)


def test_nothing_tested_rejects_nothing() -> None:
    """An empty matrix gives empty answers, not an error."""
    assert (bh_adjusted([]), bh_rejected([], 0.05), e_bh_rejected([], 0.05)) == ((), (), ())
