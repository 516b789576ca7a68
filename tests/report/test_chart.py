"""Charts in characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.report.chart import ASCII, UNICODE, Bar, draw, room, scale_of


def bar(share: float | None, *thresholds: float, mark: str = "o") -> Bar:
    """A run whose accuracy is known, or (None) one without any answer."""
    return Bar(low=share, high=share, at=share, mark=mark, thresholds=thresholds)


def test_every_line_is_labelled_with_its_value() -> None:
    """A mark stands on the line whose label is nearest to its value, the threshold on its own."""
    drawn = draw([bar(0.95, 0.92), bar(0.934, 0.92, mark="F")], n=1000, width=20, glyphs=ASCII)
    assert drawn.lines == (
        "95.0 % | o",
        "94.5 % |",
        "94.0 % |",
        "93.5 % |     F",
        "93.0 % |",
        "92.5 % |",
        "92.0 % | --------",
        "       +____________",
    )


def test_an_unknown_accuracy_stands_on_the_axis() -> None:
    """A run without answers has no place on the scale, and is not left out."""
    drawn = draw([bar(0.95), bar(None, mark="!")], n=1000, width=40, glyphs=ASCII)
    assert drawn.lines[-1].startswith("       +_____!__")
    assert not any("!" in line for line in drawn.lines[:-1])


def test_a_range_that_leaves_the_scale_ends_in_an_arrow() -> None:
    """Missing answers do not squeeze the other runs; where their range goes on, the chart says so."""
    wide = Bar(low=0.2, high=0.955, at=0.2, mark="!", is_open=True)
    drawn = draw([bar(0.95), bar(0.96), wide], n=1000, width=40, glyphs=ASCII)
    assert drawn.scale.bottom > 90
    column = "".join(line[drawn.margin + drawn.slots[2] :][:1] for line in drawn.lines)
    assert column.strip() == ":::::v!"


def test_a_far_threshold_does_not_squeeze_the_runs() -> None:
    """A floor at one half leaves runs at 95 % apart; one that is near is part of the scale."""
    assert scale_of([bar(0.95, 0.5), bar(0.951, 0.5)], 1000).bottom > 90
    assert scale_of([bar(0.95, 0.9)], 1000).bottom <= 90


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_scale_ends_at_nothing_and_at_everything(share: float) -> None:
    """No line is labelled below 0 % or above 100 %."""
    scale = scale_of([bar(share)] * 3, 1319)
    assert scale.bottom >= 0
    assert scale.top <= 100
    assert 0 <= scale.row(share) < scale.lines


def test_identical_runs_have_a_scale() -> None:
    """Equal accuracies stand on one line among others, in steps of no less than one question."""
    drawn = draw([bar(0.95)] * 5, n=40, width=60, glyphs=UNICODE)
    assert drawn.scale.step >= 100 / 40
    assert sum("●" in line or "o" in line for line in drawn.lines) == 1
    assert len(drawn.lines) > 4


def test_too_many_bars_are_refused() -> None:
    """Bars are never dropped in silence."""
    with pytest.raises(ValueError, match="do not fit"):
        draw([bar(0.5)] * 100, n=10, width=40, glyphs=ASCII)


@given(
    counts=st.lists(st.integers(0, 1319), min_size=1, max_size=60),
    thresholds=st.lists(st.integers(0, 1319), max_size=3),
    width=st.integers(20, 200),
)
def test_nothing_is_lost_or_too_wide(counts: list[int], thresholds: list[int], width: int) -> None:
    """For all runs and widths every run is on the line nearest to it, and no line is wider than asked for."""
    bars = [bar(count / 1319, *(t / 1319 for t in thresholds)) for count in counts]
    bars = bars[: width - len("100.0000 % | ")]
    assert len(bars) <= room(width, scale_of(bars, 1319))
    drawn = draw(bars, n=1319, width=width, glyphs=ASCII)
    assert max(map(len, drawn.lines)) <= width
    for one, column in zip(bars, drawn.slots, strict=True):
        assert one.low is not None
        row = drawn.scale.row(one.low)
        assert drawn.lines[row][drawn.margin + column] == "o"
        assert abs(float(drawn.lines[row].split("%")[0]) - 100 * one.low) <= drawn.scale.step / 2 + 1e-9
