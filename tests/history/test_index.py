"""The index over the records."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gatekit.errors import ConfigError, InfraError
from gatekit.history import index
from gatekit.history.records_folder import write_record
from gatekit.history.run_row import RunRow
from gatekit.records.answers import Status
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

ROOT = Path(__file__).resolve().parents[2]
MakeRecord = Callable[..., RunRecord]


def _open(history: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(history / "index.sqlite", isolation_level=None))


def _ids(rows: tuple[RunRow, ...]) -> list[str]:
    return [row.run_id for row in rows]


def test_row_holds_the_record_in_brief(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run comes back from the index with the values of its record."""
    record = make_record(statuses=(*[Status.CORRECT] * 3, Status.LOST, Status.NO_ANSWER), build=None)
    assert index.add(tmp_path, record) is True
    (row,) = index.list_runs(tmp_path, limit=10)
    assert row == RunRow(
        run_id="run-1",
        digest=record_to_plain(record)["digest"],
        comparability_key=record.comparability.key,
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
        measured=False,
        outcome=Outcome.PASS,
        reason_code="floor-met",
        simulated=False,
        started_at=record.started_at,
        finished_at=record.finished_at,
        path="runs/run-1/record.json",
    )
    assert (type(row.simulated), type(row.measured), type(row.outcome)) == (bool, bool, Outcome)


def test_newest_is_first_whatever_its_clock_said(tmp_path: Path, make_record: MakeRecord) -> None:
    """Runs are ordered by insertion, so that a record dated 2099 or 1970 stays where it came."""
    for number, year in enumerate((2026, 2099, 1970)):
        index.add(tmp_path, make_record(f"r{number}", finished_at=f"{year}-01-01T00:00:00Z"))
    assert _ids(index.list_runs(tmp_path, limit=10)) == ["r2", "r1", "r0"]
    assert _ids(index.list_runs(tmp_path, limit=1)) == ["r2"]


def test_lists_are_filtered_by_spec_and_model(tmp_path: Path, make_record: MakeRecord) -> None:
    """A filter keeps exactly the runs of that spec or model, also when its name is not valid Unicode."""
    index.add(tmp_path, make_record("a", spec_name="one"))
    index.add(tmp_path, make_record("b", model="x\ud800"))
    assert _ids(index.list_runs(tmp_path, limit=10, spec_name="one")) == ["a"]
    assert _ids(index.list_runs(tmp_path, limit=10, model="x\ud800")) == ["b"]
    assert _ids(index.list_runs(tmp_path, limit=10, model="' OR 1=1 --")) == []


def test_same_run_twice_is_one_row(tmp_path: Path, make_record: MakeRecord) -> None:
    """Adding a run again changes nothing and says so."""
    index.add(tmp_path, make_record())
    before = (tmp_path / "index.sqlite").read_bytes()
    assert index.add(tmp_path, make_record()) is False
    assert (tmp_path / "index.sqlite").read_bytes() == before


def test_other_content_is_refused(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run id with another digest is refused; the error names both digests."""
    first, second = make_record(), make_record(build="0.11")
    index.add(tmp_path, first)
    with pytest.raises(InfraError) as caught:
        index.add(tmp_path, second)
    assert caught.value.reason == "run-id-taken"
    for record in (first, second):
        assert record_to_plain(record)["digest"] in caught.value.message
    assert [row.build for row in index.list_runs(tmp_path, limit=10)] == [first.served and first.served.build]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET correct = 1319",
        "DELETE FROM runs",
        "INSERT OR REPLACE INTO runs SELECT * FROM runs",
        "REPLACE INTO runs SELECT position + 9, * FROM (SELECT {columns} FROM runs)",
        "UPDATE OR REPLACE runs SET position = 7",
    ],
)
def test_rows_cannot_be_changed(tmp_path: Path, make_record: MakeRecord, statement: str) -> None:
    """Changing, deleting and replacing a run are refused on any connection, gatekit's or another's."""
    index.add(tmp_path, make_record())
    before = (tmp_path / "index.sqlite").read_bytes()
    with _open(tmp_path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")][1:]
        sql = statement.replace("position + 9, *", f"10, {', '.join(columns)}").format(columns=", ".join(columns))
        with pytest.raises(sqlite3.IntegrityError, match="runs are never"):
            connection.execute(sql)
    assert (tmp_path / "index.sqlite").read_bytes() == before


def test_file_is_private_and_has_a_rollback_journal(tmp_path: Path, make_record: MakeRecord) -> None:
    """The index is 0600, identifies itself, and is not in write-ahead mode."""
    index.add(tmp_path, make_record())
    assert (tmp_path / "index.sqlite").stat().st_mode & 0o7777 == 0o600
    with _open(tmp_path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"gate", "big"),)
    assert [path.name for path in tmp_path.iterdir()] == ["index.sqlite"]


USES: list[Callable[[Path, RunRecord], object]] = [
    index.add,
    lambda history, record: index.list_runs(history, limit=1),
    lambda history, record: index.comparable(history, record.comparability.key),
    lambda history, record: index.prepare(history),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_newer_index_is_not_touched(
    tmp_path: Path, make_record: MakeRecord, use: Callable[[Path, RunRecord], object], journal: str
) -> None:
    """An index of a newer gatekit is refused by every function, its bytes unchanged."""
    index.add(tmp_path, make_record())
    with _open(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute(f"PRAGMA journal_mode = {journal}")
    before = (tmp_path / "index.sqlite").read_bytes()
    with pytest.raises(InfraError, match="made by a newer gatekit") as caught:
        use(tmp_path, make_record("other"))
    assert caught.value.reason == "history-newer"
    assert (tmp_path / "index.sqlite").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["index.sqlite"]


@pytest.mark.parametrize("use", USES)
def test_text_file_is_not_touched(
    tmp_path: Path, make_record: MakeRecord, use: Callable[[Path, RunRecord], object]
) -> None:
    """A text file in the place of the index is refused by every function, its bytes unchanged."""
    path = tmp_path / "index.sqlite"
    path.write_text("my notes\n" * 500)
    with pytest.raises(InfraError, match="not a database") as caught:
        use(tmp_path, make_record())
    assert str(path) in caught.value.message
    assert path.read_text() == "my notes\n" * 500


@pytest.mark.parametrize("use", USES)
def test_other_database_is_not_touched(
    tmp_path: Path, make_record: MakeRecord, use: Callable[[Path, RunRecord], object]
) -> None:
    """The database of another program is refused by every function, its bytes unchanged."""
    with _open(tmp_path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = (tmp_path / "index.sqlite").read_bytes()
    with pytest.raises(InfraError, match="another program"):
        use(tmp_path, make_record())
    assert (tmp_path / "index.sqlite").read_bytes() == before


def test_damaged_index_is_named(tmp_path: Path, make_record: MakeRecord) -> None:
    """A damaged index is an InfraError with its path and the way to a new one."""
    for number in range(40):
        index.add(tmp_path, make_record(f"r{number}"))
    path = tmp_path / "index.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(InfraError, match="damaged") as caught:
        index.list_runs(tmp_path, limit=100)
    assert str(path) in caught.value.message
    assert "gatekit history rebuild" in caught.value.hint


def test_folder_in_the_place_of_the_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """Even a folder where the index should be is an InfraError with the path."""
    (tmp_path / "index.sqlite").mkdir()
    with pytest.raises(InfraError, match="unable to open") as caught:
        index.add(tmp_path, make_record())
    assert str(tmp_path / "index.sqlite") in caught.value.message


def test_lock_is_waited_for_and_then_named(tmp_path: Path, make_record: MakeRecord) -> None:
    """A write lock held too long is an InfraError that says how long was waited and how to go on."""
    index.add(tmp_path, make_record())
    with _open(tmp_path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InfraError, match=r"locked for 0\.2 s") as caught:
            index.add(tmp_path, make_record("late"), busy_timeout_s=0.2)
        assert _ids(index.list_runs(tmp_path, limit=10)) == ["run-1"]
    assert caught.value.reason == "history-locked"
    assert "gatekit history rebuild" in caught.value.hint
    assert index.add(tmp_path, make_record("late")) is True


def test_nothing_is_found_and_made_in_an_empty_folder(tmp_path: Path) -> None:
    """Reading a history that does not exist gives nothing and creates nothing."""
    history = tmp_path / "none"
    assert index.list_runs(history, limit=10) == ()
    assert index.comparable(history, "sha256:0") == ()
    assert index.count_by_key(history, "tiny-cpu") == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("use", USES[1:])
def test_lost_index_is_not_an_empty_history(
    tmp_path: Path, make_record: MakeRecord, use: Callable[[Path, RunRecord], object]
) -> None:
    """Records without an index are an InfraError that names the rebuild, never "no runs"."""
    write_record(tmp_path, make_record())
    with pytest.raises(InfraError, match="missing or empty") as caught:
        use(tmp_path, make_record())
    assert "gatekit history rebuild" in caught.value.hint


def test_find_takes_an_id_or_a_unique_beginning(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run is found by its id or a beginning only it has; a whole id wins over longer ones."""
    for run_id in ("night", "night-1", "other_x", "otherAx"):
        index.add(tmp_path, make_record(run_id))
    assert index.find(tmp_path, "night").run_id == "night"
    assert index.find(tmp_path, "night-").run_id == "night-1"
    assert index.find(tmp_path, "other_").run_id == "other_x"


@pytest.mark.parametrize(
    ("run_id", "reason", "hint"),
    [
        ("nigth-1", "unknown-run", "night-1"),
        ("NIGHT", "unknown-run", "night"),
        ("n", "ambiguous-run", "night-2, night-1"),
        ("", "unknown-run", "night"),
        ("%", "unknown-run", "night"),
        ("\x1b[31m\ud800", "unknown-run", "night"),
    ],
)
def test_unknown_run_names_the_nearest(
    tmp_path: Path, make_record: MakeRecord, run_id: str, reason: str, hint: str
) -> None:
    """An unknown or ambiguous run is a ConfigError that names runs there are, in printable text."""
    for known in ("night-1", "night-2"):
        index.add(tmp_path, make_record(known))
    with pytest.raises(ConfigError) as caught:
        index.find(tmp_path, run_id)
    assert caught.value.reason == reason
    assert hint in caught.value.hint
    assert caught.value.lines()[0].isprintable()


def test_only_measurements_compare(tmp_path: Path, make_record: MakeRecord) -> None:
    """Comparable are the whole measurements under the same key, oldest first, without the run itself."""
    right, lost = (Status.CORRECT,) * 4, (*(Status.CORRECT,) * 3, Status.LOST)
    index.add(tmp_path, make_record("first", outcome=Outcome.FAIL))
    index.add(tmp_path, make_record("second", outcome=Outcome.INCONCLUSIVE))
    index.add(tmp_path, make_record("infra", outcome=Outcome.INFRA))
    index.add(tmp_path, make_record("one-lost", statuses=lost))
    index.add(tmp_path, make_record("stopped", statuses=right, planned=9))
    index.add(tmp_path, make_record("nothing", statuses=(), outcome=Outcome.INFRA))
    index.add(tmp_path, make_record("other-key", key_fields={"max_tokens": 512}))
    last = make_record("last")
    index.add(tmp_path, last)
    key = last.comparability.key
    assert _ids(index.comparable(tmp_path, key)) == ["first", "second", "last"]
    assert _ids(index.comparable(tmp_path, key, exclude_run_id="last")) == ["first", "second"]
    counts = index.count_by_key(tmp_path, "tiny-cpu")
    assert list(counts.values()) == [3, 1]
    assert counts[key] == 3


_ADD_ALL = """
import sys
from pathlib import Path
from gatekit.history import index
from gatekit.history.records_folder import read_record
records = [read_record(Path(line.strip())) for line in sys.stdin]
print("ready", flush=True)
for record in records:
    index.add(Path(sys.argv[1]), record)
"""


def _adder(history: Path, paths: list[Path]) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _ADD_ALL, str(history)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdin is not None
    child.stdin.write("".join(f"{path}\n" for path in paths))
    child.stdin.close()
    child.stdin = None
    return child


def test_processes_add_at_once(tmp_path: Path, make_record: MakeRecord) -> None:
    """Four processes that add fifty runs each, from the first on, give 200 rows and no error."""
    paths = [write_record(tmp_path / "source", make_record(f"r{number}")) for number in range(200)]
    children = [_adder(tmp_path / "history", paths[start::4]) for start in range(4)]
    for child in children:
        assert child.communicate(timeout=60) == ("ready\n", "")
        assert child.returncode == 0
    rows = index.list_runs(tmp_path / "history", limit=1000)
    assert sorted(_ids(rows)) == sorted(f"r{number}" for number in range(200))


def test_kill_leaves_a_whole_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """After SIGKILL in the middle of writing the index is whole and takes what is missing."""
    paths = [write_record(tmp_path / "source", make_record(f"r{number:03}")) for number in range(300)]
    history = tmp_path / "history"
    for wanted in (1, 40):
        child = _adder(history, paths)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        while len(_ids_so_far(history)) < wanted:
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.communicate()
        ids = _ids_so_far(history)
        assert ids == [f"r{number:03}" for number in reversed(range(len(ids)))]
        with _open(history) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _ids_so_far(history: Path) -> list[str]:
    return _ids(index.list_runs(history, limit=1000))


def test_full_disk_is_named(mounted_tmpfs: Callable[[str], Path], make_record: MakeRecord) -> None:
    """A disk that fills up under the index is an InfraError; the rows that were there stay."""
    folder = mounted_tmpfs("size=1m")
    index.add(folder, make_record())
    filler = folder / "filler"
    while shutil.disk_usage(folder).free:
        with filler.open("ab", buffering=0) as file:
            file.write(b"x" * 4096)
    with pytest.raises(InfraError) as caught:
        index.add(folder, make_record("big", build="x" * 20_000))
    assert caught.value.reason == "disk-full"
    assert "bytes left" in caught.value.message
    filler.unlink()
    assert _ids(index.list_runs(folder, limit=10)) == ["run-1"]
