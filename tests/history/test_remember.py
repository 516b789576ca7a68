"""The record file and the index, chained; and how each comes back from the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.acts import record_act
from gatekit.history.place import INDEX_FILE, Place
from gatekit.history.records_folder import read_record, read_stored, write_record
from gatekit.history.remember import Rebuilt, check_ready, rebuild, remember, sync
from gatekit.records.act import Act, ActKind
from gatekit.records.run import RunRecord, record_to_plain
from nights import stored_ids
from postgres_server import PostgresServer

MakeRecord = Callable[..., RunRecord]
ACT = Act(
    act_id="20261201T000000Z-quarantine-0a1b2c",
    kind=ActKind.QUARANTINE,
    target="r1",
    reason="hot",
    made_at="2026-12-01T00:00:00Z",
)


def _digest(place: Place, run_id: str) -> str:
    return index.find(place, run_id).digest


def _series(place: Place) -> dict[str, list[dict[str, object]]]:
    """Every row of every series, in order, all columns but the position."""
    keys = [one.key for one in index.all_keys(place)]
    return {key: [asdict(row) for row in index.series(place, key=key)] for key in keys}


def test_run_is_remembered_twice_over(place: Place, make_record: MakeRecord) -> None:
    """A remembered run is a record file and a row, with one digest; once more changes nothing."""
    check_ready(place)
    path, stored = remember(place, make_record())
    assert remember(place, make_record()) == (path, stored)
    row = index.find(place, "run-1")
    assert place.dir / row.path == path
    assert row.digest == record_to_plain(read_record(path))["digest"]
    assert read_record(path) == stored
    check_ready(place)


def test_each_run_names_the_one_before_it(place: Place, make_record: MakeRecord) -> None:
    """A record holds the digest of the run before it in its series, None for the first; series do not mix."""
    for name, shots in (("a", 5), ("x", 8), ("b", 5), ("c", 5), ("y", 8)):
        _, stored = remember(place, make_record(name, key_fields={"shots": shots}))
        assert read_record(place.dir / "runs" / name / "record.json") == stored
    previous = {name: read_record(place.dir / "runs" / name / "record.json").previous for name in "axbcy"}
    names = {None: None} | {_digest(place, name): name for name in "axbcy"}
    assert {name: names[digest] for name, digest in previous.items()} == {
        "a": None, "b": "a", "c": "b", "x": None, "y": "x",
    }  # fmt: skip
    assert index.find(place, "b").previous == previous["b"]


def test_a_chained_run_is_remembered_again_as_it_was(place: Place, make_record: MakeRecord) -> None:
    """Remembering a run once more after others keeps its place in the chain, also where its file is gone."""
    remember(place, make_record("a"))
    path, stored = remember(place, make_record("b"))
    remember(place, make_record("c"))
    assert remember(place, make_record("b")) == (path, stored)
    path.unlink()
    assert remember(place, make_record("b")) == (path, stored)
    assert read_record(path) == stored
    assert stored_ids(place) == ["c", "b", "a"]


def test_record_survives_a_bad_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """When the index cannot take a run its record is kept, and the error says where and what to do."""
    place = Place(dir=tmp_path)
    (tmp_path / INDEX_FILE).write_text("my notes")
    with pytest.raises(InfraError, match="not a database") as caught:
        remember(place, make_record())
    path = tmp_path / "runs" / "run-1" / "record.json"
    assert str(path) in caught.value.hint
    assert f"gatekit history sync --dir {tmp_path}" in caught.value.hint
    assert f"gatekit history rebuild --dir {tmp_path}" in caught.value.hint
    assert read_record(path) == make_record()
    (tmp_path / INDEX_FILE).rename(tmp_path / "notes")
    assert rebuild(place) == Rebuilt(added=1, known=0, problems=())


def test_run_is_kept_while_the_index_is_locked(tmp_path: Path, make_record: MakeRecord) -> None:
    """T03: a lock is waited for up to the limit; then the record is kept unchained, and `sync` adds it once."""
    place = Place(dir=tmp_path)
    remember(place, make_record("a"))
    with closing(sqlite3.connect(tmp_path / INDEX_FILE, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InfraError, match=r"locked for 0\.3 s") as caught:
            remember(place, make_record("b"), limit_s=0.3)
    assert f"`gatekit history sync --dir {tmp_path}` adds it" in caught.value.hint
    assert read_record(tmp_path / "runs/b/record.json").previous is None
    remember(place, make_record("c"))
    assert sync(place) == Rebuilt(added=1, known=2, problems=())
    assert sync(place) == Rebuilt(added=0, known=3, problems=())
    assert stored_ids(place) == ["b", "c", "a"]
    _, stored = remember(place, make_record("d"))
    assert stored.previous == _digest(place, "b")


def test_same_run_id_of_two_machines(postgres: PostgresServer, tmp_path: Path, make_record: MakeRecord) -> None:
    """T13: the second of two machines that push one run id is refused with both digests; its record stays there."""
    url = postgres.url(postgres.new_database())
    first, second = (Place(dir=tmp_path / name, url=url) for name in ("one", "two"))
    remember(first, make_record())
    with pytest.raises(InfraError) as caught:
        remember(second, make_record(build="0.11"))
    there = read_stored(second.dir / "runs/run-1/record.json")
    assert caught.value.reason == "run-id-taken"
    assert _digest(first, "run-1") in caught.value.message
    assert there.digest in caught.value.message
    assert str(there.path) in caught.value.hint
    assert stored_ids(first) == ["run-1"]
    assert _digest(second, "run-1") == read_stored(first.dir / "runs/run-1/record.json").digest
    (problem,) = rebuild(second).problems
    assert there.digest in problem


def test_same_run_on_two_machines_is_one(postgres: PostgresServer, tmp_path: Path, make_record: MakeRecord) -> None:
    """The same run remembered on a second machine gets the place in the chain that it has, and no second row."""
    url = postgres.url(postgres.new_database())
    first, second = (Place(dir=tmp_path / name, url=url) for name in ("one", "two"))
    remember(first, make_record("a"))
    _, stored = remember(first, make_record("b"))
    remember(first, make_record("c"))
    assert remember(second, make_record("b"))[1] == stored
    assert stored_ids(second) == ["c", "b", "a"]


def test_unusable_history_is_found_before_a_run(tmp_path: Path) -> None:
    """An index that could not take the run is found before the run starts."""
    (tmp_path / INDEX_FILE).write_text("my notes")
    with pytest.raises(InfraError, match="not a database"):
        check_ready(Place(dir=tmp_path))


def test_rebuild_adds_what_is_missing_in_order(place: Place, make_record: MakeRecord) -> None:
    """A rebuild adds the missing runs in the order they finished, after those that are there."""
    remember(place, make_record("known", finished_at="2026-12-31T00:00:00Z"))
    for run_id, day in (("a", "03"), ("b", "01"), ("c", "02")):
        write_record(place.dir, make_record(run_id, finished_at=f"2026-11-{day}T00:00:00Z"))
    assert rebuild(place) == Rebuilt(added=3, known=1, problems=())
    assert stored_ids(place) == ["a", "c", "b", "known"]
    assert rebuild(place) == Rebuilt(added=0, known=4, problems=())


def test_rebuild_reports_every_record_it_cannot_add(place: Place, make_record: MakeRecord) -> None:
    """A broken, misplaced or replaced record is a problem with its path, and the others are added."""
    broken = write_record(place.dir, make_record("broken"))
    broken.write_text("{}")
    moved = write_record(place.dir, make_record("moved")).parent
    moved.rename(moved.with_name("elsewhere"))
    index.add(place, make_record("replaced", build="another"))
    write_record(place.dir, make_record("replaced"))
    write_record(place.dir, make_record("good"))
    (place.dir / "runs" / "unfinished").mkdir()
    rebuilt = rebuild(place)
    assert (rebuilt.added, rebuilt.known) == (1, 0)
    assert len(rebuilt.problems) == 3
    for problem, name in zip(rebuilt.problems, (str(broken), "elsewhere", "replaced"), strict=True):
        assert name in problem
    assert stored_ids(place) == ["good", "replaced"]


def test_sync_reads_only_what_the_index_misses(place: Place, make_record: MakeRecord) -> None:
    """`sync` adds missing records and acts; those that are in the index are not read, broken or not."""
    path, _ = remember(place, make_record("a"))
    path.write_text("{}")
    write_record(place.dir, make_record("b"))
    assert sync(place) == Rebuilt(added=1, known=1, problems=())
    assert stored_ids(place) == ["b", "a"]


def test_rebuild_stops_at_an_unusable_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """An index that takes no run is one error, not one problem per record."""
    place = Place(dir=tmp_path)
    write_record(tmp_path, make_record())
    (tmp_path / INDEX_FILE).write_text("my notes")
    for deed in (rebuild, sync):
        with pytest.raises(InfraError, match="not a database"):
            deed(place)


def test_rebuild_of_nothing_makes_nothing(tmp_path: Path) -> None:
    """A rebuild without records leaves no file behind."""
    place = Place(dir=tmp_path / "none")
    for deed in (rebuild, sync):
        assert deed(place) == Rebuilt(added=0, known=0, problems=())
    assert list(tmp_path.iterdir()) == []


def test_rebuilt_index_is_the_original(
    place: Place, postgres: PostgresServer, tmp_path: Path, make_record: MakeRecord
) -> None:
    """From the files alone the other database gets the same rows in the same order of each series, and the acts;
    clocks that were wrong and runs that were kept while the index was away do not change it."""
    days = [30, 12, 28, 1, 5, 17]
    for number, day in enumerate(days):
        finished = f"2026-11-{day:02}T00:00:00Z"
        remember(place, make_record(f"r{number}", key_fields={"shots": number % 2}, finished_at=finished))
    for number, day in enumerate((2, 3)):  # these were kept, and synced after the runs above
        kept = make_record(f"kept{number}", key_fields={"shots": 1}, finished_at=f"2026-12-0{day}T00:00:00Z")
        write_record(place.dir, kept)
    sync(place)
    for number in range(3):
        late = make_record(f"late{number}", key_fields={"shots": 1}, finished_at=f"2026-12-1{3 - number}T00:00:00Z")
        remember(place, replace(late, supersedes=f"r{number}"))
    record_act(place, ACT)
    url = postgres.url(postgres.new_database())
    anew = Place(dir=place.dir, url=url if place.url is None else None)
    assert rebuild(anew) == Rebuilt(added=11, known=0, problems=())
    assert _series(anew) == _series(place)
    assert index.acts(anew) == index.acts(place) == (ACT,)
