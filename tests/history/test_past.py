"""Earlier runs as a verdict sees them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode, InfraError
from gatekit.history import index
from gatekit.history.past import all_series, past_runs
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path, write_record
from gatekit.history.remember import rebuild, remember
from gatekit.records.act import Act, ActKind
from gatekit.records.answers import Counts, Status
from gatekit.records.past import Past
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]
RIGHT, WRONG, LOST, CUT = Status.CORRECT, Status.WRONG, Status.LOST, Status.TRUNCATED


def past(place: Place, record: RunRecord) -> Past:
    """What a run like `record` may rest on."""
    return past_runs(place, record.spec, record.comparability, exclude_run_id=record.run_id)


def test_a_run_comes_back_with_its_answers(place: Place, make_record: MakeRecord) -> None:
    """Build, hardware, count and every answer in asking order come from the index; no record is read."""
    index.add(place, make_record("a", statuses=(RIGHT, WRONG, Status.NO_ANSWER, RIGHT, CUT), build="0.11"))
    found = past(place, make_record("tonight"))
    assert found.excluded == {}
    (run,) = found.runs
    assert (run.run_id, run.build, run.hardware, run.n, run.correct) == ("a", "0.11", "b200", 5, 2)
    assert run.outcomes == bytes([1, 0, 0, 1, 0])
    assert not (place.dir / "runs").exists()


def test_answers_are_in_asking_order(place: Place, make_record: MakeRecord) -> None:
    """The order is that of the dataset's question ids, whatever the ids are."""
    record = make_record("a", statuses=(WRONG, RIGHT, RIGHT))
    ids = (7, 3, 5)
    moved = [replace(one, question_id=number) for one, number in zip(record.observations, ids, strict=True)]
    dataset = replace(record.dataset, question_ids=ids)
    index.add(place, replace(record, dataset=dataset, observations=tuple(reversed(moved))))
    assert past(place, make_record("tonight")).runs[0].outcomes == bytes([0, 1, 1])


def test_what_is_no_measurement_of_a_healthy_build_is_counted_by_reason(place: Place, make_record: MakeRecord) -> None:
    """FAIL, INFRA, stopped, lossy, cut and dependent runs are left out; INCONCLUSIVE ones count: the first is one."""
    good = (RIGHT,) * 4
    index.add(place, make_record("first", outcome=Outcome.INCONCLUSIVE))
    index.add(place, make_record("failed", outcome=Outcome.FAIL))
    index.add(place, make_record("infra", outcome=Outcome.INFRA))
    index.add(place, make_record("infra-lost", statuses=(RIGHT, LOST), outcome=Outcome.INFRA))
    index.add(place, make_record("lossy", statuses=(RIGHT, LOST)))
    stopped = make_record("stopped", statuses=good, planned=9)
    counts = Counts(n=9, correct=4, wrong=0, no_answer=0, truncated=0, lost=0, unasked=5)
    index.add(place, replace(stopped, counts=counts))
    cut = make_record("cut", outcome=Outcome.INCONCLUSIVE)
    index.add(place, replace(cut, verdict=replace(cut.verdict, reason_code="too-many-truncated")))
    alike = make_record("alike", outcome=Outcome.INCONCLUSIVE)
    remember(place, replace(alike, verdict=replace(alike.verdict, reason_code="dependent-repeats")))
    found = past(place, make_record("tonight"))
    assert [run.run_id for run in found.runs] == ["first"]
    assert found.excluded == {
        "FAIL": 1,
        "INFRA": 2,
        "answers lost": 1,
        "stopped early": 1,
        "too many truncated": 1,
        "dependent repeats": 1,
    }
    assert found.left_out["alike"] == "dependent repeats"


def test_dependent_repeats_stay_out_of_the_norm(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run whose repeats hang together is kept and seen, and in no norm: in the index, built anew, and imported."""
    here, there = Place(dir=tmp_path / "here"), Place(dir=tmp_path / "there")
    alike = make_record("alike", outcome=Outcome.INCONCLUSIVE)
    remember(here, replace(alike, verdict=replace(alike.verdict, reason_code="dependent-repeats")))
    lines = tmp_path / "alike.jsonl"
    lines.write_text(json.dumps(json.loads(record_path(here.dir, "alike").read_text())) + "\n")
    assert run(["import", str(lines), "--dir", str(there.dir)], environ={}) is ExitCode.PASS
    for place in (here, there):
        for _ in range(2):
            found = past(place, make_record("tonight"))
            assert (found.runs, found.excluded) == ((), {"dependent repeats": 1})
            (stored,) = all_series(place)
            assert stored.past.runs == ()
            assert [row.run_id for row in index.list_runs(place, limit=9)] == ["alike"]
            (place.dir / "index.sqlite").unlink()
            rebuild(place)


def test_other_series_of_the_model_are_named_by_what_differs(place: Place, make_record: MakeRecord) -> None:
    """Runs under another key are left out with the fields that differ; another model's are not even counted."""
    index.add(place, make_record("shots", key_fields={"protocol.shots": 8, "n": 4}))
    index.add(place, make_record("shots2", key_fields={"protocol.shots": 2, "n": 4}))
    index.add(place, make_record("n", key_fields={"protocol.shots": 5, "n": 50, "new": 1}))
    index.add(place, make_record("other", model="org/other", key_fields={"n": 1}))
    found = past(place, make_record("tonight", key_fields={"protocol.shots": 5, "n": 4}))
    assert found.runs == ()
    assert found.excluded == {"other protocol.shots": 2, "other n, new": 1}


def test_the_same_key_of_another_spec_counts(place: Place, make_record: MakeRecord) -> None:
    """The key says what compares, not the name of a spec."""
    index.add(place, make_record("a", spec_name="renamed"))
    assert len(past(place, make_record("tonight")).runs) == 1


def test_a_run_never_votes_on_itself(place: Place, make_record: MakeRecord) -> None:
    """The run under judgement is left out by its id, also when it is in the index already."""
    index.add(place, make_record("tonight"))
    assert past(place, make_record("tonight")) == Past(key=make_record().comparability)


def test_a_run_added_twice_is_one(place: Place, make_record: MakeRecord) -> None:
    """The same record twice, and once more from a rebuild, is one earlier run."""
    for _ in range(2):
        remember(place, make_record("a"))
    rebuild(place)
    assert [run.run_id for run in past(place, make_record("tonight")).runs] == ["a"]


def test_order_is_that_of_arrival(place: Place, make_record: MakeRecord) -> None:
    """Runs dated 2099 and 1970 stay where they came."""
    for year in (2026, 2099, 1970):
        index.add(place, make_record(f"y{year}", finished_at=f"{year}-01-01T00:00:00Z"))
    assert [run.run_id for run in past(place, make_record("tonight")).runs] == ["y2026", "y2099", "y1970"]


def test_two_accuracies_of_one_build_are_both_kept(place: Place, make_record: MakeRecord) -> None:
    """Servers are not deterministic: other answers of the same build are another row, no conflict."""
    index.add(place, make_record("a", statuses=(RIGHT, RIGHT)))
    index.add(place, make_record("b", statuses=(RIGHT, WRONG)))
    assert [run.correct for run in past(place, make_record("tonight")).runs] == [2, 1]


def test_no_history_is_empty_and_a_lost_index_is_not(place: Place, make_record: MakeRecord) -> None:
    """Without a folder there is no past; records without an index are an error that names the rebuild."""
    assert past(replace(place, dir=place.dir / "none"), make_record()) == Past(key=make_record().comparability)
    write_record(place.dir, make_record())
    with pytest.raises(InfraError, match="missing or empty"):
        past(place, make_record("tonight"))


def test_thirty_long_runs_are_read_at_once(place: Place, make_record: MakeRecord) -> None:
    """Thirty runs of 1319 questions take well under a tenth of a second, whatever the machine is doing."""
    answers = tuple(RIGHT if number % 20 else WRONG for number in range(1319))
    record = make_record("r", statuses=answers)
    for number in range(30):
        index.add(place, replace(record, run_id=f"r{number}"))
    tonight = replace(record, run_id="tonight")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert len(past(place, tonight).runs) == 30
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1


def _act(kind: ActKind, target: str, *, after: str | None = None, made_at: str = "2026-12-01T00:00:00Z") -> Act:
    act_id = f"{kind}-{target}-{made_at}"
    return Act(act_id=act_id, kind=kind, target=target, after=after, reason="because", made_at=made_at)


def _names(found: Past) -> list[str]:
    return [run.run_id for run in found.runs]


def test_a_quarantined_run_does_not_count_until_it_is_released(place: Place, make_record: MakeRecord) -> None:
    """The last act on a run decides, whichever came before."""
    for name in "abc":
        index.add(place, make_record(name))
    index.add_act(place, _act(ActKind.QUARANTINE, "a"))
    index.add_act(place, _act(ActKind.QUARANTINE, "b"))
    index.add_act(place, _act(ActKind.RELEASE, "a", made_at="2026-12-02T00:00:00Z"))
    found = past(place, make_record("tonight"))
    assert (_names(found), found.excluded) == (["a", "c"], {"quarantined": 1})


def test_a_superseded_run_is_replaced(place: Place, make_record: MakeRecord) -> None:
    """A run that a later record scores anew does not count; the new record does where its key is the same."""
    index.add(place, make_record("old"))
    index.add(place, make_record("moved"))
    index.add(place, make_record("new", supersedes="old"))
    index.add(place, make_record("elsewhere", supersedes="moved", key_fields={"extractor": 2}, model="org/other"))
    found = past(place, make_record("tonight"))
    assert (_names(found), found.excluded) == (["new"], {"superseded": 2})


def test_the_norm_starts_behind_the_last_rebaseline(place: Place, make_record: MakeRecord) -> None:
    """Runs up to the one that was the last when the norm was restarted do not count, whatever their clocks said;
    one of another key is not touched."""
    for number, day in enumerate((5, 9, 3, 4)):
        index.add(place, make_record(f"r{number}", finished_at=f"2026-11-0{day}T00:00:00Z"))
    key = make_record().comparability.key
    index.add_act(place, _act(ActKind.REBASELINE, key, after=index.find(place, "r0").digest))
    index.add_act(place, _act(ActKind.REBASELINE, "sha256:other", after=index.find(place, "r3").digest))
    assert _names(past(place, make_record("tonight"))) == ["r1", "r2", "r3"]
    last = _act(ActKind.REBASELINE, key, after=index.find(place, "r2").digest, made_at="2026-12-02T00:00:00Z")
    index.add_act(place, last)
    found = past(place, make_record("tonight"))
    assert (_names(found), found.excluded) == (["r3"], {"before the rebaseline": 3})


def test_a_rebaseline_behind_an_unknown_run_goes_by_time(place: Place, make_record: MakeRecord) -> None:
    """Where the index does not hold the run behind which the norm starts, what was finished by then is before it."""
    for day in (1, 2, 3):
        index.add(place, make_record(f"r{day}", finished_at=f"2026-12-0{day}T00:00:00Z"))
    key = make_record().comparability.key
    index.add_act(place, _act(ActKind.REBASELINE, key, after="sha256:gone", made_at="2026-12-02T00:00:00Z"))
    assert _names(past(place, make_record("tonight"))) == ["r3"]
    index.add_act(place, _act(ActKind.REBASELINE, key, after=None, made_at="2026-12-05T00:00:00Z"))
    assert _names(past(place, make_record("tonight"))) == ["r1", "r2", "r3"]


def test_as_of_a_moment_what_came_later_is_not_there(place: Place, make_record: MakeRecord) -> None:
    """Runs, replacements and acts after the moment are dropped; a date includes its whole day, in UTC."""
    for day in (1, 2, 3):
        index.add(place, make_record(f"r{day}", finished_at=f"2026-12-0{day}T12:00:00Z"))
    index.add(place, make_record("new", finished_at="2026-12-03T13:00:00Z", supersedes="r1"))
    index.add_act(place, _act(ActKind.QUARANTINE, "r2", made_at="2026-12-03T00:00:00Z"))
    record = make_record("tonight")

    def names(as_of: str | None) -> list[str]:
        return _names(past_runs(place, record.spec, record.comparability, as_of=as_of))

    assert names(None) == ["r3", "new"]
    assert names("2026-12-02") == ["r1", "r2"]
    assert names("2026-12-02T11:59:59Z") == ["r1"]
    assert names("2026-12-02T13:00:00+01:00") == ["r1", "r2"]
    assert names("2026-12-03T12:30:00") == ["r1", "r3"]
    for wrong in ("yesterday", "2026-13-01", "", "2026-12-0"):
        with pytest.raises(ConfigError, match="neither a date nor a moment"):
            names(wrong)


def test_changes_are_told_in_sentences(place: Place, make_record: MakeRecord) -> None:
    """What distinguishes the other keys of the model is named, newest first, with its date and what it costs."""

    def add(name: str, day: str, **fields: object) -> None:
        index.add(place, make_record(name, key_fields=fields, finished_at=f"{day}T03:00:00Z"))

    add("a", "2026-07-01", api="completions", n=50)
    add("b", "2026-08-01", api="completions", n=1319)
    add("c", "2026-08-31", api="completions", n=1319)
    now = {"api": "chat", "n": 1319}
    tonight = make_record("tonight", key_fields=now)
    assert past(place, tonight).changes == (
        "api: completions -> chat after 2026-08-31; 2 earlier runs are not comparable",
        "api: completions -> chat, n: 50 -> 1319 after 2026-07-01; 1 earlier run is not comparable",
    )
    add("d", "2026-09-01", **now)
    add("e", "2026-09-02", api="chat", n=200)
    found = past(place, tonight)
    assert found.changes == (
        "n: 200 -> 1319; 1 run from 2026-09-02 to 2026-09-02 is not comparable",
        "api: completions -> chat on 2026-09-01; 2 earlier runs are not comparable",
        "api: completions -> chat, n: 50 -> 1319 on 2026-09-01; 1 earlier run is not comparable",
    )
    assert found.excluded == {"other api": 2, "other api, n": 1, "other n": 1}
    assert past_runs(place, tonight.spec, tonight.comparability, as_of="2026-07-31").changes == (
        "api: completions -> chat, n: 50 -> 1319 after 2026-07-01; 1 earlier run is not comparable",
    )


def test_every_series_is_ready_for_a_decision(place: Place, make_record: MakeRecord) -> None:
    """Each spec name under each key comes with fields, gate, newest run, and what past_runs gives its next run."""
    for number in range(6):
        outcome = Outcome.FAIL if number == 3 else Outcome.PASS
        index.add(place, make_record(f"r{number}", spec_name=f"s{number % 2}", outcome=outcome))
    index.add(place, make_record("x", key_fields={"n": 1}))
    index.add_act(place, _act(ActKind.QUARANTINE, "r1"))
    record = make_record("tonight")
    found = {(one.spec_name, one.key.key): one for one in all_series(place)}
    assert len(found) == 3
    for name, newest in (("s0", "r4"), ("s1", "r5")):
        one = found[name, record.comparability.key]
        expected = past_runs(place, record.spec, record.comparability)
        assert (one.past.runs, one.key) == (expected.runs, record.comparability)
        assert one.past.excluded == {"FAIL": 1, "quarantined": 1}
        assert (one.newest.run_id, one.hardware, one.model) == (newest, "b200", "org/tiny")
        assert one.gate == record_to_plain(record)["spec"]["gate"]
    assert [one.key.fields for one in all_series(place, as_of="2026-01-01")] == []
