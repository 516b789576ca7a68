"""A chart of shares over time in characters: every line of it is labelled with the value that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

# Values of one line in percentage points, so that labels are exact.
_STEPS = (*(round(lead * 10.0**power, 4) for power in range(-4, 2) for lead in (1, 2, 5)), 100.0)
_MOST_LINES = 12
_FEWEST_LINES = 5
_WIDEST_SLOT = 4
_FAR_THRESHOLD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a chart; `point` stands for what needs no other mark."""

    point: str
    threshold: str
    span: str
    tick: str
    corner: str
    base: str
    up: str
    down: str


UNICODE = Glyphs(point="●", threshold="╌", span="┆", tick="┤", corner="└", base="─", up="▲", down="▼")
ASCII = Glyphs(point="o", threshold="-", span=":", tick="|", corner="+", base="_", up="^", down="v")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One slot of the chart: shares from `low` to `high` with a mark at `at`, and the thresholds that held.

    All three are None where nothing is known; the mark stands below the axis then. An `is_open` bar is a range
    that may leave the scale instead of stretching it.
    """

    low: float | None
    high: float | None
    at: float | None
    mark: str
    thresholds: tuple[float, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The lines of a chart: `lines` of them, `step` percentage points apart, the highest at `top` per cent."""

    top: float
    step: float
    lines: int

    @property
    def bottom(self) -> float:
        """The value of the lowest line, in per cent."""
        return self.top - (self.lines - 1) * self.step

    def row(self, share: float) -> int:
        """The nearest line to a share, 0 the highest; outside 0 .. lines - 1 where it leaves the scale."""
        return floor((self.top - 100 * share) / self.step + 0.5)

    def label(self, row: int) -> str:
        """The value of a line, in per cent, with the digits that its step needs."""
        return f"{self.top - row * self.step:.{self.digits}f} %"

    @property
    def digits(self) -> int:
        """Decimals that tell two lines apart."""
        text = f"{self.step:.4f}".rstrip("0")
        return len(text) - text.index(".") - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart: its lines of text, its scale, and where it starts to the right of the labels."""

    lines: tuple[str, ...]
    scale: Scale
    margin: int
    slots: tuple[int, ...]


def scale_of(bars: Sequence[Bar], n: int) -> Scale:
    """The finest scale of at most twelve lines that holds every bar; a line is never less than one of n questions.

    Thresholds more than ten points away from all bars do not stretch it.
    """
    firm = [bar for bar in bars if not bar.is_open and bar.low is not None] or list(bars)
    shares = [share for bar in firm for share in (bar.low, bar.high) if share is not None]
    low, high = min(shares, default=0.0), max(shares, default=1.0)
    near = [t for bar in bars for t in bar.thresholds if low - _FAR_THRESHOLD <= t <= high + _FAR_THRESHOLD]
    low, high = 100 * min([low, *near]), 100 * max([high, *near])
    step = next((step for step in _STEPS if step * n >= 100 and _lines(low, high, step) <= _MOST_LINES), _STEPS[-1])
    return _padded(low, high, step)


def _lines(low: float, high: float, step: float) -> int:
    return ceil(round(high / step, 6)) - floor(round(low / step, 6)) + 1


def _padded(low: float, high: float, step: float) -> Scale:
    first, last = floor(round(low / step, 6)), ceil(round(high / step, 6))
    most = ceil(100 / step)
    while last - first + 1 < min(_FEWEST_LINES, most + 1):
        first, last = max(0, first - 1), min(most, last + 1)
    return Scale(top=last * step, step=step, lines=last - first + 1)


def room(width: int, scale: Scale) -> int:
    """How many slots a chart of `width` characters has."""
    return max(1, width - _margin(scale))


def _margin(scale: Scale) -> int:
    return max(len(scale.label(row)) for row in range(scale.lines)) + len(" ┤ ")


def draw(bars: Sequence[Bar], *, n: int, width: int, glyphs: Glyphs) -> Drawn:
    """The bars from left to right, evenly spaced, on the scale of `scale_of`; at most `width` characters wide.

    Valid for at most `room` bars; more are an error. A bar that leaves the scale ends in an arrow.
    """
    scale = scale_of(bars, n)
    columns = room(width, scale)
    if len(bars) > columns:
        raise ValueError(f"{len(bars)} bars do not fit into {columns} columns")
    slot = max(1, min(_WIDEST_SLOT, columns // max(1, len(bars))))
    canvas = [[" "] * columns for _ in range(scale.lines + 1)]
    for index, bar in enumerate(bars):
        _draw_bar(canvas, bar, index * slot, slot, scale, glyphs)
    margin = _margin(scale)
    lines = [f"{scale.label(row):>{margin - 3}} {glyphs.tick} {''.join(canvas[row])}" for row in range(scale.lines)]
    below = "".join(glyphs.base if cell == " " else cell for cell in canvas[-1])
    lines.append(f"{'':{margin - 2}}{glyphs.corner}{glyphs.base}{below}")
    slots = tuple(index * slot for index in range(len(bars)))
    return Drawn(lines=tuple(line.rstrip() for line in lines), scale=scale, margin=margin, slots=slots)


def _draw_bar(canvas: list[list[str]], bar: Bar, column: int, slot: int, scale: Scale, glyphs: Glyphs) -> None:
    for threshold in bar.thresholds:
        row = scale.row(threshold)
        if 0 <= row < scale.lines:
            for shift in range(slot):
                if column + shift < len(canvas[row]):
                    canvas[row][column + shift] = glyphs.threshold
    if bar.low is None or bar.high is None or bar.at is None:
        canvas[-1][column] = bar.mark
        return
    cells = _cells(bar.low, bar.high, scale, glyphs)
    at = min(max(scale.row(bar.at), 0), scale.lines - 1)
    cells.setdefault(at, bar.mark)
    if cells[at] == glyphs.span:
        cells[at] = bar.mark
    elif cells[at] != bar.mark:  # an arrow stands there: the mark goes below the axis
        canvas[-1][column] = bar.mark
    for row, cell in cells.items():
        canvas[row][column] = cell


def _cells(low: float, high: float, scale: Scale, glyphs: Glyphs) -> dict[int, str]:
    """What a range fills, by line: spans inside the scale, an arrow on the last line where it goes on."""
    first, last = scale.row(high), scale.row(low)
    cells: dict[int, str] = dict.fromkeys(range(max(0, first), min(scale.lines - 1, last) + 1), glyphs.span)
    if first < 0:
        cells[0] = glyphs.up
    if last >= scale.lines:
        cells[scale.lines - 1] = glyphs.down
    return cells


def marks_below(marks: Mapping[int, str], drawn: Drawn) -> str:
    """A line of marks under a chart, at its columns."""
    last = max(marks, default=-1)
    text = "".join(marks.get(column, " ") for column in range(last + 1))
    return f"{'':{drawn.margin}}{text}".rstrip()
