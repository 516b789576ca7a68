"""The index in a SQLite file."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.tables import INDEX_VERSION
from gatekit.records.run import RunRecord

MakeRecord = Callable[..., RunRecord]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty history in a folder."""
    return Place(dir=tmp_path)


def _open(place: Place) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(place.dir / "index.sqlite", isolation_level=None))


def _bytes(place: Place) -> bytes:
    return (place.dir / "index.sqlite").read_bytes()


def _names(place: Place) -> set[str]:
    return {path.name for path in place.dir.iterdir()} - {"index.sqlite.seal", "arrivals.jsonl"}


def test_same_run_twice_leaves_the_file_alone(place: Place, make_record: MakeRecord) -> None:
    """Adding a run again writes nothing."""
    index.add(place, make_record())
    before = _bytes(place)
    assert index.add(place, make_record()) is False
    assert _bytes(place) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET correct = 1319",
        "DELETE FROM runs",
        "INSERT OR REPLACE INTO runs SELECT * FROM runs",
        "REPLACE INTO runs SELECT 10, {columns} FROM runs",
        "UPDATE OR REPLACE runs SET position = 7",
        "UPDATE keys SET fields = '{{}}'",
        "INSERT OR REPLACE INTO gates SELECT digest, '{{}}' FROM gates",
        "DELETE FROM gates",
    ],
)
def test_rows_cannot_be_changed_by_anybody(place: Place, make_record: MakeRecord, statement: str) -> None:
    """T09: changing, deleting and replacing are refused on any connection, gatekit's or another program's."""
    index.add(place, make_record())
    before = _bytes(place)
    with _open(place) as connection:
        columns = [f'"{row[1]}"' for row in connection.execute("PRAGMA table_info(runs)")][1:]
        with pytest.raises(sqlite3.IntegrityError, match="are never"):
            connection.execute(statement.format(columns=", ".join(columns)))
    assert _bytes(place) == before


def test_file_is_private_and_has_a_rollback_journal(place: Place, make_record: MakeRecord) -> None:
    """The index is 0600, identifies itself, and is not in write-ahead mode."""
    index.add(place, make_record())
    assert (place.dir / "index.sqlite").stat().st_mode & 0o7777 == 0o600
    with _open(place) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA user_version").fetchone() == (INDEX_VERSION,)
        assert connection.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"gate", "big"),)
    assert _names(place) == {"index.sqlite"}


USES: list[Callable[[Place, RunRecord], object]] = [
    index.add,
    lambda place, record: index.list_runs(place, limit=1),
    lambda place, record: index.comparable(place, record.comparability.key),
    lambda place, record: index.prepare(place),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_newer_index_is_not_touched(
    place: Place, make_record: MakeRecord, use: Callable[[Place, RunRecord], object], journal: str
) -> None:
    """T05: an index of a newer gatekit is refused by every function, its bytes unchanged."""
    index.add(place, make_record())
    with _open(place) as connection:
        connection.execute(f"PRAGMA user_version = {INDEX_VERSION + 1}")
        connection.execute(f"PRAGMA journal_mode = {journal}")
    before = _bytes(place)
    with pytest.raises(InfraError, match="made by a newer gatekit") as caught:
        use(place, make_record("other"))
    assert caught.value.reason == "history-newer"
    assert _bytes(place) == before
    assert _names(place) == {"index.sqlite"}


@pytest.mark.parametrize("use", USES)
def test_text_file_is_not_touched(
    place: Place, make_record: MakeRecord, use: Callable[[Place, RunRecord], object]
) -> None:
    """T04: a text file in the place of the index is refused by every function, its bytes unchanged."""
    path = place.dir / "index.sqlite"
    path.write_text("my notes\n" * 500)
    with pytest.raises(InfraError, match="not a database") as caught:
        use(place, make_record())
    assert str(path) in caught.value.message
    assert path.read_text() == "my notes\n" * 500


@pytest.mark.parametrize("use", USES)
def test_other_database_is_not_touched(
    place: Place, make_record: MakeRecord, use: Callable[[Place, RunRecord], object]
) -> None:
    """The database of another program is refused by every function, its bytes unchanged."""
    with _open(place) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = _bytes(place)
    with pytest.raises(InfraError, match="another program"):
        use(place, make_record())
    assert _bytes(place) == before


def test_damaged_index_is_named(place: Place, make_record: MakeRecord) -> None:
    """A damaged index is an InfraError with its path and the way to a new one."""
    for number in range(40):
        index.add(place, make_record(f"r{number}"))
    path = place.dir / "index.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(InfraError, match="damaged") as caught:
        index.list_runs(place, limit=100)
    assert str(path) in caught.value.message
    assert "gatekit history rebuild" in caught.value.hint


def test_folder_in_the_place_of_the_index(place: Place, make_record: MakeRecord) -> None:
    """Even a folder where the index should be is an InfraError with the path."""
    (place.dir / "index.sqlite").mkdir()
    with pytest.raises(InfraError, match="not a regular file") as caught:
        index.add(place, make_record())
    assert str(place.dir / "index.sqlite") in caught.value.message


def test_lock_is_waited_for_and_then_named(place: Place, make_record: MakeRecord) -> None:
    """A write lock held too long is an InfraError that says how long was waited and how to go on."""
    index.add(place, make_record())
    with _open(place) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InfraError, match=r"locked for 0\.2 s") as caught:
            index.add(place, make_record("late"), limit_s=0.2)
        assert [row.run_id for row in index.list_runs(place, limit=10)] == ["run-1"]
    assert caught.value.reason == "history-locked"
    assert "gatekit history rebuild" in caught.value.hint
    assert index.add(place, make_record("late")) is True


def test_full_disk_is_named(mounted_tmpfs: Callable[[str], Path], make_record: MakeRecord) -> None:
    """A disk that fills up under the index is an InfraError; the rows that were there stay."""
    place = Place(dir=mounted_tmpfs("size=1m"))
    index.add(place, make_record())
    filler = place.dir / "filler"
    while shutil.disk_usage(place.dir).free:
        with filler.open("ab", buffering=0) as file:
            file.write(b"x" * 4096)
    with pytest.raises(InfraError) as caught:
        index.add(place, make_record("big", build="x" * 20_000))
    assert caught.value.reason == "disk-full"
    assert "bytes left" in caught.value.message
    filler.unlink()
    assert [row.run_id for row in index.list_runs(place, limit=10)] == ["run-1"]
