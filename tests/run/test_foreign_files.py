"""What somebody put where a run keeps its files: it is neither waited for nor followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import small_server
from command_line import gatekit, here

SIM = ("task.n=40", "gate=static_floor", "gate.floor=0.1", "--json", "--run-id", "r1")
RUN = Path(".gatekit/runs/r1")


@pytest.mark.parametrize("name", ["server.log", "answer-server.json", "journal.jsonl"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    """A named pipe in the place of a file of the run is INFRA at once, and says where and why."""
    (tmp_path / RUN).mkdir(parents=True)
    os.mkfifo(tmp_path / RUN / name)
    ran = gatekit(tmp_path, *SIM, timeout_s=30)
    assert ran.code == 3, ran.err
    assert f"{name}: not a regular file" in ran.data["reason"]


def test_a_pipe_for_the_log_of_a_launched_server(tmp_path: Path) -> None:
    """The same of a server that gatekit starts."""
    (tmp_path / RUN).mkdir(parents=True)
    os.mkfifo(tmp_path / RUN / "server.log")
    extra = small_server.install(tmp_path)
    ran = small_server.run(tmp_path, "--run-id", "r1", extra=extra)
    assert (ran.code, ran.data["reason_code"]) == (3, "log-unwritable")


@pytest.mark.parametrize("name", ["server.log", "answer-server.json", "journal.jsonl"])
def test_a_link_to_a_file_is_not_followed(tmp_path: Path, name: str) -> None:
    """A symbolic link in the place of a file of the run is INFRA, and what it leads to stays as it was."""
    (tmp_path / RUN).mkdir(parents=True)
    (tmp_path / "victim").write_bytes(b"")
    (tmp_path / RUN / name).symlink_to(tmp_path / "victim")
    ran = here(tmp_path, *SIM)
    assert ran.code == 3, ran.err
    assert "symbolic links are not followed there" in ran.data["reason"]
    assert (tmp_path / "victim").read_bytes() == b""


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    """A symbolic link in the place of the run's folder is INFRA, and nothing is written where it leads to."""
    (tmp_path / RUN).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / RUN).symlink_to(tmp_path / "elsewhere")
    ran = here(tmp_path, *SIM)
    assert (ran.code, ran.data["reason_code"]) == (3, "storage-failed"), ran.err
    assert "symbolic links are not followed there" in ran.data["reason"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
