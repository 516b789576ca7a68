"""The table of thresholds against the rule it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.stats.flips import moderated_t
from gatekit.stats.series import moderated_t_thresholds


@pytest.mark.parametrize("dtype", [np.int16, np.int64, np.uint16])
@pytest.mark.parametrize(("alpha", "phi0", "nu0"), [(1.372e-4, 0.2, 4), (0.05, 0.13, 3.9), (0.7, 0.0, 1)])
def test_every_cell_is_the_rule_itself(dtype: type[np.integer], alpha: float, phi0: float, nu0: float) -> None:
    """Sampled cells, in several blocks of a table and at its edges, equal `moderated_t` on the row up to there."""
    rng = np.random.default_rng(1)
    counts = rng.binomial(1319, rng.uniform(0.5, 1, (400, 1)), size=(400, 120)).astype(dtype)
    found = moderated_t_thresholds(counts, 1319, alpha, phi0, nu0)
    cells = [
        (0, 0),
        (399, 119),
        (199, 0),
        (200, 119),
        *zip(rng.integers(0, 400, 150), rng.integers(0, 120, 150), strict=True),
    ]
    for i, j in cells:
        assert found[i, j] == moderated_t(1319, counts[i, : j + 1].tolist(), alpha, phi0, nu0).k_pass


@settings(max_examples=60)
@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1, max_size=12)))
)
def test_small_counts_agree_at_their_ties(case: tuple[int, list[int]]) -> None:
    """All right, all wrong, equal runs and means on one half give the count of the rule, also at t = 0."""
    n, counts = case
    for alpha in (0.5, 0.01):
        found = moderated_t_thresholds(np.array([counts]), n, alpha, 0.2, 4)[0]
        assert found.tolist() == [moderated_t(n, counts[: j + 1], alpha, 0.2, 4).k_pass for j in range(len(counts))]


def test_a_night_depends_on_earlier_nights_alone() -> None:
    """Changing the last night changes the last threshold and no earlier one."""
    counts = np.random.default_rng(2).binomial(1319, 0.9, (3, 30))
    changed = counts.copy()
    changed[:, -1] -= 100
    before, after = (moderated_t_thresholds(c, 1319, 0.001, 0.2, 4) for c in (counts, changed))
    assert np.array_equal(before[:, :-1], after[:, :-1])
    assert np.all(before[:, -1] > after[:, -1])


def test_an_empty_table_has_no_thresholds() -> None:
    """No series or no nights give an empty table of the same shape."""
    for shape in ((0, 5), (5, 0)):
        assert moderated_t_thresholds(np.empty(shape, dtype=np.int64), 200, 0.01, 0.2, 4).shape == shape


def test_a_margin_beyond_any_count_is_bounded() -> None:
    """An alpha so small that the threshold leaves the integers ends at their edge, not at a wrapped number."""
    assert moderated_t_thresholds(np.array([[1000]]), 1319, 1e-300, 0.2, 4)[0, 0] == -(2**31)


@pytest.mark.parametrize(
    ("counts", "n", "alpha"),
    [
        (np.array([[1.0]]), 9, 0.1),
        (np.array([1]), 9, 0.1),
        (np.array([[10]]), 9, 0.1),
        (np.array([[-1]]), 9, 0.1),
        (np.array([[1, 1]]), 10**8, 0.1),
        (np.array([[1]]), 9, 1.0),
    ],
)
def test_tables_that_make_no_sense_are_refused(
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]], n: int, alpha: float
) -> None:
    """Floats, a single row, counts outside 0..n, sums that would round, and alpha = 1 are refused."""
    with pytest.raises(ValueError, match=r"table of integers|counts lie in|moderated t needs"):
        moderated_t_thresholds(counts, n, alpha, 0.2, 4)
