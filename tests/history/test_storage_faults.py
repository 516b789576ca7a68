"""Storage that is full or read-only, as a user meets it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from command_line import here
from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.records_folder import read_stored, record_path
from gatekit.history.remember import KeptError, remember, sync
from gatekit.history.verify import verify
from gatekit.records.answers import Status
from gatekit.records.run import RunRecord

SIM = ("engine.latency={}", "engine.seed=0", "gate.delta=null")
Mount = Callable[[str], Path]


def test_disk_full_at_the_end_of_a_run(mounted_tmpfs: Mount, tmp_path: Path) -> None:
    """T01: a disk that is full at the commit is INFRA 3 with path and free space; the numbers are printed as not
    recorded, and earlier runs are intact."""
    folder = mounted_tmpfs("size=1m")
    where = f"history.dir={folder}/h"
    place = Place(dir=folder / "h")
    big = (*SIM, "task.n=400", "--allow-inconclusive", "--run-id", "big")
    assert here(tmp_path, *big).code == 0
    sizes = {path.name: path.stat().st_size for path in (tmp_path / ".gatekit" / "runs" / "big").iterdir()}
    assert here(tmp_path, where, *SIM, "task.n=50", "--run-id", "earlier", "--allow-inconclusive").code == 0
    spare = sum(sizes.values()) - sizes["record.json"] // 2  # enough for all that is written before the record
    with (folder / "filler").open("wb") as file:
        file.write(b"x" * (shutil.disk_usage(folder).free - spare))
    ran = here(tmp_path, where, *big)
    assert ran.code == 3
    assert "400 in all" in ran.out
    assert "not recorded: cannot write" in ran.err
    assert "big/record.json" in ran.err
    assert "bytes left" in ran.err
    assert [row.run_id for row in index.list_runs(place, limit=9)] == ["earlier"]
    assert verify(place).findings == ()


def test_read_only_folder_is_found_before_anything_starts(mounted_tmpfs: Mount, tmp_path: Path) -> None:
    """T02: a history folder that cannot be written is INFRA 3 before the server starts."""
    folder = mounted_tmpfs("ro")
    ran = here(tmp_path, f"history.dir={folder}/h", *SIM)
    assert (ran.code, ran.out) == (3, "")
    assert "Read-only file system" in ran.err
    assert str(folder) in ran.err
    assert "starting engine" not in ran.err


def test_a_full_disk_is_told_as_it_is(mounted_tmpfs: Mount, make_record: Callable[..., RunRecord]) -> None:
    """T01: however much is left when a run ends, what is said is true: the record is whole in its file and the hint
    says so with the command that adds it, or there is none; never half of one, never a second copy."""
    folder = mounted_tmpfs("size=8m")  # files that the process has open keep their space
    statuses = (Status.CORRECT,) * 120  # a record of several pages
    said: set[type] = set()
    for spare in range(40):
        place = Place(dir=folder / f"h{spare}")
        remember(place, make_record("earlier"))
        with (folder / "filler").open("wb") as file:
            file.write(b"x" * max(0, shutil.disk_usage(folder).free - 4096 * spare))
        error = _error_of(place, make_record("late", statuses=statuses))
        is_there = record_path(place.dir, "late").exists()
        said.add(type(error))
        if isinstance(error, KeptError):
            assert read_stored(error.path).record == error.record
            assert f"kept in {error.path}, and `gatekit history sync --dir {place.dir}` adds it" in error.hint
        elif error is not None:
            assert (is_there, error.reason) == (False, "disk-full")
        assert list(place.dir.glob("runs/late/*.tmp")) == []
        (folder / "filler").unlink()
        sync(place)
        rows = [row.run_id for row in index.list_runs(place, limit=9)]
        assert rows == (["late", "earlier"] if is_there else ["earlier"])
        assert verify(place).findings == ()
        shutil.rmtree(place.dir)
    assert said == {type(None), KeptError, InfraError}


def _error_of(place: Place, record: RunRecord) -> InfraError | None:
    try:
        remember(place, record)
    except InfraError as error:
        return error
    return None
