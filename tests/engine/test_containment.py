"""The two ways to hold a server, and what it sees of each."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import small_server
from command_line import record
from gatekit.engine import lifeline
from gatekit.engine.containment import can_make_pid_namespace, containment, tethered
from gatekit.engine.launch import start
from gatekit.records.spec import Containment

ROOT = Path(__file__).resolve().parents[2]
Survivors = Callable[[Sequence[int], float], list[int]]
HELD = [
    pytest.param(
        Containment.PID_NAMESPACE,
        marks=pytest.mark.skipif(not can_make_pid_namespace(), reason="this user may make no PID namespace here"),
    ),
    Containment.SUBREAPER,
]
# A machine that allows no namespace: root of a user namespace that may have no others, without the right to make any.
LIMITED = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin "$@"',
    "sh",
)
WHO = """
import os
names = {name: os.readlink(f"/proc/self/ns/{name}") for name in ("net", "ipc", "uts", "cgroup")}
seen = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
print((os.getpid(), int(os.readlink("/proc/self")), os.getpgrp(), os.getuid(), os.getgid(), seen, names))
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def ended(code: str, log: Path, held: Containment) -> tuple[int | None, str]:
    """Exit code and output of a program that ends by itself."""
    with start(tethered(python(code), held), env={}, log_path=log, lifeline=True) as process:
        deadline = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        found = process.poll()
    return found, process.tail()


@pytest.mark.parametrize("held", HELD)
def test_exit_codes_come_through(tmp_path: Path, held: Containment) -> None:
    """The server's own exit code, 128 + N after signal N, and 127 for one that cannot be started."""
    assert ended("import sys; sys.exit(7)", tmp_path / "a", held)[0] == 7
    assert ended("import os; os.kill(os.getpid(), 11)", tmp_path / "b", held)[0] == 139
    with start(tethered(("/no/such",), held), env={}, log_path=tmp_path / "c", lifeline=True) as process:
        while process.poll() is None:
            time.sleep(0.01)
        assert process.poll() == 127
    assert "cannot start '/no/such'" in process.tail()


@pytest.mark.parametrize("held", HELD)
def test_sigterm_reaches_the_server(tmp_path: Path, held: Containment) -> None:
    """A server ends by itself on SIGTERM, once, and says goodbye; so does another member of its group."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "def bye(*_): os.write(1, b'bye\\n'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "if len(sys.argv) < 2: subprocess.Popen([*sys.orig_argv, 'child'])\n"
        "time.sleep(0.5); print('up', flush=True); time.sleep(300)"
    )
    with start(tethered(python(code), held), env={}, log_path=tmp_path / "log", lifeline=True) as process:
        deadline = time.monotonic() + 20
        while process.head().count("up") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 8
    assert process.head().count("bye") in (1, 2)  # the child may be ended with its namespace before it speaks


@pytest.mark.skipif(not can_make_pid_namespace(), reason="this user may make no PID namespace here")
def test_what_a_server_sees_in_its_namespace(tmp_path: Path) -> None:
    """Its /proc is its own and its group is its own; user, network, IPC and host name are the machine's."""
    code, text = ended(WHO, tmp_path / "log", Containment.PID_NAMESPACE)
    assert code == 0, text
    pid, of_proc, group, uid, gid, seen, names = ast.literal_eval(text)
    assert pid == of_proc == group == 2
    assert seen == [1, 2]
    assert (uid, gid) == (os.getuid(), os.getgid())
    assert names == {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in names}


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
def test_a_user_without_rights_has_a_namespace_too() -> None:
    """Where user namespaces are allowed anybody's server is held by a PID namespace, as the same user."""
    source = Path(lifeline.__file__).read_text(encoding="utf-8")
    rights = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    user = [*rights, sys.executable, "-I", "-S", "-c", source]
    if subprocess.run([*user, "--probe"], cwd="/", capture_output=True).returncode != 0:
        pytest.skip("user namespaces are not allowed here, or the interpreter is root's alone")
    who = "echo $$ $(id -u) $(id -g) $(ls /proc | grep -c '^[12]$')"
    argv = [*user, "--pid-namespace", "--", "/bin/sh", "-c", who]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout is not None
        text = process.stdout.read()
    assert (process.returncode, text) == (0, "2 12345 12345 2\n")


def test_a_copy_of_the_lifeline_does_not_keep_a_server(tmp_path: Path, survivors: Survivors) -> None:
    """A forked child of gatekit holds the pipe open after gatekit's death; the server goes all the same."""
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from gatekit.engine.containment import tethered\nfrom gatekit.engine.launch import start\n"
        "argv = tethered((sys.executable, '-S', '-c', 'import time; print(1, flush=True); time.sleep(300)'))\n"
        "with start(argv, env={}, log_path=Path(sys.argv[1]), lifeline=True) as process:\n"
        "    while not process.head(): time.sleep(0.01)\n"
        "    forked = os.fork()\n"
        "    if forked: print(process.pid, forked, flush=True)\n"
        "    time.sleep(300)\n"
    )
    argv = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        lifeline, forked = map(int, parent.stdout.readline().split())
        parent.kill()
        try:
            assert survivors([lifeline], 5) == []
        finally:
            os.kill(forked, signal.SIGKILL)


def test_the_wish_is_kept_or_refused() -> None:
    """`auto` is the strongest there is; a subreaper is always possible."""
    assert containment(Containment.SUBREAPER) is Containment.SUBREAPER
    can = can_make_pid_namespace()
    assert containment(Containment.AUTO) is (Containment.PID_NAMESPACE if can else Containment.SUBREAPER)


def test_a_machine_without_namespaces(tmp_path: Path) -> None:
    """There `auto` falls back in silence, the record says so, and the explicit wish is INFRA."""
    if subprocess.run([*LIMITED, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs unshare and setpriv, and the right to a user namespace")
    extra = small_server.install(tmp_path)
    ran = small_server.run_apart(tmp_path, extra=extra, before=LIMITED)
    assert (ran.code, record(ran, tmp_path)["served"]["details"]["containment"]) == (0, "subreaper")
    refused = small_server.run_apart(tmp_path, "engine.containment=pid-namespace", extra=extra, before=LIMITED)
    assert (refused.code, refused.data["reason_code"]) == (3, "containment-missing")
