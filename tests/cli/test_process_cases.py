"""The process around a run: signals, dying and hanging servers, floods of output, small machines, clocks, leftovers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, environment, here, record, servers, wait_for_answers, within_rights
from gatekit.engine import launch, launched, reap
from gatekit.engine.containment import can_make_pid_namespace
from gatekit.engine.process_stat import process_stat
from gatekit.engine.run_mark import OWNER_MARKER
from gatekit.engine.server_log import CAP_BYTES
from small_server import arguments, install, left_after, run, run_apart, start

SLOW = "time.sleep(0.3)"
MANY = ("client.concurrency=4", "task.n=200")
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def log_of(ran: Ran, folder: Path) -> Path:
    stored: str = ran.data["record"]
    return (folder / stored).parent / "server.log"


def name() -> str:
    return f"case-{os.getpid()}-{time.monotonic_ns()}"


@contextmanager
def begun(folder: Path, *more: str, extra: dict[str, str], before: tuple[str, ...] = ()) -> Iterator[Any]:
    """A run that is ended with the block, whatever happens there."""
    process = start(folder, *more, extra=extra, before=before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], words: str, timeout_s: float = 60) -> str:
    """The next line on stderr with those words."""
    assert process.stderr is not None
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        line = process.stderr.readline()
        if words in line:
            return line
        assert line, f"ended without saying {words!r}"
    raise AssertionError(words)


# P01 to P03: signals


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 143, marks=pytest.mark.slow),
    ],
)
def test_p01_p03_a_signal_in_the_middle(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """After SIGINT, SIGTERM or SIGHUP a stubborn server is gone within ten seconds, and the answers are kept."""
    run_id = name()
    extra = install(tmp_path, before=STUBBORN, on_post=SLOW)
    with begun(tmp_path, *MANY, "--run-id", run_id, extra=extra) as process:
        wait_for_answers(tmp_path, run_id, 5)
        kept = (tmp_path / ".gatekit" / "runs" / run_id / "journal.jsonl").read_bytes()
        signalled = time.monotonic()
        process.send_signal(number)
        process.wait(30)
        assert process.returncode == code
        assert left_after(run_id, max(10 - (time.monotonic() - signalled), 0)) == []
        assert (tmp_path / ".gatekit" / "runs" / run_id / "journal.jsonl").read_bytes().startswith(kept)


def test_p02_two_signals(tmp_path: Path) -> None:
    """A second SIGINT within a second ends the run at once; a stubborn server does not outlive it."""
    run_id = name()
    extra = install(tmp_path, before=STUBBORN, on_post=SLOW)
    with begun(tmp_path, *MANY, "--run-id", run_id, extra=extra) as process:
        wait_for_answers(tmp_path, run_id, 5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert process.returncode == 130
        assert left_after(run_id, 5) == []


# P05, P06, E04 to E06: loading


def test_p05_never_ready(tmp_path: Path) -> None:
    """At the deadline the run is INFRA with the last 50 lines and the path of the log, and the server is gone."""
    before = "for i in range(60): print('loading', i, flush=True)\ntime.sleep(300)"
    run_id = name()
    ran = run(tmp_path, "engine.startup_timeout_s=2", "--run-id", run_id, extra=install(tmp_path, before=before))
    assert (ran.code, ran.data["reason_code"]) == (3, "not-ready")
    assert str(log_of(ran, tmp_path).name) in ran.data["hint"]
    logged = [event for event in record(ran, tmp_path)["events"] if event.startswith("server log: ")]
    assert logged == [f"server log: loading {i}" for i in range(10, 60)]
    assert servers(run_id) == []


def test_p06_death_while_loading(tmp_path: Path) -> None:
    """A server that exits while it loads is noticed within two seconds, with its exit code and its last words."""
    died = "open(os.path.join(HERE, 'died'), 'w').write(str(time.monotonic()))"
    before = f"print('loading', flush=True); print('CUDA out of memory', flush=True); {died}; sys.exit(1)"
    ran = run(tmp_path, "engine.startup_timeout_s=600", extra=install(tmp_path, before=before))
    waited_s = time.monotonic() - float((tmp_path / "bin" / "died").read_text())
    assert (ran.code, ran.data["reason_code"]) == (3, "server-died")
    assert "exit code 1" in ran.data["reason"]
    assert "CUDA out of memory" in ran.data["reason"]
    assert log_of(ran, tmp_path).name in ran.data["reason"]
    assert waited_s < 20  # with the whole end of the run on a loaded machine; the deadline is 600 s


def _await_text(folder: Path, words: str, timeout_s: float = 60) -> Path:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for log in folder.glob(".gatekit/runs/*/server.log"):
            if words in log.read_text():
                return log
        time.sleep(0.02)
    raise AssertionError(words)


def test_a_death_is_noticed_during_a_request_that_hangs(tmp_path: Path) -> None:
    """A server that takes a request, leaves its socket to a child that never answers, and dies, is not waited for."""
    on_post = "subprocess.Popen(SLEEP, pass_fds=[self.connection.fileno()])\ntime.sleep(0.2)\nos._exit(5)"
    ran = run(tmp_path, "engine.startup_timeout_s=600", extra=install(tmp_path, on_post=on_post))
    assert (ran.code, ran.data["reason_code"]) == (3, "server-died")
    assert "exit code 5" in ran.data["reason"]


def test_a_request_that_hangs_hides_no_stall(tmp_path: Path) -> None:
    """A server that is healthy, takes a request and then does nothing is given up while that request still waits."""
    options = ("engine.startup_timeout_s=600", "engine.stall_timeout_s=2")
    ran = run(tmp_path, *options, extra=install(tmp_path, on_post="time.sleep(300)"))
    assert (ran.code, ran.data["reason_code"]) == (3, "server-stalled")


@pytest.mark.slow
def test_e04_a_server_that_loads_for_long(tmp_path: Path) -> None:
    """What moves is told at least every 15 seconds while a server loads; the start-up time is in the record."""
    before = "end = time.monotonic() + 13\nwhile time.monotonic() < end: print('layer', flush=True); time.sleep(0.2)"
    ran = run(tmp_path, extra=install(tmp_path, before=before))
    assert ran.code == 0
    assert "still loading after 1" in ran.err
    assert "log +" in ran.err
    (ready,) = (event for event in record(ran, tmp_path)["events"] if event.startswith("ready after "))
    assert float(ready.split()[2]) >= 13


@pytest.mark.slow
def test_a_silent_stall_is_told_and_ends_where_asked_for(tmp_path: Path) -> None:
    """With `engine.stall_timeout_s` a server without output, memory or CPU movement is given up long before the
    deadline, and its silence is named."""
    options = ("engine.startup_timeout_s=600", "engine.stall_timeout_s=12")
    ran = run(tmp_path, *options, extra=install(tmp_path, before="time.sleep(300)"))
    assert (ran.code, ran.data["reason_code"]) == (3, "server-stalled")
    assert "no sign of life" in ran.data["reason"]
    assert "engine.stall_timeout_s" in ran.data["hint"]
    assert "no sign of life for" in ran.err or "still loading" in ran.err


def test_e05_completions_that_fail_for_a_while(tmp_path: Path) -> None:
    """Health and model list are no readiness: a server whose completions are 503 at first is waited for."""
    on_post = "if len(POSTS) < 4:\n    self.send(503, {'error': 'loading'})\n    return"
    ran = run(tmp_path, extra=install(tmp_path, on_post=on_post))
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)
    assert "HTTP 503" in ran.err


def test_e06_completions_that_hang_for_ever(tmp_path: Path) -> None:
    """A server that is healthy and never answers ends at the start-up deadline, and is gone."""
    run_id = name()
    extra = install(tmp_path, on_post="time.sleep(300)")
    ran = run(tmp_path, "engine.startup_timeout_s=2", "--run-id", run_id, extra=extra)
    assert (ran.code, ran.data["reason_code"], ran.data["accuracy"]) == (3, "not-ready", None)
    assert servers(run_id) == []


def test_the_limit_of_a_wait_for_somebody_elses_server(tmp_path: Path) -> None:
    """A server that gatekit did not start cannot be watched: how long it is waited for is said."""
    ran = here(tmp_path, "engine=external", "engine.base_url=http://127.0.0.1:9", "engine.startup_timeout_s=1")
    assert ran.code == 3
    assert "waiting for http://127.0.0.1:9: up to 1 s: cannot connect" in ran.err


# P07: the port


def test_p07_a_stranger_on_the_chosen_port(tmp_path: Path) -> None:
    """Who takes the port between its choice and the server's start is asked nothing, and named with its pid."""
    before = "print('port', PORT, flush=True)\nwhile not os.path.exists(os.path.join(HERE, 'go')): time.sleep(0.05)\n"
    extra = install(tmp_path, before=before + "time.sleep(300)")
    asked: list[bytes] = []
    with begun(tmp_path, extra=extra) as process:
        log = _await_text(tmp_path, "port ")
        port = int(log.read_text().split()[1])
        with socket.create_server(("127.0.0.1", port)) as stranger:
            threading.Thread(target=_answer_all, args=(stranger, asked), daemon=True).start()
            (tmp_path / "bin" / "go").touch()
            out, _ = process.communicate(timeout=60)
    found = json.loads(out)
    assert (process.returncode, found["reason_code"], found["accuracy"]) == (3, "port-taken", None)
    assert f"process {os.getpid()}" in found["reason"]
    assert not any(line.startswith(b"POST") for line in asked)


def _answer_all(listener: socket.socket, asked: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            asked.append(connection.recv(65536))
            body = b'{"data": [{"id": "m"}]}'
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)


# P08 to P10: a server that shouts, or does not listen


@pytest.mark.parametrize(
    "flood",
    [
        "line = b'y' * 99 + b'\\n'\nfor _ in range(200): os.write(1, line * 10000)",
        "for _ in range(100): os.write(1, b'z' * 10**6)",
    ],
    ids=["P08-200-MB", "P09-no-newline"],
)
def test_p08_p09_a_flood_of_output(tmp_path: Path, flood: str) -> None:
    """Hundreds of megabytes of output, in lines or in one, block neither server nor run, and the log stays capped."""
    ran = run(tmp_path, extra=install(tmp_path, before=flood))
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)
    assert log_of(ran, tmp_path).stat().st_size <= CAP_BYTES


def test_p10_a_server_that_ignores_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run ends as any other, the server killed after the grace."""
    monkeypatch.setattr(launch, "GRACE_S", 0.5)
    run_id = name()
    ran = run(tmp_path, "--run-id", run_id, extra=install(tmp_path, before=STUBBORN))
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)
    assert servers(run_id) == []


# P11: leftovers


@contextmanager
def leftover(folder: Path, run_id: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the mark of a run whose gatekit is gone, as a killed run leaves it."""
    code = "import os; from gatekit.engine.run_mark import new_owner; print(new_owner())"
    owner = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    env = {"PATH": os.environ["PATH"], "GATEKIT_RUN": run_id, OWNER_MARKER: owner, **more}
    argv = [sys.executable, "-S", "-c", "import time; time.sleep(300)", "--api-key", "sk-hidden", "\x1b[31m"]
    with subprocess.Popen(argv, env=env, start_new_session=True, cwd=folder) as process:
        try:
            yield process
        finally:
            process.kill()


def test_p11_a_leftover_is_told_and_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new run warns of what an earlier one left, with pid and command; `reap` lists it harmlessly and ends it, and
    never touches a process without the mark of a dead gatekit."""
    monkeypatch.setattr(launched, "TERM_GRACE_S", 0.0)  # the time that one of a run that just ended is given
    run_id = name()
    (tmp_path / ".gatekit" / "runs" / run_id).mkdir(parents=True)
    stranger = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)", "vllm", run_id])
    try:
        with leftover(tmp_path, run_id) as left:
            ran = run(tmp_path, extra=install(tmp_path))
            (warning,) = (line for line in ran.data["warnings"] if "left over" in line)
            assert ran.code == 0
            assert str(left.pid) in warning
            assert "`gatekit reap --kill`" in warning
            listed = here(tmp_path, "reap", "--dir", ".gatekit")
            assert listed.code == 3
            assert listed.out.startswith(f"left over: pid {left.pid}, run {run_id}, ")
            assert "sk-hidden" not in listed.out
            assert "\x1b" not in listed.out
            assert len(listed.out.splitlines()) == 1
            killed = here(tmp_path, "reap", "--kill", "--json", "--dir", ".gatekit")
            assert killed.code == 0
            assert [(one["pid"], one["is_left"]) for one in killed.data["leftovers"]] == [(left.pid, False)]
            assert left.wait(5) == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    again = here(tmp_path, "reap", "--dir", ".gatekit")
    assert (again.code, again.out) == (0, "no leftovers\n")


def test_a_living_run_is_never_reaped(tmp_path: Path) -> None:
    """`reap --kill` beside a run leaves its server alone: its gatekit lives."""
    run_id = name()
    with begun(tmp_path, *MANY, "--run-id", run_id, extra=install(tmp_path, on_post=SLOW)) as process:
        wait_for_answers(tmp_path, run_id, 3)
        before = set(servers(run_id))
        ran = here(tmp_path, "reap", "--kill", "--dir", ".gatekit")
        assert (ran.code, ran.out) == (0, "no leftovers\n")
        assert set(servers(run_id)) == before
        assert process.poll() is None


def test_a_stubborn_leftover_and_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ignores SIGTERM is killed, and so is a member of its process group whose environment hides the mark."""
    assert reap.stop_leftovers.__kwdefaults__ is not None
    monkeypatch.setitem(reap.stop_leftovers.__kwdefaults__, "grace_s", 0.5)
    run_id = name()
    (tmp_path / ".gatekit" / "runs" / run_id).mkdir(parents=True)
    code = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(300)'], env={})\n"
        "print(child.pid, flush=True); time.sleep(300)"
    )
    with leftover(tmp_path, run_id) as model:
        env = dict(
            line.split("=", 1) for line in Path(f"/proc/{model.pid}/environ").read_text().split("\0") if "=" in line
        )
    argv = [sys.executable, "-S", "-c", code]
    with subprocess.Popen(argv, env=env, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        found = here(tmp_path, "reap", "--json", "--dir", ".gatekit").data["leftovers"]
        assert {one["pid"] for one in found} == {process.pid, child}
        assert here(tmp_path, "reap", "--kill", "--dir", ".gatekit").code == 0
        assert process.wait(5) == -signal.SIGKILL
        gone = process_stat(child)
        assert gone is None or gone.is_dead


def test_reap_refuses_a_history_that_is_not_there(tmp_path: Path) -> None:
    """A mistyped --dir is wrong input, not an all-clear."""
    ran = here(tmp_path, "reap", "--dir", "nowhere")
    assert ran.code == 2
    assert "no history in nowhere" in ran.err


# P13 to P17: small and strange machines


def test_p13_an_ascii_terminal(tmp_path: Path) -> None:
    """A model that answers in emoji to an ASCII terminal changes no verdict."""
    extra = install(tmp_path, on_post="text = '\\U0001f600 ' + text") | {"LANG": "C", "LC_ALL": "C"}
    ran = run_apart(tmp_path, extra={**extra, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)


def test_p14_few_open_files(tmp_path: Path) -> None:
    """More requests at once than files may be open is wrong input, in one line, before anything starts."""
    limited = ("sh", "-c", 'ulimit -n 256 && exec "$@"', "sh")
    ran = run_apart(tmp_path, "client.concurrency=512", extra=install(tmp_path), before=limited)
    assert (ran.code, ran.data["reason_code"]) == (2, "too-few-files")
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / ".gatekit").exists()


def test_p15_a_clock_that_is_set_back(tmp_path: Path) -> None:
    """A system clock that goes back an hour during the run moves no deadline and no verdict."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        f"import datetime, os, time\nreal, sign = time.time, {str(tmp_path / 'bin' / 'asked')!r}\n"
        "def now(): return real() - (3600 if os.path.exists(sign) else 0)\ntime.time = now\n"
        "class Clock(datetime.datetime):\n    @classmethod\n"
        "    def now(cls, tz=None): return cls.fromtimestamp(now(), tz)\n"
        "datetime.datetime = Clock\n"
    )
    extra = install(tmp_path, on_post="open(os.path.join(HERE, 'asked'), 'w').close()") | {
        "PYTHONPATH": str(tmp_path / "site")
    }
    ran = run_apart(tmp_path, "client.concurrency=2", extra=extra)
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)
    stored = record(ran, tmp_path)
    assert stored["finished_at"] < stored["started_at"]  # the clock was set back indeed


NEEDS_CONTAINER = pytest.mark.skipif(
    not can_make_pid_namespace() or shutil.which("unshare") is None, reason="needs `unshare` and a PID namespace"
)
DETACHED = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execv(SLEEP[0], SLEEP)
    os._exit(0)
os.wait()
"""


def as_process_1(folder: Path, *more: str, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A run as process 1 of a container; at its end it says on stderr what else is there."""
    container = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    container += [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
    argv = [*container, sys.executable, "-c", _AS_PROCESS_1, *arguments(*more)]
    return subprocess.run(argv, cwd=folder, env=environment(extra), capture_output=True, text=True, timeout=120)


@NEEDS_CONTAINER
def test_p16_process_1_of_a_container(tmp_path: Path) -> None:
    """As process 1 gatekit gives the same verdict, and nothing is left when it is done."""
    done = as_process_1(tmp_path, extra=install(tmp_path, before=DETACHED))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["verdict"], found["counts"]["correct"]) == ("PASS", 40)
    assert "beside process 1: []" in done.stderr


@NEEDS_CONTAINER
def test_p16_process_1_buries_whom_it_is_given(tmp_path: Path) -> None:
    """When somebody kills both of the lifeline, what they held is given to process 1, which ends and buries it."""
    kill_both = "\n".join(
        (
            "inner = os.getppid()",
            "outer = int(open(f'/proc/{inner}/stat').read().rpartition(')')[2].split()[1])",
            "for pid in (outer, inner): os.kill(pid, signal.SIGKILL)",
        )
    )
    extra = install(tmp_path, before=DETACHED, on_post=kill_both)
    done = as_process_1(tmp_path, "engine.containment=subreaper", extra=extra)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["reason_code"] == "server-died"
    assert "beside process 1: []" in done.stderr


_AS_PROCESS_1 = """
import os, sys
from gatekit.cli.main import main
from gatekit.engine.process_stat import all_processes
assert os.getpid() == 1
code = main(sys.argv[1:])
print("beside process 1:", [stat for stat in all_processes() if stat.pid != 1], file=sys.stderr)
sys.exit(int(code))
"""


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_p17_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """A home that is unset or not there changes no verdict."""
    monkeypatch.delenv("HOME", raising=False)
    ran = run(tmp_path, extra=install(tmp_path) | ({} if home is None else {"HOME": home}))
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)


def test_p17_a_home_that_is_read_only(tmp_path: Path) -> None:
    """The same of a home that nothing can be written to, imports included."""
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    ran = run_apart(tmp_path, extra=install(tmp_path) | {"HOME": str(home)}, before=within_rights())
    assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)


# P19: company


def test_p19_two_runs_at_once(tmp_path: Path) -> None:
    """Two runs on one machine each talk to their own server alone, while both are asked."""
    first, second = folders = [tmp_path / "a", tmp_path / "b"]
    both_asked = "print('asked for', data['model'], flush=True)\nopen(os.path.join(HERE, 'asked'), 'w').close()\n"
    both_asked += (
        f"while not all(map(os.path.exists, {[str(one / 'bin' / 'asked') for one in folders]})): time.sleep(0.01)"
    )
    extras = []
    for folder in folders:
        folder.mkdir()
        extras.append(install(folder, on_post=both_asked))
    with begun(first, extra=extras[0]) as process:
        there = run(second, extra=extras[1])
        out, err = process.communicate(timeout=120)
        ended = [Ran(code=process.returncode, out=out, err=err), there]
    for folder, ran in zip(folders, ended, strict=True):
        assert (ran.code, ran.data["counts"]["correct"]) == (0, 40)
        asked = set(log_of(ran, folder).read_text().split())
        assert asked == {"asked", "for", record(ran, folder)["served"]["model"]}
