"""Record file first, index second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.records_folder import read_record, write_record
from gatekit.history.remember import Rebuilt, check_ready, rebuild, remember
from gatekit.records.run import RunRecord, record_to_plain

MakeRecord = Callable[..., RunRecord]


def _ids(history: Path) -> list[str]:
    return [row.run_id for row in index.list_runs(history, limit=1000)]


def test_run_is_remembered_twice_over(tmp_path: Path, make_record: MakeRecord) -> None:
    """A remembered run is a record file and a row, with one digest; once more changes nothing."""
    check_ready(tmp_path / "history")
    path = remember(tmp_path / "history", make_record())
    assert remember(tmp_path / "history", make_record()) == path
    row = index.find(tmp_path / "history", "run-1")
    assert tmp_path / "history" / row.path == path
    assert row.digest == record_to_plain(read_record(path))["digest"]
    check_ready(tmp_path / "history")


def test_record_survives_a_bad_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """When the index cannot take a run its record is kept, and the error says where and what to do."""
    (tmp_path / "index.sqlite").write_text("my notes")
    with pytest.raises(InfraError, match="not a database") as caught:
        remember(tmp_path, make_record())
    path = tmp_path / "runs" / "run-1" / "record.json"
    assert str(path) in caught.value.hint
    assert f"gatekit history rebuild --dir {tmp_path}" in caught.value.hint
    assert read_record(path) == make_record()
    (tmp_path / "index.sqlite").rename(tmp_path / "notes")
    assert rebuild(tmp_path) == Rebuilt(added=1, known=0, problems=())


def test_unusable_history_is_found_before_a_run(tmp_path: Path) -> None:
    """An index that could not take the run is found before the run starts."""
    (tmp_path / "index.sqlite").write_text("my notes")
    with pytest.raises(InfraError, match="not a database"):
        check_ready(tmp_path)


def test_rebuild_adds_what_is_missing_in_order(tmp_path: Path, make_record: MakeRecord) -> None:
    """A rebuild adds the missing runs in the order they finished, after those that are there."""
    remember(tmp_path, make_record("known", finished_at="2026-12-31T00:00:00Z"))
    for run_id, day in (("a", "03"), ("b", "01"), ("c", "02")):
        write_record(tmp_path, make_record(run_id, finished_at=f"2026-11-{day}T00:00:00Z"))
    assert rebuild(tmp_path) == Rebuilt(added=3, known=1, problems=())
    assert _ids(tmp_path) == ["a", "c", "b", "known"]
    assert rebuild(tmp_path) == Rebuilt(added=0, known=4, problems=())


def test_rebuild_reports_every_record_it_cannot_add(tmp_path: Path, make_record: MakeRecord) -> None:
    """A broken, misplaced or replaced record is a problem with its path, and the others are added."""
    broken = write_record(tmp_path, make_record("broken"))
    broken.write_text("{}")
    moved = write_record(tmp_path, make_record("moved")).parent
    moved.rename(moved.with_name("elsewhere"))
    index.add(tmp_path, make_record("replaced", build="another"))
    write_record(tmp_path, make_record("replaced"))
    write_record(tmp_path, make_record("good"))
    (tmp_path / "runs" / "unfinished").mkdir()
    rebuilt = rebuild(tmp_path)
    assert (rebuilt.added, rebuilt.known) == (1, 0)
    assert len(rebuilt.problems) == 3
    for problem, name in zip(rebuilt.problems, (str(broken), "elsewhere", "replaced"), strict=True):
        assert name in problem
    assert _ids(tmp_path) == ["good", "replaced"]


def test_rebuild_stops_at_an_unusable_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """An index that takes no run is one error, not one problem per record."""
    write_record(tmp_path, make_record())
    (tmp_path / "index.sqlite").write_text("my notes")
    with pytest.raises(InfraError, match="not a database"):
        rebuild(tmp_path)


def test_rebuild_of_nothing_makes_nothing(tmp_path: Path) -> None:
    """A rebuild without records leaves no file behind."""
    assert rebuild(tmp_path / "none") == Rebuilt(added=0, known=0, problems=())
    assert list(tmp_path.iterdir()) == []
