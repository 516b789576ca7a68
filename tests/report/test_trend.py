"""The accuracy of a series over its runs, as text."""

from __future__ import annotations

from typing import Any

import pytest

from gatekit.records.verdict import Outcome
from gatekit.report.trend import Point, Restart, Series, trend_text


def point(number: int, correct: int = 1253, **more: Any) -> Point:
    """A healthy run, one a day."""
    known = {
        "run_id": f"night-{number}",
        "finished_at": f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T03:00:00Z",
        "spec": "tiny",
        "hardware": "b200",
        "build": f"b{number}",
        "outcome": Outcome.PASS,
        "n": 1319,
        "correct": correct,
        "missing": 0,
        "k_reject": 1214,
    }
    return Point(**{**known, **more})


def series(*points: Point, **more: Any) -> Series:
    """A series of one model."""
    known = {"key": "sha256:" + "a" * 64, "model": "org/tiny", "fields": {"n": 1319}, "previous": None}
    return Series(**{**known, "points": points, **more})


def text(one: Series, *, width: int = 80, is_unicode: bool = True) -> str:
    """Its chart."""
    return trend_text([one], width=width, is_unicode=is_unicode)


def test_a_chart_says_what_it_shows() -> None:
    """Names, key, scale, figures and the threshold as it was then are all there."""
    shown = text(series(point(0), point(1, 1240), point(2, 1247, k_reject=1220)))
    assert shown == (
        "tiny: org/tiny on b200, 3 runs, key sha256:aaaaaaaaaaaa\n"
        "\n"
        "95.0 % ┤ ●\n"
        "94.5 % ┤         ●\n"
        "94.0 % ┤     ●\n"
        "93.5 % ┤\n"
        "93.0 % ┤\n"
        "92.5 % ┤         ╌╌╌╌\n"
        "92.0 % ┤ ╌╌╌╌╌╌╌╌\n"
        "       └────────────────────────────────────────────────────────────────────────\n"
        "         2026-01-01 to 2026-01-03\n"
        "\n"
        "accuracy of each run in the order of arrival, one line is 0.5 points; the axis\n"
        "  starts at 92.0 %, not at 0\n"
        "● PASS, ╌ FAIL below, as it was then\n"
        "3 whole runs: lowest 94.01 %, median 94.54 %, last 94.54 %\n"
        "last threshold: FAIL below 1220 of 1319, 92.49 %\n"
    )


def everything() -> Series:
    """A series in which everything happens that can."""
    points = [point(number, 1245 + number % 9) for number in range(20)]
    points[3] = point(3, 1205, outcome=Outcome.FAIL)
    points[5] = point(5, 0, missing=1319, outcome=Outcome.INFRA, k_reject=None)
    points[6] = point(6, 1240, missing=12, outcome=Outcome.INFRA)
    points[8] = point(8, 1250, is_quarantined=True)
    points[9] = point(9, 1240, is_superseded=True)
    points[11] = point(11, 1244, outcome=Outcome.INCONCLUSIVE)
    points[13] = point(13, 409, outcome=Outcome.FAIL)
    points[19] = point(19, 1250, is_about=True)
    return series(
        *points,
        previous={"n": 1319, "protocol.api": "completions", "protocol.shot_template": "sha256:1"},
        fields={"n": 1319, "protocol.api": "chat", "protocol.shot_template": "sha256:2"},
        older=3,
        restarts=(
            Restart(before=10, made_at="2026-01-10T12:00:00Z", reason="new kernels"),
            Restart(before=20, made_at="2026-01-21T12:00:00Z", reason="again"),
        ),
        drift="drift: alarm since run night-9",
    )


@pytest.mark.parametrize(
    "line",
    [
        "3 older runs not shown (--limit)",
        "not comparable with the series before: protocol.api completions -> chat, another protocol.shot_template",
        "F FAIL",
        "! INFRA",
        "? INCONCLUSIVE",
        "q quarantined",
        "s superseded by a new scoring",
        "┆ missing answers all wrong to all right",
        "on the axis: no accuracy at all",
        "off the chart (1 run): night-13 31.01 %",
        "not among them: 1 without any answer, 1 with missing answers, 1 quarantined, 1 superseded",
        "16 whole runs: lowest 31.01 %",
        "last threshold: FAIL below about 1214 of 1319, 92.04 %",
        "R 2026-01-10: the norm starts anew before run night-10: new kernels",
        "R 2026-01-21: the norm starts anew after the last run: again",
        "drift: alarm since run night-9",
    ],
)
def test_nothing_that_happened_is_left_out(line: str) -> None:
    """Every mark, every restart, every run that does not count and every change of the key is put into words."""
    assert line in " ".join(text(everything(), width=300).split())


def test_marks_stand_where_their_runs_are() -> None:
    """Each mark is in the column of its run; a restart is under the first run of the new norm."""
    lines = text(everything(), width=80).splitlines()
    start = next(index for index, line in enumerate(lines) if "┤" in line)
    chart = [line for line in lines[start:] if "┤" in line or "└" in line]
    slot = 3

    def column(number: int) -> str:
        return "".join(line[9 + slot * number :][:1] for line in chart)

    assert [column(number).strip(" ╌─┆▼") for number in (3, 5, 6, 8, 9, 11, 13)] == list("F!!qs?F")
    marks = lines[start + len(chart)]
    assert [place for place, mark in enumerate(marks) if mark == "R"] == [9 + slot * 10, 9 + slot * 19 + 1]


@pytest.mark.parametrize("width", [20, 24, 33, 40, 80, 120, 400])
@pytest.mark.parametrize("is_unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, is_unicode: bool) -> None:
    """Nothing wraps, for one run and for five hundred; without UTF-8 all is ASCII."""
    many = series(*(point(number, 1240 + number * 7 % 19) for number in range(500)))
    for one in (everything(), series(point(0)), many):
        shown = text(one, width=width, is_unicode=is_unicode)
        assert max(map(len, shown.splitlines())) <= width
        assert is_unicode or shown.isascii()


def test_five_hundred_runs_keep_their_worst() -> None:
    """Where runs share a column, a FAIL among them is seen, and the chart says how many there are in one."""
    points = [point(number) for number in range(500)]
    points[250] = point(250, 1200, outcome=Outcome.FAIL)
    shown = text(series(*points))
    assert "a column holds up to 8 runs" in shown
    chart = [line for line in shown.splitlines() if "┤" in line]
    assert sum(line.count("F") for line in chart) == 1
    assert "500 whole runs" in shown


@pytest.mark.parametrize("n", [0, 1319])
def test_a_series_without_accuracy_has_no_chart(n: int) -> None:
    """Where no run has an answer there is no empty chart that looks like a bad one."""
    lost = point(0, 0, n=n, missing=n, outcome=Outcome.INFRA, k_reject=None)
    shown = text(series(lost))
    assert "┤" not in shown
    assert "no whole run: there is no accuracy to speak of" in shown
    assert "no threshold is on record" in shown


def test_a_scale_from_zero_says_so() -> None:
    """What starts at 0 is not said to start elsewhere."""
    shown = text(series(point(0, 0, outcome=Outcome.FAIL, k_reject=None)))
    assert "the axis starts at 0" in " ".join(shown.split())
    assert "not at 0" not in shown


def test_dates_out_of_order_are_said() -> None:
    """The order is that of arrival; where the dates are another one, nobody need wonder."""
    said = "the dates are not in order"
    assert said in " ".join(text(series(point(1), point(0))).split())
    assert said not in " ".join(text(series(point(0), point(1))).split())


def test_foreign_text_is_escaped() -> None:
    """Names, dates, values and reasons reach the terminal without control characters."""
    evil = "\x1b[31m\u202e\ud800\n"
    one = series(
        point(0, spec=evil, hardware=evil, finished_at=evil, run_id="r"),
        model=evil,
        fields={evil: evil, "n": 2},
        previous={"n": 1},
        restarts=(Restart(before=0, made_at=evil, reason=evil),),
        drift=evil,
    )
    assert text(one).replace("\n", "").isprintable()
