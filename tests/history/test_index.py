"""The index over the records: the same rules on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from gatekit.errors import ConfigError, InfraError
from gatekit.history import index, tables
from gatekit.history.database import reading, writing
from gatekit.history.place import Place
from gatekit.history.records_folder import write_record
from gatekit.history.run_row import NewRow, RunRow, packed, run_row
from gatekit.records.act import Act, ActKind
from gatekit.records.answers import Status
from gatekit.records.canonical import digest, to_plain
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]


def _ids(rows: tuple[RunRow, ...]) -> list[str]:
    return [row.run_id for row in rows]


def _row(record: RunRecord) -> NewRow:
    return run_row(record, record_to_plain(record)["digest"])


def _act(number: int = 1) -> Act:
    return Act(
        act_id=f"act-{number}",
        kind=ActKind.QUARANTINE,
        target="run-1",
        reason="the GPU was \x00 throttled \ud800",
        made_at="2026-12-01T00:00:00Z",
    )


def test_row_holds_the_record_in_brief(place: Place, make_record: MakeRecord) -> None:
    """A run comes back from the index with the values of its record."""
    statuses = (*[Status.CORRECT] * 3, Status.LOST, Status.NO_ANSWER)
    record = make_record(statuses=statuses, build=None, previous="sha256:" + "1" * 64, supersedes="run-0")
    assert index.add(place, record) is True
    (row,) = index.list_runs(place, limit=10)
    assert row == RunRow(
        run_id="run-1",
        digest=record_to_plain(record)["digest"],
        previous="sha256:" + "1" * 64,
        supersedes="run-0",
        comparability_key=record.comparability.key,
        gate=digest(record_to_plain(record)["spec"]["gate"]),
        spec_name="tiny-cpu",
        model="org/tiny",
        hw="b200",
        engine="vllm",
        build=None,
        protocol="chat",
        dataset="gsm8k",
        n=5,
        correct=3,
        wrong=0,
        no_answer=1,
        truncated=0,
        lost=1,
        unasked=0,
        measured=False,
        outcome=Outcome.PASS,
        reason_code="floor-met",
        simulated=False,
        started_at=record.started_at,
        finished_at=record.finished_at,
        path="runs/run-1/record.json",
    )
    assert (type(row.simulated), type(row.measured), type(row.outcome)) == (bool, bool, Outcome)
    (one,) = index.series(place, key=record.comparability.key)
    assert one.right == packed([True, True, True, False, False])


def test_shared_texts_are_kept_once(place: Place, make_record: MakeRecord) -> None:
    """The fields of a key and the section of a gate are one row each, however many runs have them."""
    for number in range(3):
        index.add(place, make_record(f"r{number}"))
    index.add(place, make_record("other", key_fields={"max_tokens": 512}))
    with reading(place) as connection:
        assert connection is not None
        counts = [connection.scalar(sa.select(sa.func.count()).select_from(t)) for t in (tables.keys, tables.gates)]
    assert counts == [2, 1]


def test_newest_is_first_whatever_its_clock_said(place: Place, make_record: MakeRecord) -> None:
    """Runs are ordered by insertion, so that a record dated 2099 or 1970 stays where it came."""
    for number, year in enumerate((2026, 2099, 1970)):
        index.add(place, make_record(f"r{number}", finished_at=f"{year}-01-01T00:00:00Z"))
    assert _ids(index.list_runs(place, limit=10)) == ["r2", "r1", "r0"]
    assert _ids(index.list_runs(place, limit=1)) == ["r2"]


def test_lists_are_filtered_by_spec_and_model(place: Place, make_record: MakeRecord) -> None:
    """A filter keeps exactly the runs of that spec or model, also when its name is not valid Unicode."""
    index.add(place, make_record("a", spec_name="one"))
    index.add(place, make_record("b", model="x\ud800\0y"))
    assert _ids(index.list_runs(place, limit=10, spec_name="one")) == ["a"]
    assert _ids(index.list_runs(place, limit=10, model="x\ud800\0y")) == ["b"]
    assert _ids(index.list_runs(place, limit=10, model="' OR 1=1 --")) == []


def test_same_run_twice_is_one_row(place: Place, make_record: MakeRecord) -> None:
    """Adding a run again changes nothing and says so."""
    assert [index.add(place, make_record()) for _ in range(2)] == [True, False]
    assert _ids(index.list_runs(place, limit=10)) == ["run-1"]


def test_other_content_is_refused(place: Place, make_record: MakeRecord) -> None:
    """A run id with another digest is refused; the error names both digests."""
    first, second = make_record(), make_record(build="0.11")
    index.add(place, first)
    with pytest.raises(InfraError) as caught:
        index.add(place, second)
    assert caught.value.reason == "run-id-taken"
    for record in (first, second):
        assert record_to_plain(record)["digest"] in caught.value.message
    assert [row.build for row in index.list_runs(place, limit=10)] == [first.served and first.served.build]


def test_many_are_added_in_their_order(place: Place, make_record: MakeRecord) -> None:
    """Rows are added in the order they come; known ones are counted, and a taken id is one line and no error."""
    index.add(place, make_record("known"))
    names = ("b", "a", "known", "b", "c")
    rows = [_row(make_record(name)) for name in names]
    added = index.add_many(place, [*rows, _row(make_record("a", build="other"))])
    assert (added.added, added.known) == (3, 2)
    (problem,) = added.problems
    assert "run a" in problem
    assert _ids(index.list_runs(place, limit=10)) == ["c", "a", "b", "known"]
    assert index.add_many(place, []).added == 0


@pytest.mark.parametrize("table", ["runs", "keys", "gates", "acts"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}"])
def test_rows_cannot_be_changed(place: Place, make_record: MakeRecord, table: str, statement: str) -> None:
    """T09: changing and deleting are refused on gatekit's own connection, in every table."""
    index.add(place, make_record())
    index.add_act(place, _act())
    column = tables.metadata.tables[table].columns.keys()[-1]
    quoted = f'"{column}"'
    with pytest.raises(InfraError, match=r"never|permission denied"), writing(place) as connection:
        connection.exec_driver_sql(statement.format(table, quoted, quoted))
    assert len(index.list_runs(place, limit=9)) == len(index.acts(place)) == 1


def test_nothing_is_found_and_made_in_an_empty_folder(tmp_path: Path, place: Place) -> None:
    """Reading a history that does not exist gives nothing and creates nothing."""
    history = replace(place, dir=tmp_path / "none")
    assert index.list_runs(history, limit=10) == ()
    assert index.comparable(history, "sha256:0") == ()
    assert index.count_by_key(history, "tiny-cpu") == {}
    assert index.acts(history) == ()
    assert index.other_keys(history, model="m", key="k") == ()
    assert list(index.all_keys(history)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda place, record: index.list_runs(place, limit=1),
        lambda place, record: index.comparable(place, record.comparability.key),
        lambda place, record: index.prepare(place),
    ],
)
def test_lost_index_is_not_an_empty_history(
    place: Place, make_record: MakeRecord, use: Callable[[Place, RunRecord], object]
) -> None:
    """Records without an index are an InfraError that names the rebuild, never "no runs"."""
    write_record(place.dir, make_record())
    with pytest.raises(InfraError, match="missing or empty") as caught:
        use(place, make_record())
    assert "gatekit history rebuild" in caught.value.hint
    assert (place.url is None) is ("--url" not in caught.value.hint)


def test_find_takes_an_id_or_a_unique_beginning(place: Place, make_record: MakeRecord) -> None:
    """A run is found by its id or a beginning only it has; a whole id wins over longer ones."""
    for run_id in ("night", "night-1", "other_x", "otherAx"):
        index.add(place, make_record(run_id))
    assert index.find(place, "night").run_id == "night"
    assert index.find(place, "night-").run_id == "night-1"
    assert index.find(place, "other_").run_id == "other_x"


@pytest.mark.parametrize(
    ("run_id", "reason", "hint"),
    [
        ("nigth-1", "unknown-run", "night-1"),
        ("NIGHT", "unknown-run", "night"),
        ("n", "ambiguous-run", "night-2, night-1"),
        ("", "unknown-run", "night"),
        ("%", "unknown-run", "night"),
        ("\x1b[31m\ud800\0", "unknown-run", "night"),
    ],
)
def test_unknown_run_names_the_nearest(
    place: Place, make_record: MakeRecord, run_id: str, reason: str, hint: str
) -> None:
    """An unknown or ambiguous run is a ConfigError that names runs there are, in printable text."""
    for known in ("night-1", "night-2"):
        index.add(place, make_record(known))
    with pytest.raises(ConfigError) as caught:
        index.find(place, run_id)
    assert caught.value.reason == reason
    assert hint in caught.value.hint
    assert caught.value.lines()[0].isprintable()


def test_only_what_is_near_is_called_so(place: Place, make_record: MakeRecord) -> None:
    """Run ids that resemble nothing are answered by the newest runs, called the newest."""
    index.add(place, make_record("night-1"))
    for run_id, hint in (("nigth-1", "nearest: night-1"), ("zzz", "newest: night-1")):
        with pytest.raises(ConfigError) as caught:
            index.find(place, run_id)
        assert caught.value.hint == hint


def test_only_measurements_compare(place: Place, make_record: MakeRecord) -> None:
    """Comparable are the whole measurements under the same key, oldest first, without the run itself."""
    right, lost = (Status.CORRECT,) * 4, (*(Status.CORRECT,) * 3, Status.LOST)
    index.add(place, make_record("first", outcome=Outcome.FAIL))
    index.add(place, make_record("second", outcome=Outcome.INCONCLUSIVE))
    index.add(place, make_record("infra", outcome=Outcome.INFRA))
    index.add(place, make_record("one-lost", statuses=lost))
    index.add(place, make_record("stopped", statuses=right, planned=9))
    index.add(place, make_record("nothing", statuses=(), outcome=Outcome.INFRA))
    index.add(place, make_record("other-key", key_fields={"max_tokens": 512}))
    last = make_record("last")
    index.add(place, last)
    key = last.comparability.key
    assert _ids(index.comparable(place, key)) == ["first", "second", "last"]
    assert _ids(index.comparable(place, key, exclude_run_id="last")) == ["first", "second"]
    counts = index.count_by_key(place, "tiny-cpu")
    assert list(counts.values()) == [3, 1]
    assert counts[key] == 3


def test_a_series_is_every_run_of_its_key(place: Place, make_record: MakeRecord) -> None:
    """A series is in order of arrival, whatever became of its runs; its head is the last of them."""
    for name, outcome in (("a", Outcome.PASS), ("b", Outcome.INFRA), ("c", Outcome.FAIL)):
        index.add(place, make_record(name, outcome=outcome))
    index.add(place, make_record("x", key_fields={"n": 1}))
    key = make_record().comparability.key
    assert [row.run_id for row in index.series(place, key=key)] == ["a", "b", "c"]
    assert [row.run_id for row in index.series(place, key=key, limit=2)] == ["b", "c"]
    with reading(place) as connection:
        assert connection is not None
        assert index.head(connection, key) == index.find(place, "c").digest
        assert index.head(connection, "sha256:none") is None


def test_other_keys_of_a_model_are_told_newest_first(place: Place, make_record: MakeRecord) -> None:
    """Each other key of the model comes with its fields, how many runs it has, and from when to when."""
    for name, shots, day in (("a", 8, 1), ("b", 2, 2), ("c", 8, 3), ("d", 5, 4)):
        index.add(place, make_record(name, key_fields={"shots": shots}, finished_at=f"2026-11-0{day}T00:00:00Z"))
    index.add(place, make_record("other", model="org/other", key_fields={"shots": 9}))
    own = make_record(key_fields={"shots": 5})
    found = index.other_keys(place, model="org/tiny", key=own.comparability.key)
    assert [(one.fields, one.runs, one.first[:10], one.last[:10]) for one in found] == [
        ('{"shots": 8}', 2, "2026-11-01", "2026-11-03"),
        ('{"shots": 2}', 1, "2026-11-02", "2026-11-02"),
    ]


def test_acts_are_kept_in_order_and_once(place: Place) -> None:
    """An act comes back as it was made, in order of arrival; again it changes nothing, with other content never."""
    acts = [_act(2), _act(1)]
    assert [index.add_act(place, act, digest(to_plain(act))) for act in acts] == [True, True]
    assert index.add_act(place, _act(1)) is False
    with pytest.raises(InfraError, match="already holds act act-1"):
        index.add_act(place, replace(_act(1), reason="another"))
    found = index.acts(place)
    assert [act.act_id for act in found] == ["act-2", "act-1"]
    assert found[0] == replace(_act(2), reason="the GPU was \\x00 throttled \\ud800")
    assert index.act_digests(place)["act-1"] == digest(to_plain(_act(1)))


def test_all_keys_are_walked_whole(place: Place, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every series is given once with all its runs, its fields and the gates of its runs, a few keys at a time."""
    monkeypatch.setattr(index, "_KEYS_AT_ONCE", 2)
    for number in range(10):
        index.add(place, make_record(f"r{number}", key_fields={"n": number % 5}))
    index.add(place, make_record("r0-again", key_fields={"n": 0}, supersedes="r0"))
    found = {one.fields: one for one in index.all_keys(place)}
    assert sorted(found) == [f'{{"n": {number}}}' for number in range(5)]
    assert [row.run_id for row in found['{"n": 0}'].rows] == ["r0", "r5", "r0-again"]
    assert set(found['{"n": 0}'].superseded) == {"r0"}
    gate = record_to_plain(make_record())["spec"]["gate"]
    assert digest(gate) in found['{"n": 3}'].gates
