"""What a chart shows of each series."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatekit.gate.decide import decide
from gatekit.gate.prior import own_prior
from gatekit.gate.recompute import recompute
from gatekit.gate.retrial import past_run
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.remember import remember
from gatekit.history.series_drift import LockOf
from gatekit.history.shown_series import Wish, shown_series
from gatekit.records.act import ActKind
from gatekit.records.answers import Status, count, statuses
from gatekit.records.lock import Lock
from gatekit.records.past import Past
from gatekit.records.run import RunRecord
from gatekit.records.spec import Method
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty history."""
    return Place(dir=tmp_path)


def night(make_record: MakeRecord, number: int, right: int, *, baseline_builds: int = 4) -> RunRecord:
    """A run of a build of its own with so many of 200 questions right."""
    answers = (Status.CORRECT,) * right + (Status.WRONG,) * (200 - right)
    date = f"2026-11-{number + 1:02}T03:00:00Z"
    record = make_record(f"night-{number}", statuses=answers, build=f"b{number}", finished_at=date)
    gate = replace(record.spec.gate, baseline_builds=baseline_builds)
    return replace(record, spec=replace(record.spec, gate=gate))


def test_drift_is_told_with_its_run(place: Place, make_record: MakeRecord) -> None:
    """Low counts that add up after the norm are an alarm with the run and the date it was first raised."""
    for number, right in enumerate((190, 191, 189, 192, *(186, 185, 186, 184, 185, 184, 185, 184))):
        remember(place, night(make_record, number, right))
    (series,) = shown_series(place, Wish(), limit=500)
    assert series.drift is not None
    assert series.drift.startswith("drift: low counts add up since run night-4 (2026-11-05)")
    assert "; first over the limit with run night-" in series.drift


@pytest.mark.parametrize("baseline_builds", [4, 30])
def test_the_chart_says_what_the_verdict_said(place: Place, make_record: MakeRecord, baseline_builds: int) -> None:
    """The newest run's CUSUM is that of its verdict, also while the norm still grows and the run becomes part of it,
    and where it repeats an earlier build with other answers."""
    told = 0
    for number, right in enumerate((190, 191, 189, 190, 191, 190, *(187, 186, 187, 186, 186, 187, 186, 186, 187))):
        run = night(make_record, number, right, baseline_builds=baseline_builds)
        if number == 12 and run.served is not None:
            run = replace(run, served=replace(run.served, build="b8"))
        gate = replace(run.spec.gate, method=Method.AUTO, alpha=0.05, observed=None, floor=None)
        run = replace(run, spec=replace(run.spec, gate=gate))
        past = past_runs(place, run.spec, run.comparability)
        verdict = decide(run.spec, statuses(run.observations, run.dataset.question_ids), past)
        remember(place, replace(run, verdict=replace(run.verdict, warnings=verdict.warnings)))
        drifts = [re.search(r"CUSUM [0-9.]+, limit [0-9.]+", one) for one in verdict.warnings if "drift:" in one]
        (series,) = shown_series(place, Wish(), limit=500)
        for found in drifts:
            assert found is not None
            assert series.drift is not None
            assert found.group() in series.drift
            told += 1
    assert told >= 2


NORM = (190, 191, 189, 192)


def failed(record: RunRecord, **counts: object) -> RunRecord:
    """The run as a FAIL."""
    return replace(record, verdict=replace(record.verdict, outcome=Outcome.FAIL), **counts)  # type: ignore[arg-type]


def drift_of(place: Place, lock_of: LockOf = lambda gate, name: None) -> str | None:
    """What is said of the only series."""
    (series,) = shown_series(place, Wish(), limit=500, lock_of=lock_of)
    return series.drift


def test_the_newest_run_that_failed_is_charted_as_one(place: Place, make_record: MakeRecord) -> None:
    """A FAIL brings its count to the chart and is called one: alone no drift, after low counts the end of one."""
    for number, right in enumerate((*NORM, 190)):
        remember(place, night(make_record, number, right))
    assert "FAIL" not in (drift_of(place) or "")
    remember(place, failed(night(make_record, 5, 150)))
    alone = drift_of(place)
    assert alone is not None
    assert alone.startswith(
        "no drift, but run night-5 (2026-11-06), the newest, is a FAIL: it alone brings the CUSUM to"
    )
    for number, right in enumerate((187, 186, 187, 186), 6):
        remember(place, night(make_record, number, right))
    remember(place, failed(night(make_record, 10, 182)))
    drifted = drift_of(place)
    assert drifted is not None
    assert drifted.startswith("drift: low counts add up since run night-6 ")
    assert drifted.endswith("; run night-10, the newest, is a FAIL")


def test_a_fail_that_stopped_early_is_on_no_chart(place: Place, make_record: MakeRecord) -> None:
    """A run that was cut short has no accuracy: the chart is that of the others, and says that it is not on it."""
    for number, right in enumerate((*NORM, 190)):
        remember(place, night(make_record, number, right))
    before = drift_of(place)
    cut = night(make_record, 5, 0)
    cut = replace(cut, observations=cut.observations[:40])
    remember(place, failed(cut, counts=count(cut.observations, planned=200)))
    assert drift_of(
        place
    ) == f"{before}; run night-5, the newest, is a FAIL, and not on this chart: it stopped early" + (" or lost answers")


def test_the_chart_of_a_locked_gate_is_that_of_its_lock(place: Place, make_record: MakeRecord) -> None:
    """Where a lock decided, the counts are charted against its prediction; without that lock nothing is charted."""
    runs = [night(make_record, number, right) for number, right in enumerate((*NORM, 193, 194, 188, 187))]
    gate = replace(runs[0].spec.gate, method=Method.LOCKED, floor=None)
    past = Past(runs=tuple(past_run(run) for run in runs[:4]))
    key = runs[0].comparability
    lock = recompute(gate, "b200", "tiny-cpu", key, 200, past, own_prior(gate), as_of=None, version="1")
    assert isinstance(lock, Lock)
    strict = replace(lock, mean=199.0)
    for run in runs:
        spec = replace(run.spec, gate=gate)
        verdict = decide(spec, statuses(run.observations, run.dataset.question_ids), Past(key=key, lock=strict))
        remember(place, replace(run, spec=spec, verdict=replace(verdict, outcome=Outcome.PASS)))
    charted = drift_of(place, lambda gate, name: strict)
    assert charted is not None
    assert charted.startswith("drift: low counts add up since run night-4 ")
    gone = "no chart of drift: the lock that decided run night-7 is not at hand"
    assert drift_of(place) == drift_of(place, lambda gate, name: replace(strict, inputs=lock.key)) == gone


@pytest.mark.parametrize("nights", [1, 2])
def test_two_runs_are_no_trend(place: Place, make_record: MakeRecord, nights: int) -> None:
    """Where the chart has nothing to say yet, nobody is told that there is no drift."""
    for number in range(nights):
        remember(place, night(make_record, number, 190 + number))
    (series,) = shown_series(place, Wish(), limit=500)
    assert series.drift is None


def test_series_follow_each_other_in_their_model(place: Place, make_record: MakeRecord) -> None:
    """Each series is compared with the one before it of the same model, also where that one is not shown."""
    for run_id, model, tokens in (("a", "x", 1), ("b", "y", 2), ("c", "x", 3), ("d", "x", 1)):
        fields = {"model": model, "max_tokens": tokens}
        remember(place, make_record(run_id, model=model, key_fields=fields, spec_name=f"{model}-{tokens}"))
    found = shown_series(place, Wish(), limit=500)
    assert [(one.model, [point.run_id for point in one.points]) for one in found] == [
        ("x", ["a", "d"]),
        ("x", ["c"]),
        ("y", ["b"]),
    ]
    assert [one.previous for one in found] == [None, {"model": "x", "max_tokens": 1}, None]
    (alone,) = shown_series(place, Wish(spec="x-3"), limit=500)
    assert alone == found[1]


def test_a_superseded_run_is_marked(place: Place, make_record: MakeRecord) -> None:
    """The run whose answers were scored anew is marked in its own series, wherever the new one is."""
    remember(place, make_record("old"))
    remember(place, replace(make_record("new", key_fields={"extractor": 2}), supersedes="old"))
    marks = {point.run_id: point.mark for one in shown_series(place, Wish(), limit=500) for point in one.points}
    assert marks == {"old": "s", "new": ""}


def test_restarts_stand_behind_their_run(place: Place, make_record: MakeRecord) -> None:
    """A rebaseline stands behind its run, by date where that run is unknown, and not at all among older runs."""
    for number in range(4):
        remember(place, night(make_record, number, 190))
    rows = index.list_runs(place, limit=4)[::-1]
    key, now = rows[0].comparability_key, datetime(2026, 11, 3, 12, tzinfo=UTC)
    for target, after in ((key, rows[1].digest), (key, "sha256:gone"), ("another key", rows[1].digest)):
        record_act(place, make_act(ActKind.REBASELINE, target, reason="new kernels", now=now, after=after))
    (series,) = shown_series(place, Wish(), limit=500)
    assert sorted(restart.before for restart in series.restarts) == [2, 3]
    (short,) = shown_series(place, Wish(), limit=1)
    assert [restart.before for restart in short.restarts] == [0]
