"""Names in a history that lead to pipes, devices, nowhere, or to what this user may not see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import environment, gatekit, here, within_rights
from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.place import INDEX_FILE, Place
from gatekit.history.remember import check_ready, rebuild, remember, sync
from gatekit.history.seal import seal_path
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord

MakeRecord = Callable[..., RunRecord]
SIM = ("engine.latency={}", "engine.seed=0", "task.n=20", "--allow-inconclusive")
COMMANDS = (("list",), ("plot",), ("export", "-"), ("sync",), ("verify",))


@pytest.fixture
def place(tmp_path: Path, make_record: MakeRecord) -> Place:
    """A history with one run."""
    place = Place(dir=tmp_path / ".gatekit")
    remember(place, make_record("run-1"))
    return place


@pytest.mark.parametrize("name", [INDEX_FILE, f"{INDEX_FILE}-journal"])
@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_no_command_waits_at_a_pipe_or_a_device(place: Place, make_record: MakeRecord, name: str, kind: str) -> None:
    """A pipe or an endless device in the place of the index, or of its journal, is told by every command at once."""
    path = place.dir / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for command in COMMANDS:
        ran = gatekit(place.dir.parent, "history", *command, timeout_s=20)
        assert ran.code == 3, (command, ran)
        assert "not a regular file" in ran.out + ran.err
    ran = gatekit(place.dir.parent, *SIM, timeout_s=20)
    assert (ran.code, ran.out) == (3, "")


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_a_record_that_is_no_file_is_told(place: Place, kind: str) -> None:
    """The same in the place of a record or its seal: verify names it, and nothing hangs."""
    for path in (place.dir / "runs" / "run-1" / "record.json", seal_path(place.file)):
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
        ran = gatekit(place.dir.parent, "history", "verify", timeout_s=20)
        assert ran.code == 3
        assert path.name in ran.out
        path.unlink()
        path.write_bytes(kept)
    assert gatekit(place.dir.parent, "history", "verify").code == 0


def test_an_index_may_be_a_link(place: Place, make_record: MakeRecord, tmp_path: Path) -> None:
    """A link to a regular file is followed: runs are added, sealed beside the file, and verify finds all well."""
    (tmp_path / "disk").mkdir()
    path = place.dir / INDEX_FILE
    path.rename(tmp_path / "disk" / "real.sqlite")
    seal_path(path).rename(seal_path(tmp_path / "disk" / "real.sqlite"))
    path.symlink_to("../disk/real.sqlite")
    for name in ("run-2", "run-3"):
        remember(place, make_record(name))
        verified = verify(place)
        assert (verified.findings, verified.notes) == ((), ())
    assert path.is_symlink()
    assert [row.run_id for row in index.list_runs(place, limit=9)] == ["run-3", "run-2", "run-1"]
    with (tmp_path / "disk" / "real.sqlite").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    assert "index-changed" in [finding.reason for finding in verify(place).findings]


@pytest.mark.parametrize("target", ["nowhere", "loop"])
@pytest.mark.parametrize("where", ["record.json", ""])
def test_a_record_that_leads_nowhere_is_told(place: Place, make_record: MakeRecord, target: str, where: str) -> None:
    """A record, or the folder of a run, that is a link to nowhere or to itself: verify, sync and rebuild name it."""
    remember(place, make_record("run-2"))
    path = place.dir / "runs" / "run-2" / where if where else place.dir / "runs" / "run-2"
    path.rename(place.dir.parent / "away")
    path.symlink_to(path if target == "loop" else "/nowhere/at/all")
    findings = verify(place).findings
    assert [finding.where for finding in findings if "run-2/record.json" in finding.what], findings
    assert any("run-2/record.json" in problem for problem in rebuild(place).problems)
    (place.dir / INDEX_FILE).unlink()
    rebuild(place)
    assert any("run-2/record.json" in problem for problem in sync(place).problems)


def test_a_run_that_was_interrupted_is_no_record(place: Place) -> None:
    """A folder without a record, and a file among the folders, are nobody's loss."""
    (place.dir / "runs" / "interrupted").mkdir()
    (place.dir / "runs" / "README").write_text("mine")
    assert verify(place).findings == ()
    assert rebuild(place).problems == ()


def test_a_lost_seal_is_found_and_made_anew(place: Place) -> None:
    """The seal is on the disk before the first commit, so that none is a loss: exit 3, and the command that mends."""
    seal_path(place.file).unlink()
    found = here(place.dir.parent, "history", "verify")
    assert found.code == 3
    assert "its seal is gone" in found.out
    assert "`gatekit history sync --dir .gatekit` seals the file anew" in found.out
    assert here(place.dir.parent, "history", "sync").code == 0
    assert here(place.dir.parent, "history", "verify").code == 0


def test_what_a_killed_writer_left_is_cleaned(place: Place, make_record: MakeRecord) -> None:
    """The next commit removes half-written seals, and nothing else."""
    left = place.dir / f".{INDEX_FILE}.seal.abc123.tmp"
    other = place.dir / ".mine.tmp"
    for path in (left, other):
        path.write_text("half")
    remember(place, make_record("run-2"))
    assert (left.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("name", ["a-file/inside", "x" * 300, "loop/inside"])
def test_a_folder_that_cannot_be_is_exit_3_or_2(tmp_path: Path, name: str) -> None:
    """A name below a file, one that is too long, one in a circle: one line, and never a bug in gatekit."""
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    ran = here(tmp_path, f"history.dir={name}", *SIM)
    assert (ran.code, ran.out, ran.err.count("[")) == (3, "", 1), ran.err
    for command in COMMANDS:
        told = here(tmp_path, "history", *command, "--dir", name)
        assert told.code in (2, 3), told
        assert told.err.count("\n") == 1


def test_a_name_that_no_file_can_have(tmp_path: Path, make_record: MakeRecord) -> None:
    """A zero byte in the folder's name is an InfraError, whoever asks."""
    place = Place(dir=tmp_path / "a\0b")
    asks: list[Callable[[], object]] = [
        lambda: check_ready(place),
        lambda: remember(place, make_record("run-1")),
        lambda: index.list_runs(place, limit=1),
        lambda: rebuild(place),
    ]
    for ask in asks:
        with pytest.raises(InfraError):
            ask()


def _as_anyone(folder: Path, *arguments: str, shell: str = "true") -> tuple[int, str, str]:
    """The command as somebody whom rights stop, after a line of shell."""
    line = [*within_rights(), "sh", "-c", f'{shell} && exec "$@"', "sh", sys.executable, "-m", "gatekit", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", [".gatekit", ".gatekit/runs", ".gatekit/runs/a", ".gatekit/acts"])
def test_a_folder_without_rights_is_exit_3(tmp_path: Path, closed: str) -> None:
    """Whatever folder of a history may not be looked into: every command says so in exit 3, none is a bug."""
    folder = tmp_path
    assert _as_anyone(tmp_path, *SIM, "--run-id", "a")[0] == 0
    assert _as_anyone(tmp_path, "history", "quarantine", "a", "--reason", "hot")[0] == 0
    (folder / closed).chmod(0)
    try:
        for command in (("list",), ("show", "a"), ("export", "-"), ("sync",), ("rebuild",), ("verify",), ("plot",)):
            code, out, err = _as_anyone(tmp_path, "history", *command)
            is_needed = closed in (".gatekit", ".gatekit/runs") or command[0] in ("verify", "rebuild")
            assert code in ((3,) if closed == ".gatekit" else (0, 3)), (command, out, err)
            assert "internal" not in err
            if is_needed and command[0] in ("verify", "rebuild"):
                assert code == 3, (command, out, err)
        code, _, err = _as_anyone(tmp_path, *SIM, "--run-id", "a")
        assert code in (2, 3), err
        code, _, err = _as_anyone(tmp_path, *SIM, "--run-id", "b")
        assert code == (3 if closed in (".gatekit", ".gatekit/runs") else 0), err
    finally:
        (folder / closed).chmod(0o700)


@pytest.mark.parametrize("mask", ["777", "277", "000"])
def test_an_odd_umask_locks_nobody_out(tmp_path: Path, mask: str) -> None:
    """Whatever the umask: what gatekit wrote is 0600 and 0700, and it reads all of it back."""
    folder = tmp_path
    for number in range(2):
        code, _, err = _as_anyone(tmp_path, *SIM, "--run-id", f"run-{number}", shell=f"umask {mask}")
        assert code == 0, err
    assert _as_anyone(tmp_path, "history", "quarantine", "run-0", "--reason", "hot", shell=f"umask {mask}")[0] == 0
    assert _as_anyone(tmp_path, "history", "verify", shell=f"umask {mask}")[0] == 0
    assert _as_anyone(tmp_path, "history", "export", "out.jsonl", shell=f"umask {mask}")[0] == 0
    (folder / ".gatekit" / INDEX_FILE).unlink()
    assert _as_anyone(tmp_path, "history", "rebuild", shell=f"umask {mask}")[0] == 0
    modes = {path: path.stat().st_mode & 0o777 for path in (folder / ".gatekit").rglob("*")}
    assert {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
