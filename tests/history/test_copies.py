"""Runs whose answers were read again: what is said of a run holds for the copies of its answers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from answer_builders import MakeRecord, scored
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.past import all_series, past_runs
from gatekit.history.place import Place
from gatekit.history.records_folder import read_stored, record_path
from gatekit.history.remember import remember
from gatekit.history.rescore import Reader, rescore
from gatekit.history.verify import verify
from gatekit.records.act import ActKind
from gatekit.records.past import Past
from gatekit.records.run import RunRecord
from gatekit.task.rescore import rescore as read_again
from gatekit.task.score import EXTRACTORS

_ANSWERS = ("#### 18", "#### 18", "#### 18", "I do not know") * 30


def _reader(name: str) -> Reader:
    extractor = EXTRACTORS[name]
    return Reader(name=name, version=extractor.version, score=lambda seen: read_again(seen, extractor))


def _run(make_record: MakeRecord, run_id: str, day: int) -> RunRecord:
    return scored(make_record, run_id, _ANSWERS, finished_at=f"2026-12-{day:02}T00:00:00Z")


def _again(place: Place, run_id: str, name: str, day: int) -> RunRecord:
    stored = read_stored(record_path(place.dir, run_id))
    return rescore(place, stored, _reader(name), now=datetime(2026, 12, day, tzinfo=UTC))


def _norm(place: Place, record: RunRecord, as_of: str | None = None) -> Past:
    return past_runs(place, record.spec, record.comparability, as_of=as_of)


def _ids(past: Past) -> list[str]:
    return [run.run_id for run in past.runs]


def test_as_of_gives_the_same_after_a_rescore(place: Place, make_record: MakeRecord) -> None:
    """A run is superseded from the moment on at which it was scored anew, and the new record is there from then on."""
    first = _run(make_record, "r1", 1)
    remember(place, first)
    remember(place, _run(make_record, "r2", 2))
    before = _norm(place, first, "2026-12-03")
    new = _again(place, "r1", "last_integer", 5)
    assert _norm(place, first, "2026-12-03") == before
    assert _ids(_norm(place, new, "2026-12-03")) == []
    assert _ids(_norm(place, first, "2026-12-05")) == ["r2"]
    assert _ids(_norm(place, new, "2026-12-05")) == [new.run_id]
    assert new.rescored_at == "2026-12-05T00:00:00Z"
    assert verify(place).findings == ()
    assert [one.newest.run_id for one in all_series(place, as_of="2026-12-03")] == ["r2"]


def test_a_quarantine_holds_for_the_copies(place: Place, make_record: MakeRecord) -> None:
    """What does not count does not count as another extractor reads it either, however often it was read."""
    remember(place, _run(make_record, "r1", 1))
    new = _again(place, "r1", "last_integer", 2)
    back = _again(place, new.run_id, "lm_eval_strict", 3)
    record_act(place, make_act(ActKind.QUARANTINE, "r1", reason="overheated", now=datetime(2026, 12, 4, tzinfo=UTC)))
    assert (_ids(_norm(place, back)), _norm(place, back).excluded["quarantined"]) == ([], 1)
    assert index.quarantined(place) == {"r1", new.run_id, back.run_id}
    assert _ids(_norm(place, back, "2026-12-03")) == [back.run_id]
    assert all(not one.past.runs for one in all_series(place))
    record_act(place, make_act(ActKind.RELEASE, "r1", reason="it did not", now=datetime(2026, 12, 5, tzinfo=UTC)))
    assert _ids(_norm(place, back)) == [back.run_id]


@pytest.mark.parametrize("is_known", [True, False])
def test_what_stood_before_a_rebaseline_stays_there(place: Place, make_record: MakeRecord, is_known: bool) -> None:
    """Scoring anew under another key, and back again, brings no run behind the rebaseline that it stood before."""
    first = _run(make_record, "r1", 1)
    remember(place, first)
    act = make_act(
        ActKind.REBASELINE,
        first.comparability.key,
        reason="new kernel",
        now=datetime(2026, 12, 2, tzinfo=UTC),
        after=index.find(place, "r1").digest if is_known else "sha256:gone",
    )
    record_act(place, act)
    remember(place, _run(make_record, "r2", 3))
    assert _ids(_norm(place, first)) == ["r2"]
    new = [_again(place, run_id, "last_integer", 4) for run_id in ("r1", "r2")]
    assert (_ids(_norm(place, new[0])), _norm(place, new[0]).excluded["before the rebaseline"]) == (
        ["r2.last_integer-1"],
        1,
    )
    back = [_again(place, one.run_id, "gatekit", 5) for one in new]
    assert _ids(_norm(place, first)) == [back[1].run_id]
    assert [_ids(one.past) for one in all_series(place) if one.past.runs] == [[back[1].run_id]]
