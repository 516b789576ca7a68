"""Whatever ends gatekit, and however a server's processes hide: none of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import small_server
from command_line import gatekit, servers, wait_for_answers
from gatekit.engine.containment import can_make_pid_namespace
from gatekit.engine.listener import family
from gatekit.engine.process_stat import process_stat
from memory_cgroup import MemoryCgroup, memory_cgroup

_FORKED = """
def detached(close):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if close:
                os.chdir("/")
                for name in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT): signal.signal(name, signal.SIG_IGN)
                os.closerange(0, 256)
            os.execv(SLEEP[0], SLEEP)
        os._exit(0)
    os.wait()
"""
# How many processes each adds to the server's own, and how.
SHAPES = {
    "child": (1, "subprocess.Popen(SLEEP)"),
    "group": (1, "subprocess.Popen(SLEEP, process_group=0)"),
    "detached": (1, _FORKED + "detached(close=False)"),
    "pool": (
        3,
        "import multiprocessing\n"
        "for _ in range(3): multiprocessing.get_context('fork').Process(target=time.sleep, args=(300,)).start()",
    ),
    "stubborn": (1, "signal.signal(signal.SIGTERM, signal.SIG_IGN); subprocess.Popen(SLEEP)"),
    "daemonised": (1, _FORKED + "detached(close=True)"),
}
WAYS = ("SIGINT", "SIGTERM", "SIGKILL", "out-of-memory", "with its lifeline")
GONE_S = 5.0
_SLOW_ANSWERS = ("client.concurrency=2", "task.n=300")
_KEEPERS = {"pid-namespace": 2, "subreaper": 2}


@pytest.fixture
def cgroup(request: pytest.FixtureRequest) -> Iterator[MemoryCgroup | None]:
    """A memory cgroup, None where there can be none."""
    with memory_cgroup(f"gatekit-test-{os.getpid()}-{time.monotonic_ns()}") as made:
        yield made


def begin(
    folder: Path, shape: str, containment: str, cgroup: MemoryCgroup | None = None
) -> tuple[subprocess.Popen[str], str]:
    """A run whose server has that shape, with some answers; and its id."""
    extras, before = SHAPES[shape]
    run_id = f"orphan-{shape}-{os.getpid()}-{time.monotonic_ns()}"
    extra = small_server.install(folder, before=before, on_post="time.sleep(0.3)")
    options = (*_SLOW_ANSWERS, f"engine.containment={containment}", "--run-id", run_id)
    process = small_server.start(folder, *options, extra=extra)
    if cgroup is not None:
        cgroup.enter(process.pid)
    wait_for_answers(folder, run_id, 3)
    assert len(set(servers(run_id)) - {process.pid}) >= _KEEPERS[containment] + 1 + extras
    return process, run_id


def lifelines_of(process: subprocess.Popen[str]) -> list[int]:
    """The child of gatekit that holds its server, and without a PID namespace the child of that which does so too."""
    stats = [stat for stat in map(process_stat, family(process.pid)) if stat is not None]
    (outer,) = [stat.pid for stat in stats if stat.parent == process.pid]
    words = Path(f"/proc/{outer}/cmdline").read_bytes()
    inner = [] if b"--pid-namespace" in words else [stat.pid for stat in stats if stat.parent == outer]
    return [outer, *inner]


def end(process: subprocess.Popen[str], way: str, cgroup: MemoryCgroup | None) -> None:
    """Ends gatekit; a signal that it handles is waited for."""
    if way == "out-of-memory":
        assert cgroup is not None
        cgroup.kill_for_memory(process.pid)
        assert cgroup.kills() >= 1
        assert process.wait(10) == -signal.SIGKILL
    elif way == "with its lifeline":  # as by a cgroup that dies as a whole, but for what shall be shown
        lifelines = lifelines_of(process)
        process.send_signal(signal.SIGSTOP)  # it shall not see that
        for lifeline in lifelines:
            os.kill(lifeline, signal.SIGKILL)
        process.kill()
        process.wait(10)
    else:
        process.send_signal(signal.Signals[way])
        process.wait(30)


def none_is_left(folder: Path, shape: str, way: str, containment: str, cgroup: MemoryCgroup | None) -> None:
    process, run_id = begin(folder, shape, containment, cgroup if way == "out-of-memory" else None)
    try:
        end(process, way, cgroup)
        left = small_server.left_after(run_id, GONE_S)
        assert left == [], [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
    finally:
        process.kill()
        process.communicate()
        for pid in servers(run_id):
            os.kill(pid, signal.SIGKILL)


def need(containment: str, way: str, cgroup: MemoryCgroup | None) -> None:
    if containment == "pid-namespace" and not can_make_pid_namespace():
        pytest.skip("this user may make no PID namespace here")
    if way == "out-of-memory" and cgroup is None:
        pytest.skip("this user may make no memory cgroup here")


@pytest.mark.parametrize("containment", ["pid-namespace", "subreaper"])
def test_a_daemonised_child_of_a_killed_gatekit(tmp_path: Path, containment: str) -> None:
    """SIGKILL of gatekit, a child with a session of its own and closed descriptors: nothing is left after 5 s."""
    need(containment, "SIGKILL", None)
    none_is_left(tmp_path, "daemonised", "SIGKILL", containment, None)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_orphans_in_a_pid_namespace(tmp_path: Path, shape: str, way: str, cgroup: MemoryCgroup | None) -> None:
    """Whatever kills gatekit, its lifeline at the same moment included, the namespace dies with all that is in it."""
    need("pid-namespace", way, cgroup)
    none_is_left(tmp_path, shape, way, "pid-namespace", cgroup)


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if way != "with its lifeline"])
@pytest.mark.parametrize("shape", SHAPES)
def test_orphans_of_a_subreaper(tmp_path: Path, shape: str, way: str, cgroup: MemoryCgroup | None) -> None:
    """Without a PID namespace the lifeline takes the family down, whatever kills gatekit alone."""
    need("subreaper", way, cgroup)
    none_is_left(tmp_path, shape, way, "subreaper", cgroup)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_subreaper_cannot_hold_is_reaped(tmp_path: Path, shape: str) -> None:
    """Where gatekit and its lifeline are killed together, `gatekit reap --kill` finds and ends what is left."""
    process, run_id = begin(tmp_path, shape, "subreaper")
    end(process, "with its lifeline", None)
    process.communicate()
    left = small_server.left_after(run_id, 0.5)
    listed = gatekit(tmp_path, "reap", "--json", "--dir", ".gatekit")
    assert {one["pid"] for one in listed.data["leftovers"]} == set(left)
    assert listed.code == (3 if left else 0)
    assert gatekit(tmp_path, "reap", "--kill", "--dir", ".gatekit").code == 0
    assert small_server.left_after(run_id, 0) == []


@pytest.mark.parametrize("containment", ["pid-namespace", "subreaper"])
def test_a_run_from_a_helper_thread(tmp_path: Path, containment: str) -> None:
    """The death of the thread that started a server is not the death of its starter: the server goes on answering."""
    need(containment, "SIGKILL", None)
    code = """
import os, sys, threading, time
from pathlib import Path
from gatekit.engine.containment import containment, tethered
from gatekit.engine.launch import start
from gatekit.records.spec import Containment
started = []
def begin():
    held = containment(Containment(sys.argv[1]))
    argv = tethered((sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(300)"), held)
    started.append(start(argv, env={}, log_path=Path(sys.argv[2]), lifeline=True))
thread = threading.Thread(target=begin)
thread.start()
thread.join()
with started[0] as process:
    while "up" not in process.head(): time.sleep(0.01)
    time.sleep(0.5)
    print(process.poll())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, containment, str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
