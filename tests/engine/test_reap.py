"""Who is a leftover, and who is never touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.engine.process_stat import process_stat
from gatekit.engine.reap import kill_own, leftovers, send
from gatekit.engine.run_mark import OWNER_MARKER, Owner, is_gone, new_owner, owner_in, run_mark

SLEEP = (sys.executable, "-S", "-c", "import time; time.sleep(300)")


@contextmanager
def sleeping(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with that environment in a session of its own."""
    with subprocess.Popen(SLEEP, env=env, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def owner() -> Owner:
    """This process."""
    found = new_owner()
    assert found is not None
    return found


def found(pid: int) -> bool:
    return any(one.pid == pid for one in leftovers())


def test_an_owner_is_written_and_read() -> None:
    """A mark names run and owner, and two servers of one owner apart; half a mark is none."""
    mark = run_mark("r1")
    assert mark["GATEKIT_RUN"] == "r1"
    read = owner_in(mark)
    assert read is not None
    assert read.pid == os.getpid()
    assert read != owner_in(run_mark("r1"))
    assert owner_in({OWNER_MARKER: mark[OWNER_MARKER]}) is None
    for broken in ("", "1", "1:2:3", "1:2:x:00000000", "-1:2:3:00000000", "1:2:3:zz", "9" * 40 + ":1:1:00000000"):
        assert owner_in({**mark, OWNER_MARKER: broken}) is None


def test_who_is_gone() -> None:
    """This process lives; one with its id and another start is gone; of another namespace's nothing is known."""
    own = owner()
    assert not is_gone(own)
    assert is_gone(replace(own, started_ticks=own.started_ticks - 1))
    assert not is_gone(replace(own, started_ticks=own.started_ticks - 1, namespace="1"))


def test_only_marked_processes_without_an_owner_are_leftovers() -> None:
    """A living owner, another namespace's owner, and a mark without owner keep a process from being one."""
    own = owner()
    dead = replace(own, started_ticks=max(own.started_ticks - 1, 0))
    cases = {str(dead): True, str(own): False, str(replace(dead, namespace="1")): False, "": False}
    for text, is_leftover in cases.items():
        with sleeping({"GATEKIT_RUN": "r", OWNER_MARKER: text}) as process:
            assert found(process.pid) is is_leftover, text


def test_a_group_is_only_the_runs_own() -> None:
    """An unmarked neighbour in a session that is not the run's is a stranger, and never listed."""
    dead = replace(owner(), started_ticks=max(owner().started_ticks - 1, 0))
    code = (
        "import os, subprocess, sys, time\n"
        "env = {'GATEKIT_RUN': 'r', 'GATEKIT_OWNER': sys.argv[1]}\n"
        "sleep = [sys.executable, '-S', '-c', 'import time; time.sleep(300)']\n"
        "print(subprocess.Popen(sleep, env=env).pid, subprocess.Popen(sleep, env={}).pid, flush=True)\n"
        "time.sleep(300)"
    )
    argv = [sys.executable, "-S", "-c", code, str(dead)]
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.PIPE, env={}) as shell:
        assert shell.stdout is not None
        marked, neighbour = map(int, shell.stdout.readline().split())
        try:
            assert found(marked)
            assert not found(neighbour)
            assert not found(shell.pid)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_a_reused_id_is_no_victim() -> None:
    """A signal goes to the process that was found, and to none that has its id meanwhile."""
    dead = replace(owner(), started_ticks=max(owner().started_ticks - 1, 0))
    with sleeping({"GATEKIT_RUN": "r", OWNER_MARKER: str(dead)}) as process:
        (one,) = (one for one in leftovers() if one.pid == process.pid)
        send(replace(one, started_ticks=one.started_ticks - 1), signal.SIGKILL)
        assert process.poll() is None
        send(one, signal.SIGKILL)
        assert process.wait(5) == -signal.SIGKILL
        send(one, signal.SIGKILL)


def test_an_owner_kills_its_own_server_alone() -> None:
    """What carries another server's mark of the same run and owner lives on."""
    mine, other = run_mark("r"), run_mark("r")
    with sleeping(mine) as first, sleeping(other) as second:
        own = owner_in(mine)
        assert own is not None
        assert kill_own(own) == (first.pid,)
        assert first.wait(5) == -signal.SIGKILL
        assert second.poll() is None


def test_a_process_as_the_kernel_counts_it(tmp_path: Path) -> None:
    """A name with spaces, brackets and line ends does not shift the numbers; what is gone or torn is None."""
    own = process_stat("self")
    assert own is not None
    assert (own.pid, own.parent, own.group) == (os.getpid(), os.getppid(), os.getpgrp())
    folder = tmp_path / "7"
    folder.mkdir()
    text = Path("/proc/self/stat").read_text()
    (folder / "stat").write_text("7 (a) R 1\n(b)" + text.rpartition(")")[2])
    hostile = process_stat(7, proc=tmp_path)
    assert hostile is not None
    assert hostile.started_ticks == own.started_ticks
    (folder / "stat").write_text("7 (a) R 1")
    assert process_stat(7, proc=tmp_path) is None
    assert process_stat(8, proc=tmp_path) is None


@pytest.mark.parametrize("name", ["GATEKIT_RUN", "GATEKIT_OWNER"])
def test_the_mark_is_in_every_servers_environment(name: str) -> None:
    """Both variables are needed to find a leftover, and setproctitle is told to leave them readable."""
    mark = run_mark("r")
    assert mark[name]
    assert mark["SPT_NOENV"] == "1"
