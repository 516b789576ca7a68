"""Runs a command that dies with its starter: `python lifeline.py [--pid-namespace] -- COMMAND ARGUMENT...`.

The starter holds the other end of standard input. When that closes, or the starter's process is gone, however it
died, the command gets SIGTERM, two seconds, and SIGKILL, and so does everything it started, detached or not. The exit
code is the command's own, 128 + N after signal N, 127 when it could not be started.

With `--pid-namespace` the command runs in a PID namespace with a /proc of its own, under an init that dies with this
process: then the kernel itself ends all of it, even when starter and lifeline are killed at the same moment. Without,
this process and a child of it, which starts the command, are both subreapers of what the command starts: whichever is
killed, the other one takes the family down. `--probe` instead of a command exits with 0 where such a namespace can be
made, else with 1. Only the standard library.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

TERM_GRACE_S = 2.0
CANNOT_START = 127
PID_NAMESPACE = "--pid-namespace"
PROBE = "--probe"
# The session that a server was started in, so that a process with the mark of a run is known to be still in it.
SESSION_MARKER = "GATEKIT_SESSION"
_SWEEP_S = 3.0
_INNER_GRACE_S = 1.0
_POLL_S = 0.05
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 1 << 14, 1 << 19
_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Runs the command until it exits or its starter is gone, and leaves no descendant behind."""
    options, command = _split(arguments)
    if PROBE in options:
        return _probe()
    starter = Starter()
    if PID_NAMESPACE in options:
        return _contained(command, starter)
    return _kept(command, starter)


class Starter:
    """Whoever started this process: whether it lives, and whether it has told the group to end."""

    def __init__(self) -> None:
        self.told = False
        self._poll = select.poll()
        self._poll.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
        # A copy of the pipe in some other child of the starter would keep it open: the process is watched too.
        try:
            self._pidfd = os.pidfd_open(os.getppid())
            self._poll.register(self._pidfd, select.POLLIN)
        except (AttributeError, OSError):
            self._pidfd = -1
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        self._parent: int | None = None

    def fall_with(self, parent: int) -> None:
        """From now on it is gone too when `parent` is no longer the parent of this process."""
        self._parent = parent

    def is_gone_after(self, timeout_s: float) -> bool:
        """Whether it is gone, waiting for that at most `timeout_s`."""
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._pidfd or not os.read(descriptor, 4096):
                return True
        return self._parent is not None and os.getppid() != self._parent

    def _note(self, number: int, _: FrameType | None) -> None:
        self.told = True


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    end = arguments.index("--")
    return arguments[:end], arguments[end + 1 :]


def _kept(command: list[str], starter: Starter) -> int:
    """The exit code of the command under two subreapers, of which nothing that one of them can see is left then.

    Orphaned descendants become children of the nearer one, so that none can hide by detaching. A command that kills
    its parent dies with it, and what it left goes to the other one.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = os.getpid()
    try:
        inner = os.fork()
    except OSError as problem:
        return _cannot_start(command, problem)
    if inner == 0:
        starter.fall_with(keeper)
        _leave(_run(command, starter, group=keeper))
    code = _wait(
        inner,
        starter,
        grace_s=TERM_GRACE_S + _INNER_GRACE_S,
        tell=lambda: None,  # it sees by itself that the starter is gone, and is only helped when it does not end
        when_told=lambda: _signal(os.kill, inner, signal.SIGTERM),
    )
    _sweep()
    return code


def _run(command: list[str], starter: Starter, *, group: int) -> int:
    """The command's exit code; in the process group `group`, whose signals it gets and this process does not."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        os.setpgid(0, 0)
        child = subprocess.Popen(  # noqa: S603 - an argv list, no shell
            command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, SESSION_MARKER: str(os.getsid(0))},
            process_group=group,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError) as problem:
        return _cannot_start(command, problem)
    code = _wait(child.pid, starter, grace_s=TERM_GRACE_S, tell=lambda: _signal(os.kill, child.pid, signal.SIGTERM))
    _sweep()
    return code


def _contained(command: list[str], starter: Starter) -> int:
    """The exit code of the command in a PID namespace, of which nothing is left then."""
    try:
        _unshare()
    except OSError as problem:
        return _cannot_start(command, problem)
    init = os.fork()
    if init == 0:
        _leave(_init(command, starter))
    # The init sees by itself that the starter is gone; it is only helped when it does not end.
    code = _wait(init, starter, grace_s=TERM_GRACE_S + _INNER_GRACE_S, tell=lambda: None)
    _signal(os.kill, init, signal.SIGKILL)
    deadline = time.monotonic() + _SWEEP_S
    while _is_child(init) and time.monotonic() < deadline:  # the kernel ends an init after all that was under it
        time.sleep(_POLL_S / 5)
    return code


def _init(command: list[str], starter: Starter) -> int:
    """What process 1 of the namespace does: run the command in a session of its own, pass signals on, reap."""
    try:
        _die_with_parent()
        _mount_proc()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - no shell
    except (OSError, ValueError) as problem:
        return _cannot_start(command, problem)
    group = child.pid

    def tell() -> None:
        _signal(os.killpg, group, signal.SIGTERM)

    return _wait(child.pid, starter, grace_s=TERM_GRACE_S, tell=tell, when_told=tell)


def _unshare() -> None:
    """Children of this process will be in a new PID namespace. Raises OSError where none can be made."""
    try:
        _checked(_libc.unshare(_CLONE_NEWPID))
    except OSError:
        if _needs_setuid_programs():
            raise
        uid, gid = os.geteuid(), os.getegid()
        _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID))
        for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            Path("/proc/self", name).write_text(line, encoding="ascii")


def _needs_setuid_programs() -> bool:
    """In a user namespace no program gains rights: not the one that makes NVIDIA's device files at their first use."""
    return Path("/proc/driver/nvidia").exists() and not Path("/dev/nvidia-uvm").exists()


def _mount_proc() -> None:
    """A /proc of the namespace's own: with the old one every program that looks for itself would find a stranger."""
    _checked(_libc.unshare(_CLONE_NEWNS))
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None))
    _checked(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None))


def _probe() -> int:
    try:
        _unshare()
        child = os.fork()
    except OSError:
        return 1
    if child == 0:
        try:
            _mount_proc()
            found = Path("/proc/self").readlink().name == str(os.getpid()) == "1"
        except OSError:
            found = False
        os._exit(0 if found else 1)
    return 0 if os.waitpid(child, 0)[1] == 0 else 1


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _cannot_start(command: list[str], problem: Exception) -> int:
    sys.stderr.write(f"gatekit: cannot start {command[0]!r}: {problem}\n")
    return CANNOT_START


def _signal(send: Callable[[int, int], None], target: int, number: signal.Signals) -> None:
    try:
        send(target, number)
    except (ProcessLookupError, PermissionError):
        return


def _wait(
    child: int,
    starter: Starter,
    *,
    grace_s: float,
    tell: Callable[[], None],
    when_told: Callable[[], None] = lambda: None,
) -> int:
    """The child's exit code; 128 + SIGKILL where the starter was gone and the grace over first.

    It is told to end once: by `when_told` when the starter says so, else by `tell` when the starter is gone.
    """
    deadline: float | None = None
    passed_on = False
    while True:
        if (code := _reap(child)) is not None:
            return code
        if starter.told and not passed_on:
            passed_on = True
            when_told()
        if deadline is None:
            if starter.is_gone_after(_POLL_S):
                deadline = time.monotonic() + (grace_s if not starter.told else grace_s - TERM_GRACE_S)
                if not starter.told:
                    passed_on = True
                    tell()
        elif time.monotonic() >= deadline:
            return 128 + signal.SIGKILL
        else:
            time.sleep(_POLL_S)


def _reap(child: int | None) -> int | None:
    """Buries every dead child; the exit code of the command when it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            result = os.waitstatus_to_exitcode(status)
            code = result if result >= 0 else 128 - result


def _is_child(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _sweep() -> None:
    """Kills what is left of the family, generation by generation, for at most three seconds."""
    deadline = time.monotonic() + _SWEEP_S
    while time.monotonic() < deadline:
        family = list(_family())
        if not family:
            return
        for pid in family:
            _signal(os.kill, pid, signal.SIGKILL)
        time.sleep(0.01)
        _reap(None)


def _family() -> Iterator[int]:
    """Living children of this process, and members of its process group when it leads one."""
    me, leads = os.getpid(), os.getpgrp() == os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent group ...; a name may hold spaces and brackets.
            state, parent, group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        pid = int(path.parent.name)
        related = int(parent) == me or (leads and int(group) == me)
        if pid != me and state != "Z" and related:
            yield pid


def _leave(code: int) -> None:
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main(sys.argv[1:]))
