"""The next count as predicted: its laws, and agreement with the thresholds it is made of."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.stats.flips import moderated_t
from gatekit.stats.next_count import (
    NextCount,
    accept_from,
    binomial_variance,
    count_tail,
    noticed_loss,
    reject_below,
    widened,
)

PREDICTED = st.builds(
    NextCount,
    mean=st.integers(0, 4000).map(lambda quarters: quarters / 4),
    sd=st.floats(0.1, 40),
    df=st.one_of(st.floats(1, 200), st.just(inf)),
)
LEVEL = st.floats(1e-6, 0.45)


@given(predicted=PREDICTED, alpha=LEVEL)
def test_the_count_and_the_p_value_say_the_same(predicted: NextCount, alpha: float) -> None:
    """A count is below the threshold if and only if its p-value is at most alpha, but for rounding at a tie."""
    k = reject_below(predicted, alpha)
    if k > 0:
        assert count_tail(predicted, k - 1) <= alpha * (1 + 1e-9)
        assert count_tail(predicted, k) > alpha * (1 - 1e-9)


@given(predicted=PREDICTED, alpha=LEVEL, beta=LEVEL, lost=st.integers(0, 200))
def test_more_margin_moves_the_counts_apart(predicted: NextCount, alpha: float, beta: float, lost: int) -> None:
    """A larger drop to exclude asks for less; a wider spread rejects less and asks for more."""
    wider = NextCount(mean=predicted.mean, sd=predicted.sd + 1, df=predicted.df)
    assert accept_from(predicted, lost + 1, beta) == accept_from(predicted, lost, beta) - 1
    assert reject_below(wider, alpha) <= reject_below(predicted, alpha)
    assert accept_from(wider, lost, beta) >= accept_from(predicted, lost, beta)


@given(totals=st.lists(st.integers(150, 199), min_size=1, max_size=9), alpha=LEVEL)
def test_it_is_the_count_of_the_moderated_t(totals: list[int], alpha: float) -> None:
    """With the moderated spread the threshold is that of `moderated_t`."""
    found = moderated_t(200, totals, alpha, 0.2, 4)
    mean, k = sum(totals) / len(totals), len(totals)
    sd = (found.phi_moderated * float(binomial_variance(mean, 200)) * (1 + 1 / k)) ** 0.5
    assert abs(reject_below(NextCount(mean=mean, sd=sd, df=found.df), alpha) - max(0, found.k_pass)) <= 1


def test_a_noticed_loss_is_noticed() -> None:
    """After a loss of that size the threshold is missed in the stated share of runs; None where none does."""
    predicted = NextCount(mean=900.0, sd=5.0, df=inf)
    loss = noticed_loss(predicted, 880, 0.9)
    assert loss is not None
    assert count_tail(NextCount(mean=900 - loss, sd=5.0, df=inf), 879) == pytest.approx(0.9)
    assert noticed_loss(predicted, 0, 0.9) is None
    assert noticed_loss(NextCount(mean=3.0, sd=5.0, df=inf), 1, 0.9) is None


def test_no_spread_is_widened_to_one_standard_deviation() -> None:
    """Without any spread the margin is the binomial standard deviation; a wide one stays as it is."""
    bare = NextCount(mean=90.0, sd=0.0, df=4.0)
    assert reject_below(widened(bare, 9, 0.001), 0.001) == 87
    wide = NextCount(mean=90.0, sd=30.0, df=4.0)
    assert widened(wide, 9, 0.001) == wide
    assert widened(bare, 9, 0.5) == bare


@given(predicted=PREDICTED, v=st.floats(0.1, 300), alpha=st.floats(1e-6, 0.45))
def test_a_widened_margin_is_one_standard_deviation_after_rounding(
    predicted: NextCount, v: float, alpha: float
) -> None:
    """The count lies a binomial standard deviation under the mean at least, rounding included, or at 0."""
    k = reject_below(widened(predicted, v, alpha), alpha)
    assert k == 0 or predicted.mean - k >= v**0.5 - 1e-9


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_quantile_needs_a_level_inside(level: float) -> None:
    """0 and 1 have no quantile."""
    with pytest.raises(ValueError, match="inside"):
        reject_below(NextCount(mean=1.0, sd=1.0, df=1.0), level)


def test_impossible_totals_are_refused() -> None:
    """A total above n is no count."""
    with pytest.raises(ValueError, match="no count"):
        binomial_variance(3, 2)
