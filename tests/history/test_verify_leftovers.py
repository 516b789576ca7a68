"""What verify finds beside records and rows, and what sync does about it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import here
from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.arrivals import arrivals_path
from gatekit.history.leftovers import GRACE_S
from gatekit.history.place import Place
from gatekit.history.remember import check_ready, remember, sync
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord
from postgres_server import PostgresServer

MakeRecord = Callable[..., RunRecord]


def test_an_order_behind_a_dangling_link_is_never_taken_for_noted(place: Place, make_record: MakeRecord) -> None:
    """No arrival could be noted: verify finds it, a run does not start, sync says it, without the link heals it."""
    remember(place, make_record("a"))
    path = arrivals_path(place)
    path.unlink()
    path.symlink_to(path.with_name("gone"))
    assert [one.reason for one in verify(place).findings] == ["arrivals-lost"]
    for use in (check_ready, sync):
        with pytest.raises(InfraError, match="a link to a file that is not there"):
            use(place)
    path.unlink()
    sync(place)
    remember(place, make_record("b"))
    assert (verify(place).findings, verify(place).notes) == ((), ())


def test_what_a_killed_writer_left_is_noted_and_removed(tmp_path: Path, make_record: MakeRecord) -> None:
    """Unfinished files are told once their writer cannot be there any more, and sync removes them alone."""
    place = Place(dir=tmp_path)
    record = remember(place, make_record("a"))[0]
    old, young = (record.with_name(f".record.json.{name}.tmp") for name in ("old", "young"))
    (tmp_path / "acts").mkdir()
    act = tmp_path / "acts" / ".x.json.old.tmp"
    for path in (old, young, act):
        path.write_bytes(b"{")
    long_ago = time.time() - GRACE_S - 60
    for path in (old, act):
        os.utime(path, (long_ago, long_ago))
    (note,) = verify(place).notes
    assert "2 unfinished files" in note
    assert here(tmp_path, "history", "sync", "--dir", ".").code == 0
    assert (old.exists(), act.exists(), young.exists(), record.exists()) == (False, False, True, True)
    assert verify(place).notes == ()


def test_an_index_that_was_blown_up_is_found_at_once(tmp_path: Path, make_record: MakeRecord) -> None:
    """A sparse file of 40 GiB is not read to its end to see that it is not what was written."""
    place = Place(dir=tmp_path)
    remember(place, make_record("a"))
    os.truncate(place.file, 40 * 1024**3)
    start = time.monotonic()
    found = verify(place).findings
    assert "index-changed" in [one.reason for one in found]
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("column", ["n", "position"])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_column_of_another_type_is_found(
    postgres: PostgresServer, postgres_place: Place, make_record: MakeRecord, column: str, is_elsewhere: bool
) -> None:
    """Equal is not enough: what no command reads any more is no row that is well, of this machine or of another."""
    remember(postgres_place, make_record("a"))
    database = str(postgres_place.url).rpartition("/")[2].partition("?")[0]
    identity = "ALTER TABLE runs ALTER COLUMN position DROP IDENTITY; " if column == "position" else ""
    postgres.execute(f"{identity}ALTER TABLE runs ALTER COLUMN {column} TYPE float8", database=database)
    if column == "n":
        with pytest.raises(InfraError):
            index.list_runs(postgres_place, limit=1)
    place = Place(dir=postgres_place.dir / "other", url=postgres_place.url) if is_elsewhere else postgres_place
    assert verify(place).findings
