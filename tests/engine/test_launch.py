"""Starting and stopping processes, with real ones."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gatekit.engine.containment import tethered
from gatekit.engine.launch import ServerProcess, start
from gatekit.engine.server_log import CAP_BYTES
from gatekit.errors import InfraError

ROOT = Path(__file__).resolve().parents[2]
Survivors = Callable[[Sequence[int], float], list[int]]

# Ignores SIGTERM, and has a child in its group and a detached one that ignore it too.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep, null = [sys.executable, "-S", "-c", "import time; time.sleep(300)"], subprocess.DEVNULL
member = subprocess.Popen(sleep)
detached = subprocess.Popen(sleep, start_new_session=True, stdout=null, stderr=null)
print("pids", os.getpid(), member.pid, detached.pid, flush=True)
time.sleep(300)
"""


def run(code: str, log: Path, *, lifeline: bool = False, tether: bool = False) -> ServerProcess:
    argv: tuple[str, ...] = (sys.executable, "-S", "-c", code)
    return start(tethered(argv) if tether else argv, env={"PATH": "/bin"}, log_path=log, lifeline=lifeline)


def await_exit(process: ServerProcess, timeout_s: float = 10) -> int | None:
    deadline = time.monotonic() + timeout_s
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process.poll()


def await_pids(text: Callable[[], str], timeout_s: float = 10) -> list[int]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for line in text().splitlines(keepends=True):
            if line.startswith("pids ") and line.endswith("\n"):
                return [int(word) for word in line.split()[1:]]
        time.sleep(0.01)
    raise AssertionError(f"no pids in {text()!r}")


def test_output_and_exit_code(tmp_path: Path) -> None:
    """Both streams reach the log in a private file; the exit code is seen before and after stopping."""
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    with run(code, tmp_path / "log") as process:
        assert await_exit(process) == 3
        assert process.poll() == 3
    assert process.poll() == 3
    assert process.tail() == "out\nerr"
    assert process.head() == "out\nerr\n"
    assert stat.S_IMODE(process.log_path.stat().st_mode) == 0o600


def test_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    """A server that dies of signal N has the exit code -N, or 128+N behind a tether."""
    code = "import os; os.kill(os.getpid(), 11)"
    with run(code, tmp_path / "a") as plain, run(code, tmp_path / "b", lifeline=True, tether=True) as held:
        assert await_exit(plain) == -11
        assert await_exit(held) == 139


def test_no_shell_no_inherited_input(tmp_path: Path) -> None:
    """Arguments arrive as they are, the environment is only the given one, and standard input is empty."""
    code = "import os, sys; print(sys.argv[1:], sorted(os.environ), repr(sys.stdin.read()))"
    argv = (sys.executable, "-S", "-c", code, "a b; touch PWN", "$HOME")
    with start(argv, env={"LC_ALL": "C", "A": "1"}, log_path=tmp_path / "log", lifeline=False) as process:
        assert await_exit(process) == 0
    assert process.tail() == "['a b; touch PWN', '$HOME'] ['A', 'LC_ALL'] ''"


@pytest.mark.parametrize("tether", [False, True])
def test_stopping_is_idempotent_and_gentle(tmp_path: Path, tether: bool) -> None:
    """A server that heeds SIGTERM ends by itself within the grace, and stopping again changes nothing."""
    code = (
        "import os, signal, time\n"
        "def bye(*_): os.write(1, b'bye\\n'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, bye); print('pids 0', flush=True); time.sleep(300)"
    )
    with run(code, tmp_path / "log", lifeline=tether, tether=tether) as process:
        await_pids(process.head)
        started = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - started < 5
        assert process.stop() == 0
    assert process.tail(1) == "bye"


def test_a_stubborn_server(tmp_path: Path, survivors: Survivors) -> None:
    """A server that ignores SIGTERM is killed after the grace with its group, in bounded time."""
    process = run(STUBBORN, tmp_path / "log")
    *group, detached = await_pids(process.head)
    started = time.monotonic()
    assert process.stop(grace_s=0.3) == -signal.SIGKILL
    assert time.monotonic() - started < 5
    assert survivors(group, 1) == []
    os.kill(detached, signal.SIGKILL)


def test_a_stubborn_family_on_a_tether(tmp_path: Path, survivors: Survivors) -> None:
    """On a tether even a detached grandchild is gone when stop returns."""
    process = run(STUBBORN, tmp_path / "log", lifeline=True, tether=True)
    family = await_pids(process.head)
    started = time.monotonic()
    process.stop(grace_s=0.3)
    assert time.monotonic() - started < 5
    assert survivors([*family, process.pid], 0) == []


def test_orphans_of_a_dead_server(tmp_path: Path, survivors: Survivors) -> None:
    """When a tethered server dies, what it leaves behind dies too, and its exit code is passed on."""
    code = STUBBORN.replace("time.sleep(300)\n", "os._exit(5)\n")
    with run(code, tmp_path / "log", lifeline=True, tether=True) as process:
        family = await_pids(process.head)
        assert await_exit(process) == 5
        assert survivors(family, 0) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_leaving_the_block_by_an_exception(tmp_path: Path, error: type[BaseException], survivors: Survivors) -> None:
    """Whatever leaves the with-block, no process is left."""
    with pytest.raises(error), run("import time; time.sleep(300)", tmp_path / "log") as process:
        raise error
    assert survivors([process.pid], 0) == []


def test_a_second_interrupt_skips_the_grace(tmp_path: Path, survivors: Survivors) -> None:
    """A Ctrl-C while a server is being stopped ends it at once, detached members included."""
    process = run(STUBBORN, tmp_path / "log", lifeline=True, tether=True)
    family = await_pids(process.head)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        process.stop(grace_s=60)
    timer.join()
    assert time.monotonic() - started < 5
    assert survivors([*family, process.pid], 0) == []
    process.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_parent(tmp_path: Path, how: signal.Signals, survivors: Survivors) -> None:
    """Whatever kills the process that started it, a tethered family is gone within five seconds."""
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from gatekit.engine.containment import tethered\nfrom gatekit.engine.launch import start\n"
        "argv = tethered((sys.executable, '-S', '-c', sys.argv[1]))\n"
        "with start(argv, env={}, log_path=Path(sys.argv[2]), lifeline=True) as process:\n"
        "    while '\\n' not in process.head(): time.sleep(0.01)\n"
        "    print(process.head().strip(), process.pid, flush=True)\n"
        "    time.sleep(300)\n"
    )
    argv = [sys.executable, "-c", code, STUBBORN, str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout
        line = parent.stdout.readline()
        family = await_pids(lambda: line)
        assert len(family) == 4
        if how is signal.SIGINT:  # the grace is 10 s there; the second Ctrl-C cuts it
            parent.send_signal(how)
            time.sleep(0.2)
        parent.send_signal(how)
        killed = time.monotonic()
        left = survivors(family, 5)
        assert left == [], f"{left} live {time.monotonic() - killed:.1f} s later"


def test_a_killed_tether(tmp_path: Path, survivors: Survivors) -> None:
    """When the holder of the lifeline itself is killed, its other half ends the server and what had detached itself."""
    process = run(STUBBORN, tmp_path / "log", lifeline=True, tether=True)
    server, child, detached = await_pids(process.head)
    os.kill(process.pid, signal.SIGKILL)
    assert survivors([server, child, detached], 5) == []
    assert process.stop() == -signal.SIGKILL


def test_a_flood_of_output(tmp_path: Path) -> None:
    """Two hundred megabytes with and without newlines neither block the server nor pass the cap."""
    code = (
        "import os\nline = b'y' * 99 + b'\\n'\nfor _ in range(100): os.write(1, line * 10000)\n"
        "for _ in range(100): os.write(1, b'z' * 10**6)\nos.write(1, b'\\nend\\n')"
    )
    with run(code, tmp_path / "log") as process:
        assert await_exit(process, 20) == 0
    assert process.tail(1) == "end"
    assert process.log_path.stat().st_size <= CAP_BYTES


@pytest.mark.parametrize("argv", [("/no/such/program",), ("/",), ("a\0b",), ("/bin/true", "x" * 3_000_000)])
def test_a_program_that_cannot_start(tmp_path: Path, argv: tuple[str, ...]) -> None:
    """A missing, unrunnable or impossible program is INFRA with one line, and no process."""
    with pytest.raises(InfraError) as caught:
        start(argv, env={}, log_path=tmp_path / "log", lifeline=True)
    assert caught.value.reason == "server-not-started"
    assert len(caught.value.lines()) == 1
    assert len(caught.value.message) < 300


def test_a_tethered_program_that_cannot_start(tmp_path: Path) -> None:
    """Behind a tether a missing program ends with 127 and says so in the log."""
    argv = tethered(("/no/such/program", "x"))
    with start(argv, env={}, log_path=tmp_path / "log", lifeline=True) as process:
        assert await_exit(process) == 127
    assert "cannot start '/no/such/program'" in process.tail()


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """A log path that cannot be opened is INFRA, and the server is not started."""
    with pytest.raises(InfraError) as caught:
        start(("/bin/true",), env={}, log_path=tmp_path / "no" / "log", lifeline=False)
    assert caught.value.reason == "log-unwritable"
