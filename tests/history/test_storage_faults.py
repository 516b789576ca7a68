"""Storage that is full, read-only or open to others, as a user meets it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from command_line import environment, gatekit
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.verify import verify

SIM = ("engine.latency={}", "engine.seed=0", "gate.delta=null")
Mount = Callable[[str], Path]


def test_disk_full_at_the_end_of_a_run(mounted_tmpfs: Mount, tmp_path: Path) -> None:
    """T01: a disk that is full at the commit is INFRA 3 with path and free space; the numbers are printed as not
    recorded, and earlier runs are intact."""
    folder = mounted_tmpfs("size=1m")
    where = f"history.dir={folder}/h"
    place = Place(dir=folder / "h")
    assert gatekit(tmp_path, *SIM, "--run-id", "big").code == 0
    sizes = {path.name: path.stat().st_size for path in (tmp_path / ".gatekit" / "runs" / "big").iterdir()}
    assert gatekit(tmp_path, where, *SIM, "task.n=50", "--run-id", "earlier", "--allow-inconclusive").code == 0
    spare = sum(sizes.values()) - sizes["record.json"] // 2  # enough for all that is written before the record
    with (folder / "filler").open("wb") as file:
        file.write(b"x" * (shutil.disk_usage(folder).free - spare))
    ran = gatekit(tmp_path, where, *SIM, "--run-id", "big")
    assert ran.code == 3
    assert "1319 in all" in ran.out
    assert "not recorded: cannot write" in ran.err
    assert "big/record.json" in ran.err
    assert "bytes left" in ran.err
    assert [row.run_id for row in index.list_runs(place, limit=9)] == ["earlier"]
    assert verify(place).findings == ()


def test_read_only_folder_is_found_before_anything_starts(mounted_tmpfs: Mount, tmp_path: Path) -> None:
    """T02: a history folder that cannot be written is INFRA 3 before the server starts."""
    folder = mounted_tmpfs("ro")
    ran = gatekit(tmp_path, f"history.dir={folder}/h", *SIM)
    assert (ran.code, ran.out) == (3, "")
    assert "Read-only file system" in ran.err
    assert str(folder) in ran.err
    assert "starting engine" not in ran.err


def test_nothing_is_open_to_others(tmp_path: Path) -> None:
    """T14: with umask 000 every file of a history is 0600 and every folder 0700: records, logs and the index."""
    arguments = [sys.executable, "-m", "gatekit", *SIM, "task.n=20", "--allow-inconclusive"]
    command = ["sh", "-c", 'umask 000; exec "$@"', "sh", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modes = {
        str(path.relative_to(tmp_path)): path.stat().st_mode & 0o7777
        for path in tmp_path.rglob("*")
        if ".gatekit" in str(path)
    }
    assert len(modes) >= 5
    wrong = {
        name: oct(mode) for name, mode in modes.items() if mode != (0o700 if (tmp_path / name).is_dir() else 0o600)
    }
    assert wrong == {}
