"""The runs of a series over time: a chart with the thresholds as they were then, and what it shows in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import wrap

from gatekit.records.canonical import Plain
from gatekit.records.verdict import Outcome
from gatekit.report.chart import ASCII, UNICODE, Bar, Drawn, Glyphs, draw, marks_below, room, scale_of
from gatekit.report.comparison import Difference, differences
from gatekit.report.escape import escape_terminal

_NAMES = 3
_NAME_CHARACTERS = 60
_VALUE_CHARACTERS = 24
_REASON_CHARACTERS = 300
_DATE, _MOMENT = 10, 19
_NARROWEST = 20
_FAR = 0.2

SUPERSEDED, QUARANTINED, RESTARTED = "s", "q", "R"
_MARKS = {Outcome.FAIL: "F", Outcome.INFRA: "!", Outcome.INCONCLUSIVE: "?"}
_MEANINGS = {
    "F": "FAIL",
    "!": "INFRA",
    QUARANTINED: "quarantined",
    "?": "INCONCLUSIVE",
    SUPERSEDED: "superseded by a new scoring",
}
_GRAVEST_FIRST = "".join(_MEANINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run of a series. `missing` answers were lost or not asked for; n is 0 where nothing was planned.

    `k_reject` is that of the rule of its verdict, None where it had none or its record is not at hand;
    `is_about` says that a p-value decided and the count is what it came to.
    """

    run_id: str
    finished_at: str
    spec: str
    hardware: str
    build: str | None
    outcome: Outcome
    n: int
    correct: int
    missing: int
    k_reject: int | None = None
    is_about: bool = False
    is_quarantined: bool = False
    is_superseded: bool = False
    is_simulated: bool = False

    @property
    def low(self) -> float | None:
        """The accuracy if every missing answer were wrong; None where no question was answered."""
        return self.correct / self.n if self.missing < self.n else None

    @property
    def high(self) -> float | None:
        """The accuracy if every missing answer were right; None where no question was answered."""
        return (self.correct + self.missing) / self.n if self.missing < self.n else None

    @property
    def counts(self) -> bool:
        """Whether it is one of the series' accuracies: whole, neither quarantined nor superseded."""
        return self.n > 0 and self.missing == 0 and not self.is_quarantined and not self.is_superseded

    @property
    def mark(self) -> str:
        """Its letter in the chart; empty for a PASS that counts."""
        if self.is_superseded:
            return SUPERSEDED
        return QUARANTINED if self.is_quarantined else _MARKS.get(self.outcome, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A rebaseline: the norm starts anew with the run at place `before` of the shown ones."""

    before: int
    made_at: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The runs of one comparability key in the order of their arrival.

    `fields` is what the key is made of and `previous` that of the model's series before it, None for the first.
    `older` runs are not among the points. `drift` is what a control chart says of it in a sentence, None where
    none was made.
    """

    key: str
    model: str
    fields: Mapping[str, Plain]
    previous: Mapping[str, Plain] | None
    points: tuple[Point, ...]
    older: int = 0
    restarts: tuple[Restart, ...] = ()
    drift: str | None = None


def trend_text(series: Sequence[Series], *, width: int, is_unicode: bool) -> str:
    """One chart per series, every line at most `width` characters, but never less than twenty."""
    width = max(_NARROWEST, width)
    return "\n".join("\n".join([*_one(one, width, UNICODE if is_unicode else ASCII), ""]) for one in series)


def accuracies(series: Series) -> tuple[float, ...]:
    """Those of the runs that count, oldest first."""
    return tuple(point.correct / point.n for point in series.points if point.counts)


def changes(series: Series) -> tuple[Difference, ...]:
    """What distinguishes the series from the one before it; empty for the first one."""
    return () if series.previous is None else differences(series.previous, series.fields)


def _one(series: Series, width: int, glyphs: Glyphs) -> Iterator[str]:
    for text in _title(series):
        yield from wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    yield ""
    texts = [*_figures(series)]
    if any(point.low is not None for point in series.points):
        drawn, per_slot = _drawn(series, width, glyphs)
        yield from drawn.lines
        yield from _events(series, drawn, per_slot)
        yield from _dates(series, drawn, width)
        yield ""
        texts = [*_reading(series, drawn, per_slot, glyphs), *_off_chart(series, drawn), *texts]
    for text in texts:
        yield from wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def _title(series: Series) -> Iterator[str]:
    points = series.points
    specs, machines = (_names(values) for values in ([p.spec for p in points], [p.hardware for p in points]))
    simulated = " (simulated)" if any(point.is_simulated for point in points) else ""
    model = escape_terminal(series.model, _NAME_CHARACTERS)
    yield f"{specs}: {model} on {machines}{simulated}, {_number(len(points), 'run')}, key {series.key[:19]}"
    if series.older:
        yield f"{_number(series.older, 'older run')} not shown (--limit)"
    if series.previous is not None:
        found = ", ".join(map(_change, changes(series))) or "in no field"
        yield f"not comparable with the series before: {found}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _names(values: Sequence[str]) -> str:
    """The distinct ones, the newest last."""
    distinct = list(dict.fromkeys(values))
    shown = [escape_terminal(value, _NAME_CHARACTERS) for value in distinct[-_NAMES:]]
    return ", ".join((["..."] if len(distinct) > _NAMES else []) + shown)


def _change(difference: Difference) -> str:
    name = escape_terminal(difference.name, _NAME_CHARACTERS)
    old, new = difference.before, difference.after
    if difference.absent is not None:
        return f"{name} is {'new' if difference.absent == 'before' else 'gone'}"
    if str(old).startswith("sha256:") and str(new).startswith("sha256:"):
        return f"another {name}"
    return f"{name} {_value(old)} -> {_value(new)}"


def _value(plain: Plain) -> str:
    return escape_terminal(str(plain), _VALUE_CHARACTERS)


def _drawn(series: Series, width: int, glyphs: Glyphs) -> tuple[Drawn, int]:
    """The chart, and how many runs share a slot of it."""
    points = series.points
    n = max((point.n for point in points), default=0) or 1
    found = accuracies(series)
    middle = median(found) if found else None
    per_slot = 1
    while True:
        groups = [points[start : start + per_slot] for start in range(0, len(points), per_slot)]
        bars = [_bar(group, middle, glyphs) for group in groups]
        # A restart may stand behind the last run. The scale, and so the room, depends on the groups.
        slots = max(1, room(width, scale_of(bars, n)) - bool(series.restarts))
        if len(bars) <= slots:
            return draw(bars, n=n, width=width, glyphs=glyphs), per_slot
        per_slot = max(per_slot + 1, -(-len(points) // slots))


def _bar(points: Sequence[Point], middle: float | None, glyphs: Glyphs) -> Bar:
    """From the lowest to the highest accuracy of its whole runs, with the mark of the gravest of all.

    Without whole runs: the range of those with missing answers, all of them wrong to all right. Such ranges, and
    runs far from the `middle` of the series, do not stretch the scale.
    """
    whole = [point for point in points if point.n > 0 and point.missing == 0]
    known = whole or [point for point in points if point.low is not None]
    worst = min(points, key=_gravity)
    low = min((point.low for point in known if point.low is not None), default=None)
    return Bar(
        low=low,
        high=max((point.high for point in known if point.high is not None), default=None),
        at=worst.low if worst in known else low,
        mark=worst.mark or glyphs.point,
        thresholds=tuple(sorted({p.k_reject / p.n for p in points if p.k_reject is not None and p.n > 0})),
        is_open=not whole or (middle is not None and any(abs(p.correct / p.n - middle) > _FAR for p in whole)),
    )


def _gravity(point: Point) -> tuple[int, float]:
    rank = _GRAVEST_FIRST.index(point.mark) if point.mark else len(_GRAVEST_FIRST)
    return rank, -1.0 if point.low is None else point.low


def _events(series: Series, drawn: Drawn, per_slot: int) -> Iterator[str]:
    if series.restarts:
        columns = [_column(restart, drawn, per_slot) for restart in series.restarts]
        yield marks_below(dict.fromkeys(columns, RESTARTED), drawn)


def _column(restart: Restart, drawn: Drawn, per_slot: int) -> int:
    index = restart.before // per_slot
    return drawn.slots[index] if index < len(drawn.slots) else max(drawn.slots, default=-1) + 1


def _dates(series: Series, drawn: Drawn, width: int) -> Iterator[str]:
    if not series.points:
        return
    ends = [escape_terminal(point.finished_at[:_DATE]) for point in (series.points[0], series.points[-1])]
    first, last = ends
    right_end = drawn.margin + max(drawn.slots) + 1
    if first == last:
        yield " " * min(drawn.margin, max(0, width - len(first))) + first
    elif right_end - drawn.margin >= len(first) + len(last) + 1:
        yield " " * drawn.margin + first + last.rjust(right_end - drawn.margin - len(first))
    else:
        both = f"{first} to {last}"
        indent = " " * min(drawn.margin, max(0, width - len(both)))
        yield from wrap(both, width, initial_indent=indent)


def _reading(series: Series, drawn: Drawn, per_slot: int, glyphs: Glyphs) -> Iterator[str]:
    """How to read the chart: its scale, its marks, and what a slot is."""
    scale = drawn.scale
    step = f"{scale.step:.{scale.digits}f} point" + ("" if scale.step == 1 else "s")
    start = f"{scale.label(scale.lines - 1)}, not at 0" if scale.bottom > 0 else "0"
    yield f"accuracy of each run in the order of arrival, one line is {step}; the axis starts at {start}"
    if per_slot > 1:
        yield f"a column holds up to {per_slot} runs: {glyphs.span} lowest to highest, marked for the gravest of them"
    marks = {point.mark for point in series.points}
    parts = [f"{glyphs.point} PASS"] if "" in marks else []
    parts += [f"{mark} {meaning}" for mark, meaning in _MEANINGS.items() if mark in marks]
    if any(point.k_reject is not None for point in series.points):
        parts.append(f"{glyphs.threshold} FAIL below, as it was then")
    if any(point.missing and point.low is not None for point in series.points):
        parts.append(f"{glyphs.span} missing answers all wrong to all right")
    if any(point.low is None for point in series.points):
        parts.append("on the axis: no accuracy at all")
    yield ", ".join(parts)
    moments = [point.finished_at[:_MOMENT] for point in series.points]
    if moments != sorted(moments):
        yield "some runs arrived after later ones (an import, or a wrong clock): the dates are not in order"


def _off_chart(series: Series, drawn: Drawn) -> Iterator[str]:
    """What the scale leaves out: whole runs that were far from the others, and the last threshold."""
    lines = range(drawn.scale.lines)
    off = [p for p in series.points if p.n > 0 and p.missing == 0 and drawn.scale.row(p.correct / p.n) not in lines]
    if off:
        named = [f"{point.run_id} {100 * point.correct / point.n:.2f} %" for point in off[-_NAMES:]]
        yield f"off the chart ({_number(len(off), 'run')}): {', '.join((['...'] if len(off) > _NAMES else []) + named)}"
    last = _last_threshold(series)
    if last is not None and last.k_reject is not None:
        row = drawn.scale.row(last.k_reject / last.n)
        if row not in lines:
            yield f"the last threshold is {'above' if row < 0 else 'below'} the chart"


def _last_threshold(series: Series) -> Point | None:
    return next((p for p in reversed(series.points) if p.k_reject is not None and p.n > 0), None)


def _figures(series: Series) -> Iterator[str]:
    found = accuracies(series)
    if found:
        names = ("lowest", "median", "last")
        figures = zip(names, (min(found), median(found), found[-1]), strict=True)
        values = ", ".join(f"{name} {100 * value:.2f} %" for name, value in figures)
        yield f"{_number(len(found), 'whole run')}: {values}"
    else:
        yield "no whole run: there is no accuracy to speak of"
    left_out = Counter(_why_not(point) for point in series.points if not point.counts)
    if left_out:
        yield "not among them: " + ", ".join(f"{number} {why}" for why, number in left_out.items())
    yield _threshold(series)
    for restart in series.restarts:
        yield _restart(series, restart)
    if series.drift is not None:
        yield escape_terminal(series.drift, _REASON_CHARACTERS)


def _why_not(point: Point) -> str:
    if point.is_superseded:
        return "superseded"
    if point.is_quarantined:
        return "quarantined"
    return "without any answer" if point.low is None else "with missing answers"


def _threshold(series: Series) -> str:
    last = _last_threshold(series)
    if last is None or last.k_reject is None:
        return "no threshold is on record"
    about = "about " if last.is_about else ""
    run = "" if last is series.points[-1] else f" (run {last.run_id})"
    return f"last threshold: FAIL below {about}{last.k_reject} of {last.n}, {100 * last.k_reject / last.n:.2f} %{run}"


def _restart(series: Series, restart: Restart) -> str:
    is_last = restart.before >= len(series.points)
    where = "after the last run" if is_last else f"before run {series.points[restart.before].run_id}"
    reason = escape_terminal(restart.reason, _REASON_CHARACTERS)
    return f"{RESTARTED} {escape_terminal(restart.made_at[:_DATE])}: the norm starts anew {where}: {reason}"
