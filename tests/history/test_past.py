"""Earlier runs as a verdict sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.past import MOST_RUNS, past_runs
from gatekit.history.records_folder import write_record
from gatekit.history.remember import rebuild, remember
from gatekit.history.run_row import run_row
from gatekit.records.answers import Counts, Status
from gatekit.records.past import Past
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]
RIGHT, WRONG, LOST, CUT = Status.CORRECT, Status.WRONG, Status.LOST, Status.TRUNCATED


def past(history: Path, record: RunRecord) -> Past:
    """What a run like `record` may rest on."""
    return past_runs(history, record.spec, record.comparability, exclude_run_id=record.run_id)


def test_a_run_comes_back_with_its_answers(tmp_path: Path, make_record: MakeRecord) -> None:
    """Build, hardware, count and every answer in asking order come from the index; no record is read."""
    index.add(tmp_path, make_record("a", statuses=(RIGHT, WRONG, Status.NO_ANSWER, RIGHT, CUT), build="0.11"))
    found = past(tmp_path, make_record("tonight"))
    assert found.excluded == {}
    (run,) = found.runs
    assert (run.run_id, run.build, run.hardware, run.n, run.correct) == ("a", "0.11", "b200", 5, 2)
    assert run.outcomes == bytes([1, 0, 0, 1, 0])
    assert [path.name for path in tmp_path.iterdir()] == ["index.sqlite"]


def test_answers_are_in_asking_order(tmp_path: Path, make_record: MakeRecord) -> None:
    """The order is that of the dataset's question ids, whatever the ids are."""
    record = make_record("a", statuses=(WRONG, RIGHT, RIGHT))
    ids = (7, 3, 5)
    moved = [replace(one, question_id=number) for one, number in zip(record.observations, ids, strict=True)]
    dataset = replace(record.dataset, question_ids=ids)
    index.add(tmp_path, replace(record, dataset=dataset, observations=tuple(reversed(moved))))
    assert past(tmp_path, make_record("tonight")).runs[0].outcomes == bytes([0, 1, 1])


def test_what_is_no_measurement_of_a_healthy_build_is_counted_by_reason(
    tmp_path: Path, make_record: MakeRecord
) -> None:
    """FAIL, INFRA, stopped, lossy and truncated runs are left out; INCONCLUSIVE ones count: the first run is one."""
    good = (RIGHT,) * 4
    index.add(tmp_path, make_record("first", outcome=Outcome.INCONCLUSIVE))
    index.add(tmp_path, make_record("failed", outcome=Outcome.FAIL))
    index.add(tmp_path, make_record("infra", outcome=Outcome.INFRA))
    index.add(tmp_path, make_record("infra-lost", statuses=(RIGHT, LOST), outcome=Outcome.INFRA))
    index.add(tmp_path, make_record("lossy", statuses=(RIGHT, LOST)))
    stopped = make_record("stopped", statuses=good, planned=9)
    counts = Counts(n=9, correct=4, wrong=0, no_answer=0, truncated=0, lost=0, unasked=5)
    index.add(tmp_path, replace(stopped, counts=counts))
    cut = make_record("cut", outcome=Outcome.INCONCLUSIVE)
    index.add(tmp_path, replace(cut, verdict=replace(cut.verdict, reason_code="too-many-truncated")))
    found = past(tmp_path, make_record("tonight"))
    assert [run.run_id for run in found.runs] == ["first"]
    assert found.excluded == {
        "FAIL": 1,
        "INFRA": 2,
        "answers lost": 1,
        "stopped early": 1,
        "too many truncated": 1,
    }


def test_other_series_of_the_model_are_named_by_what_differs(tmp_path: Path, make_record: MakeRecord) -> None:
    """Runs under another key are left out with the fields that differ; another model's are not even counted."""
    index.add(tmp_path, make_record("shots", key_fields={"protocol.shots": 8, "n": 4}))
    index.add(tmp_path, make_record("shots2", key_fields={"protocol.shots": 2, "n": 4}))
    index.add(tmp_path, make_record("n", key_fields={"protocol.shots": 5, "n": 50, "new": 1}))
    index.add(tmp_path, make_record("other", model="org/other", key_fields={"n": 1}))
    found = past(tmp_path, make_record("tonight", key_fields={"protocol.shots": 5, "n": 4}))
    assert found.runs == ()
    assert found.excluded == {"other protocol.shots": 2, "other n, new": 1}


def test_the_same_key_of_another_spec_counts(tmp_path: Path, make_record: MakeRecord) -> None:
    """The key says what compares, not the name of a spec."""
    index.add(tmp_path, make_record("a", spec_name="renamed"))
    assert len(past(tmp_path, make_record("tonight")).runs) == 1


def test_a_run_never_votes_on_itself(tmp_path: Path, make_record: MakeRecord) -> None:
    """The run under judgement is left out by its id, also when it is in the index already."""
    index.add(tmp_path, make_record("tonight"))
    assert past(tmp_path, make_record("tonight")) == Past()


def test_a_run_added_twice_is_one(tmp_path: Path, make_record: MakeRecord) -> None:
    """The same record twice, and once more from a rebuild, is one earlier run."""
    for _ in range(2):
        remember(tmp_path, make_record("a"))
    rebuild(tmp_path)
    assert [run.run_id for run in past(tmp_path, make_record("tonight")).runs] == ["a"]


def test_order_is_that_of_arrival(tmp_path: Path, make_record: MakeRecord) -> None:
    """Runs dated 2099 and 1970 stay where they came."""
    for year in (2026, 2099, 1970):
        index.add(tmp_path, make_record(f"y{year}", finished_at=f"{year}-01-01T00:00:00Z"))
    assert [run.run_id for run in past(tmp_path, make_record("tonight")).runs] == ["y2026", "y2099", "y1970"]


def test_two_accuracies_of_one_build_are_both_kept(tmp_path: Path, make_record: MakeRecord) -> None:
    """Servers are not deterministic: other answers of the same build are another row, no conflict."""
    index.add(tmp_path, make_record("a", statuses=(RIGHT, RIGHT)))
    index.add(tmp_path, make_record("b", statuses=(RIGHT, WRONG)))
    assert [run.correct for run in past(tmp_path, make_record("tonight")).runs] == [2, 1]


def test_no_history_is_empty_and_a_lost_index_is_not(tmp_path: Path, make_record: MakeRecord) -> None:
    """Without a folder there is no past; records without an index are an error that names the rebuild."""
    assert past(tmp_path / "none", make_record()) == Past()
    write_record(tmp_path, make_record())
    with pytest.raises(InfraError, match="missing or empty"):
        past(tmp_path, make_record("tonight"))


def test_the_last_runs_are_read_and_no_more(tmp_path: Path, make_record: MakeRecord) -> None:
    """Reading is bounded: of more runs the latest count."""
    row = run_row(make_record("r"), "sha256:" + "0" * 64)
    names = [f"r{number}" for number in range(MOST_RUNS + 2)]
    with index._transaction(_prepared(tmp_path), "BEGIN IMMEDIATE", 1.0) as connection:
        connection.execute(index._runs.insert(), [asdict(row) | {"run_id": name} for name in names])
    assert [run.run_id for run in past(tmp_path, make_record("tonight")).runs] == names[2:]


def _prepared(history: Path) -> Path:
    index.prepare(history)
    return history / "index.sqlite"


def test_thirty_long_runs_are_read_at_once(tmp_path: Path, make_record: MakeRecord) -> None:
    """Thirty runs of 1319 questions take well under a tenth of a second, whatever the machine is doing."""
    answers = tuple(RIGHT if number % 20 else WRONG for number in range(1319))
    record = make_record("r", statuses=answers)
    for number in range(30):
        index.add(tmp_path, replace(record, run_id=f"r{number}"))
    tonight = replace(record, run_id="tonight")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert len(past(tmp_path, tonight).runs) == 30
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1
