"""The immutable record files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gatekit.errors import ConfigError, InfraError
from gatekit.history.records_folder import (
    check_run_id,
    check_writable,
    create_run_dir,
    read_record,
    read_stored,
    record_path,
    write_record,
)
from gatekit.records.canonical import canonical_json, digest
from gatekit.records.run import RunRecord, record_to_plain

ROOT = Path(__file__).resolve().parents[2]
MakeRecord = Callable[..., RunRecord]
Mount = Callable[[str], Path]


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_record_comes_back(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record read is the record written, and the file is its canonical JSON and a newline, alone."""
    record = make_record()
    path = write_record(tmp_path / "history", record)
    assert path == tmp_path / "history/runs/run-1/record.json"
    assert path.read_bytes() == canonical_json(record_to_plain(record)) + b"\n"
    assert read_record(path) == record
    assert _names(tmp_path) == [
        "history",
        "history/runs",
        "history/runs/run-1",
        "history/runs/run-1/record.json",
    ]


def test_lone_surrogate_comes_back(tmp_path: Path, make_record: MakeRecord) -> None:
    """Text that UTF-8 cannot encode is kept as it came."""
    record = make_record(model="a\ud800b")
    assert read_record(write_record(tmp_path, record)) == record


def test_same_record_twice_is_one(tmp_path: Path, make_record: MakeRecord) -> None:
    """Writing the same content again changes nothing."""
    path = write_record(tmp_path, make_record())
    before = path.stat()
    assert write_record(tmp_path, make_record()) == path
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert len(list(path.parent.iterdir())) == 1


def test_other_content_is_refused(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run id never gets a second content; the error names both digests."""
    first, second = make_record(), make_record(build="0.11")
    path = write_record(tmp_path, first)
    with pytest.raises(InfraError) as caught:
        write_record(tmp_path, second)
    assert caught.value.reason == "run-id-taken"
    for record in (first, second):
        assert record_to_plain(record)["digest"] in caught.value.message
    assert read_record(path) == first
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_modes_do_not_depend_on_umask(tmp_path: Path, make_record: MakeRecord, umask: int) -> None:
    """Folders are 0700 and files 0600 whatever the umask; a folder that was there keeps its mode."""
    tmp_path.chmod(0o755)
    before = os.umask(umask)
    try:
        path = write_record(tmp_path / "a" / "history", make_record())
    finally:
        os.umask(before)
    assert _mode(path) == 0o600
    assert [_mode(path.parents[level]) for level in range(5)] == [0o700] * 4 + [0o755]


@pytest.mark.parametrize(
    "run_id", ["", ".", "..", "../../etc/x", "/abs", "a\0b", "-rf", "a" * 129, "a\n", "a/b", "ü", ".hidden"]
)
def test_unsafe_run_id_is_a_config_error(tmp_path: Path, run_id: str) -> None:
    """A run id that is no plain file name is refused, and nothing is created."""
    with pytest.raises(ConfigError) as caught:
        create_run_dir(tmp_path / "history", run_id)
    assert "letters, digits" in caught.value.lines()[0]
    assert caught.value.lines()[0].isprintable()
    assert _names(tmp_path) == []


@pytest.mark.parametrize("run_id", ["a", "0", "a" * 128, "2026-11-30T03.00.00_tiny-cpu"])
def test_plain_run_id_is_accepted(run_id: str) -> None:
    """Letters, digits, dots, underscores and hyphens, up to 128, are a run id."""
    assert check_run_id(run_id) == run_id


def test_writable_folder_is_left_clean(tmp_path: Path) -> None:
    """The probe makes the history folder and leaves no file in it."""
    check_writable(tmp_path / "new" / "history")
    assert _names(tmp_path) == ["new", "new/history"]


@pytest.mark.parametrize("history", ["file", "file/below"])
def test_file_in_the_place_of_the_folder(tmp_path: Path, make_record: MakeRecord, history: str) -> None:
    """A file where a folder is needed is an InfraError with the path, and stays as it was."""
    (tmp_path / "file").write_text("mine")
    for attempt in (check_writable, lambda folder: write_record(folder, make_record())):
        with pytest.raises(InfraError) as caught:
            attempt(tmp_path / history)
        assert str(tmp_path / "file") in caught.value.message
        assert caught.value.reason == "storage-failed"
    assert (tmp_path / "file").read_text() == "mine"


def test_read_only_folder_is_found_early(mounted_tmpfs: Mount) -> None:
    """A read-only history folder is an InfraError before a run, naming the folder."""
    folder = mounted_tmpfs("ro")
    with pytest.raises(InfraError, match="Read-only") as caught:
        check_writable(folder)
    assert str(folder) in caught.value.message


def test_full_disk_keeps_earlier_runs(mounted_tmpfs: Mount, make_record: MakeRecord) -> None:
    """A full disk is an InfraError with path and free space; earlier records stay, no half file does."""
    folder = mounted_tmpfs("size=1m")
    earlier = write_record(folder, make_record("earlier"))
    big = make_record("big", build="x" * 2_000_000)
    with pytest.raises(InfraError, match=r"big/record\.json: No space left on device \(\d+ bytes left\)") as caught:
        write_record(folder, big)
    assert caught.value.reason == "disk-full"
    assert read_record(earlier) == make_record("earlier")
    assert list((folder / "runs" / "big").iterdir()) == []


def _spoil(plain: object) -> bytes:
    return canonical_json(plain) + b"\n"


def _with_digest(plain: dict[str, object]) -> bytes:
    content = {key: value for key, value in plain.items() if key != "digest"}
    return _spoil({**content, "digest": digest(content)})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda p: _spoil({**p, "gatekit_version": "9"}), "digest does not match"),
        (lambda p: _with_digest({**p, "extra": 1}), "'extra' was unexpected"),
        (lambda p: _with_digest({**p, "spec": {**p["spec"], "extra": 1}}), "spec: .*'extra' was unexpected"),
        (lambda p: _with_digest({**p, "spec": {**p["spec"], "gate": {"name": "g"}}}), "method"),
        (lambda p: _with_digest({**p, "counts": {**p["counts"], "n": 5}}), "counts do not add up"),
        (lambda p: _with_digest({**p, "format": 2}), "format: 1 was expected"),
        (lambda p: json.dumps(p).encode(), "not in canonical form"),
        (lambda p: _spoil(p)[:-1] + b" ", "not in canonical form"),
        (lambda p: _spoil(p)[:1000], "."),
        (lambda p: b"", "Expecting value"),
        (lambda p: b"\xff\xfe", "can't decode"),
        (lambda p: b"[" * 200_000, "recursion"),
        (lambda p: b'{"format": NaN}', "."),
        (lambda p: b'"text"', "is not of type 'object'"),
        (lambda p: b"9" * 5000, "."),
    ],
)
def test_broken_record_names_path_and_cause(
    tmp_path: Path, make_record: MakeRecord, spoil: Callable[[object], bytes], why: str
) -> None:
    """Whatever is wrong with a record file, the error is one InfraError with the path and the cause."""
    path = write_record(tmp_path, make_record())
    path.write_bytes(spoil(record_to_plain(make_record())))
    with pytest.raises(InfraError, match=why) as caught:
        read_record(path)
    assert caught.value.reason == "record-broken"
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 400 + len(str(path))


def test_any_flipped_bit_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """No single flipped bit of a record file goes unnoticed."""
    path = write_record(tmp_path, make_record())
    data = path.read_bytes()
    for position in range(0, len(data), max(1, len(data) // 300)):
        spoiled = bytearray(data)
        spoiled[position] ^= 1 << position % 8
        path.write_bytes(spoiled)
        with pytest.raises(InfraError):
            read_record(path)


def test_only_a_bounded_regular_file_is_read(tmp_path: Path) -> None:
    """A missing file, a pipe, a device and a file above the limit are refused at once."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(256 * 1024 * 1024 + 1)
    for path in (pipe, large, tmp_path / "missing", tmp_path, Path("/dev/zero")):
        with pytest.raises(InfraError) as caught:
            read_record(path)
        assert str(path) in caught.value.message
        assert caught.value.reason == ("record-missing" if path.name == "missing" else "storage-failed")


_REWRITE = """
import sys
from dataclasses import replace
from pathlib import Path
from gatekit.history.records_folder import read_record, write_record
record = read_record(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    write_record(Path(sys.argv[2]), replace(record, run_id=f"r{number}"))
"""


def test_kill_leaves_whole_records_only(tmp_path: Path, make_record: MakeRecord) -> None:
    """After SIGKILL at any instant every record file is whole."""
    source = write_record(tmp_path / "source", make_record(build="x" * 100_000))
    history = tmp_path / "history"
    command = [sys.executable, "-c", _REWRITE, str(source), str(history)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        while not (history / "runs" / "r3").exists():
            assert child.poll() is None
        child.send_signal(signal.SIGKILL)
    written = list((history / "runs").glob("*/record.json"))
    assert len(written) >= 3
    for path in written:
        assert read_stored(path).path == record_path(history, path.parent.name)
