"""The seal of the database file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.remember import rebuild, remember, sync
from gatekit.history.seal import SealState, check, seal_path
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord

MakeRecord = Callable[..., RunRecord]

_WRITES = """
    import os, sqlite3, sys
    from pathlib import Path
    from gatekit.history.seal import sealing
    path = Path(sys.argv[1])
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_spill = OFF")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE IF NOT EXISTS more (a)")
    connection.execute("INSERT INTO more VALUES (1)")
    with sealing(path):
        if sys.argv[2] == "before":
            os._exit(9)
        connection.execute("COMMIT")
        os._exit(9)
"""


@pytest.fixture
def sealed(tmp_path: Path, make_record: MakeRecord) -> Path:
    """The database file of a history with one run."""
    remember(Place(dir=tmp_path), make_record("run-1"))
    return tmp_path / "index.sqlite"


def _flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place // 8)
        byte = file.read(1)[0]
        file.seek(place // 8)
        file.write(bytes([byte ^ 1 << place % 8]))


def test_every_commit_is_sealed(sealed: Path, make_record: MakeRecord) -> None:
    """After each write the seal is private, says so, and fits the file."""
    assert check(sealed).state is SealState.INTACT
    assert seal_path(sealed).stat().st_mode & 0o777 == 0o600
    before = seal_path(sealed).read_bytes()
    remember(Place(dir=sealed.parent), make_record("run-2"))
    assert seal_path(sealed).read_bytes() != before
    assert check(sealed).state is SealState.INTACT


def test_nothing_written_is_nothing_sealed(sealed: Path) -> None:
    """A transaction that changes nothing does not read the whole file, and leaves the seal alone."""
    before = seal_path(sealed).stat()
    index.prepare(Place(dir=sealed.parent))
    after = seal_path(sealed).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_the_commit_is_no_alarm(sealed: Path, make_record: MakeRecord, moment: str) -> None:
    """A process that dies just before or after its commit leaves a file that is not sealed; the next write seals."""
    command = [sys.executable, "-c", textwrap.dedent(_WRITES), str(sealed), moment]
    assert subprocess.run(command).returncode == 9
    assert check(sealed).state is SealState.OPEN
    place = Place(dir=sealed.parent)
    verified = verify(place)
    assert verified.findings == ()
    assert "is not sealed" in verified.notes[0]
    remember(place, make_record("run-2"))
    assert check(sealed).state is SealState.INTACT
    assert verify(place).notes == ()


def test_a_flip_between_commits_is_not_sealed_in(sealed: Path, make_record: MakeRecord) -> None:
    """A change of a free byte stays known after later commits, until the index is made anew."""
    size = sealed.stat().st_size
    free = sealed.read_bytes().rfind(bytes(64))  # unused space of some page
    assert 0 < free < size
    _flip(sealed, 8 * free + 3)
    place = Place(dir=sealed.parent)
    assert [finding.reason for finding in verify(place).findings] == ["index-changed"]
    for number in (2, 3):
        remember(place, make_record(f"run-{number}"))
        assert check(sealed).state is SealState.DOUBTED
    (finding,) = verify(place).findings
    assert "before it was written again" in finding.what
    assert "move index.sqlite away" in finding.hint
    sealed.rename(sealed.with_name("away"))
    rebuild(place)
    assert verify(place).findings == ()


def test_another_program_that_writes_is_found(sealed: Path) -> None:
    """A change through SQLite that is not gatekit's own is a change."""
    connection = sqlite3.connect(sealed)
    connection.execute("CREATE TABLE mine (a)")
    connection.commit()
    connection.close()
    assert [finding.reason for finding in verify(Place(dir=sealed.parent)).findings] == ["index-changed"]


def test_a_damaged_seal_is_found_and_mended(sealed: Path) -> None:
    """Every single bit of the seal counts; `sync`, as any write, seals anew."""
    path = seal_path(sealed)
    data = path.read_bytes()
    for place in range(0, 8 * len(data), 7):
        _flip(path, place)
        assert check(sealed).state is SealState.DAMAGED, place
        _flip(path, place)
    _flip(path, 5)
    index.prepare(Place(dir=sealed.parent))
    assert check(sealed).state is SealState.INTACT


def test_a_seal_that_cannot_be_written_stops_the_commit(sealed: Path, make_record: MakeRecord) -> None:
    """Without `writing` on the disk there is no commit: a stale seal would be a false alarm."""
    seal_path(sealed).unlink()
    seal_path(sealed).mkdir()
    (seal_path(sealed) / "in the way").touch()
    with pytest.raises(InfraError, match=r"index\.sqlite\.seal"):
        remember(Place(dir=sealed.parent), make_record("run-2"))
    connection = sqlite3.connect(sealed)
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    connection.close()


def test_a_writer_that_hangs_is_waited_for_so_long(sealed: Path, make_record: MakeRecord) -> None:
    """Who cannot have the turn to seal within the limit says so, and has committed nothing."""
    program = (
        "import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)\nprint(1, flush=True)\n"
    )
    command = [sys.executable, "-c", program + "sys.stdin.read()", str(sealed.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(InfraError) as caught:
            remember(Place(dir=sealed.parent), make_record("run-2"), limit_s=0.2)
        other.kill()
    assert caught.value.reason == "history-locked"
    assert check(sealed).state is SealState.INTACT
    assert sync(Place(dir=sealed.parent)).added == 1


def test_writers_at_once_never_look_like_damage(sealed: Path) -> None:
    """While three processes write, the file is intact or not sealed, never broken; at the end it is intact."""
    writes = _WRITES.replace("        os._exit(9)\n", "        pass\n").replace("os._exit(9)", "pass")
    loop = textwrap.dedent(writes)
    body = "for _ in range(40):\n" + textwrap.indent(loop[loop.index('connection.execute("BEGIN') :], "    ")
    program = loop[: loop.index('connection.execute("BEGIN')] + body
    command = [sys.executable, "-c", program, str(sealed), "after"]
    writers = [subprocess.Popen(command) for _ in range(3)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(check(sealed).state)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen <= {SealState.INTACT, SealState.OPEN}
    assert check(sealed).state is SealState.INTACT
    connection = sqlite3.connect(sealed)
    assert connection.execute("SELECT count(*) FROM more").fetchone() == (120,)
    connection.close()


def test_sealing_keeps_the_lock_of_sqlite(sealed: Path) -> None:
    """Reading the file for its seal does not drop the POSIX locks that SQLite holds in the same process."""
    connection = sqlite3.connect(sealed, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        check(sealed)
    program = (
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "try:\n    c.execute('BEGIN IMMEDIATE')\nexcept sqlite3.OperationalError:\n    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(sealed)]).returncode == 7
    connection.execute("ROLLBACK")
    connection.close()


def test_descriptors_stay_few(tmp_path: Path, make_record: MakeRecord) -> None:
    """However many databases a process sees, it keeps a few descriptors open."""
    for number in range(40):
        remember(Place(dir=tmp_path / str(number)), make_record("run-1"))
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    names = [str(link.readlink()) for link in links if link.is_symlink()]
    assert sum(str(tmp_path) in name for name in names) <= 32
