"""A server that kills what holds it, where there is no PID namespace: what it left is taken down all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gatekit.engine.containment import tethered
from gatekit.engine.launch import start
from gatekit.engine.lifeline import SESSION_MARKER
from gatekit.engine.process_stat import process_stat
from gatekit.engine.reap import leftovers
from gatekit.engine.run_mark import new_owner, run_mark

Survivors = Callable[[Sequence[int], float], list[int]]

# A child in a session of its own, without any variable of the run and deaf to SIGTERM; then somebody is killed.
SERVER = """
import os, signal, sys, time
path, whom = sys.argv[1:]
inner = os.getppid()
outer = int(open(f"/proc/{inner}/stat").read().rpartition(")")[2].split()[1])
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 256)
        code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(300)"
        os.execve(sys.executable, [sys.executable, "-S", "-c", code, path], {})
    os._exit(0)
os.wait()
while not (os.path.exists(path) and open(path).read()): time.sleep(0.01)
if whom != "nobody": os.kill({"inner": inner, "outer": outer}[whom], signal.SIGKILL)
time.sleep(1)
"""


@pytest.mark.parametrize("whom", ["nobody", "inner", "outer"])
def test_a_detached_child_without_a_mark(tmp_path: Path, survivors: Survivors, whom: str) -> None:
    """Neither a new session nor an empty environment hides a process, whichever part of its lifeline it kills."""
    pid_file = tmp_path / "pid"
    argv = tethered((sys.executable, "-S", "-c", SERVER, str(pid_file), whom))
    environ = {"PATH": os.defpath, **run_mark("r")}
    with start(argv, env=environ, log_path=tmp_path / "log", lifeline=True) as process:
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert process.poll() is not None
        hidden = int(pid_file.read_text())
    assert survivors([hidden], 2) == []


@pytest.fixture
def left_group() -> Iterator[Callable[[str], tuple[int, int]]]:
    """Makes a session whose leader has ended: a process with a dead run's mark and one without; their ids."""
    made: list[int] = []
    owner = new_owner()
    assert owner is not None
    mark = f"{owner.pid}:{max(owner.started_ticks - 1, 0)}:{owner.namespace}:{owner.server}"
    code = f"""
import os, subprocess, sys
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(300)"]
env = {{"GATEKIT_RUN": "r", "GATEKIT_OWNER": sys.argv[1]}}
if sys.argv[2] == "own": env["{SESSION_MARKER}"] = str(os.getsid(0))
if sys.argv[2] == "copied": env["{SESSION_MARKER}"] = str(os.getsid(0) + 1)
pids = [subprocess.Popen(sleep, env=one, stdout=subprocess.DEVNULL).pid for one in (env, {{}})]
print(*pids, flush=True)
os._exit(0)
"""

    def make(kind: str) -> tuple[int, int]:
        argv = [sys.executable, "-S", "-c", code, mark, kind]
        done = subprocess.run(argv, start_new_session=True, stdout=subprocess.PIPE, text=True)
        marked, plain = map(int, done.stdout.split())
        made.extend((marked, plain))
        return marked, plain

    yield make
    for pid in made:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("kind", "is_own"), [("none", False), ("copied", False), ("own", True)])
def test_a_group_without_its_sessions_leader(
    left_group: Callable[[str], tuple[int, int]], kind: str, is_own: bool
) -> None:
    """An unmarked process counts only in the session that the mark beside it names: a bystander is nobody's."""
    marked, bystander = left_group(kind)
    found = {one.pid for one in leftovers()}
    assert marked in found
    assert (bystander in found) is is_own
    assert process_stat(bystander) is not None
