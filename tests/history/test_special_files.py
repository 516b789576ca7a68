"""Names in a history that lead to pipes, devices, nowhere, or to what this user may not see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import here, within_rights
from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.place import INDEX_FILE, Place
from gatekit.history.remember import check_ready, rebuild, remember, sync
from gatekit.history.seal import seal_path
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord
from one_process import in_one_process

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
    *looked, run = in_one_process(place.dir.parent, *(("history", *command) for command in COMMANDS), SIM, timeout_s=60)
    for command, ran in zip(COMMANDS, looked, strict=True):
        assert ran.code == 3, (command, ran)
        assert "not a regular file" in ran.out + ran.err
    assert (run.code, run.out) == (3, "")


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_a_record_that_is_no_file_is_told(place: Place, kind: str) -> None:
    """The same in the place of a record or its seal: verify names it, and nothing hangs."""
    folder = place.dir.parent
    names = ("runs/run-1/record.json", seal_path(place.file).name)
    for number, name in enumerate(names):
        path = Path(shutil.copytree(place.dir, folder / f"h{number}")) / name
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    commands = [("history", "verify", "--dir", name) for name in ("h0", "h1", ".gatekit")]
    *found, whole = in_one_process(folder, *commands, timeout_s=60)
    for name, ran in zip(names, found, strict=True):
        assert ran.code == 3
        assert Path(name).name in ran.out
    assert whole.code == 0


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


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose history has one run, set aside. Only to be copied."""
    folder = tmp_path_factory.mktemp("one_run")
    assert here(folder, *SIM, "--run-id", "a").code == 0
    assert here(folder, "history", "quarantine", "a", "--reason", "hot").code == 0
    return folder


@pytest.mark.parametrize("closed", [".gatekit", ".gatekit/runs", ".gatekit/runs/a", ".gatekit/acts"])
def test_a_folder_without_rights_is_exit_3(tmp_path: Path, one_run: Path, closed: str) -> None:
    """Whatever folder of a history may not be looked into: every command says so in exit 3, none is a bug."""
    folder = Path(shutil.copytree(one_run, tmp_path / "work"))
    looks = (("list",), ("show", "a"), ("export", "-"), ("sync",), ("rebuild",), ("verify",), ("plot",))
    commands = [*(("history", *look) for look in looks), *((*SIM, "--run-id", name) for name in "ab")]
    (folder / closed).chmod(0)
    try:
        *looked, again, new = in_one_process(folder, *commands, before=within_rights())
    finally:
        (folder / closed).chmod(0o700)
    for command, ran in zip(looks, looked, strict=True):
        is_needed = closed in (".gatekit", ".gatekit/runs") or command[0] in ("verify", "rebuild")
        assert ran.code in ((3,) if closed == ".gatekit" else (0, 3)), (command, ran)
        assert "internal" not in ran.err
        if is_needed and command[0] in ("verify", "rebuild"):
            assert ran.code == 3, (command, ran)
    assert again.code in (2, 3), again.err
    assert new.code == (3 if closed in (".gatekit", ".gatekit/runs") else 0), new.err


@pytest.mark.parametrize("mask", ["777", "000"])
def test_an_odd_umask_locks_nobody_out(tmp_path: Path, mask: str) -> None:
    """T14: whatever the umask, every file of a history is 0600 and every folder 0700, records, logs and the index, and
    gatekit reads all of it back."""
    first = [
        *((*SIM, "--run-id", f"run-{number}") for number in range(2)),
        ("history", "quarantine", "run-0", "--reason", "hot"),
        ("history", "verify"),
        ("history", "export", "out.jsonl"),
    ]
    for ran in in_one_process(tmp_path, *first, before=within_rights(), umask=mask):
        assert ran.code == 0, ran.err
    (tmp_path / ".gatekit" / INDEX_FILE).unlink()
    (rebuilt,) = in_one_process(tmp_path, ("history", "rebuild"), before=within_rights(), umask=mask)
    assert rebuilt.code == 0, rebuilt.err
    modes = {path: path.stat().st_mode & 0o7777 for path in (tmp_path / ".gatekit").rglob("*")}
    assert len(modes) >= 10
    assert {path: oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}
