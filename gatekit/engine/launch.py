"""Start a server process, read its output, and stop it with everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO

from gatekit.engine import adopted
from gatekit.engine.lifeline import TERM_GRACE_S
from gatekit.engine.reap import kill_own, wait_for_own
from gatekit.engine.run_mark import Owner, owner_in
from gatekit.engine.server_log import ServerLog
from gatekit.errors import InfraError

_CHUNK_BYTES = 65536
_POLL_S = 0.02
_AFTER_LIFELINE_S = TERM_GRACE_S + 4.0
_AFTER_KILL_S = 5.0
_OTHER_SUBREAPER_S = 1.0
_DRAIN_S = 2.0
GRACE_S = 10.0
HURRIED_GRACE_S = 3.0


class ServerProcess:
    """A running server in a process group of its own. As a context manager it leaves no process behind."""

    def __init__(self, popen: subprocess.Popen[bytes], log: ServerLog, owner: Owner | None = None) -> None:
        self._popen = popen
        self._owner = owner
        self._log = log
        self._stopped = False
        self._drain = Thread(target=_drain, args=(popen.stdout, log), daemon=True, name=f"log of {popen.pid}")
        self._drain.start()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._popen.pid

    @property
    def log_path(self) -> Path:
        """The file that holds the output."""
        return self._log.path

    @property
    def log_bytes(self) -> int:
        """How much output there was so far."""
        return self._log.received

    def head(self) -> str:
        """The first 8 KiB of output so far."""
        return self._log.head()

    def tail(self, lines: int = 20) -> str:
        """The last lines of output so far, safe to print."""
        return self._log.tail(lines)

    def poll(self) -> int | None:
        """The exit code (-N after signal N), None while the server runs.

        A server that has exited stays a zombie until `stop`: that keeps its process group's id from being
        given to someone else, so that `stop` can never hit a stranger.
        """
        if self._popen.returncode is not None:
            return self._popen.returncode
        try:
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._popen.poll()
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def stop(self, grace_s: float = GRACE_S) -> int | None:
        """Ends the server and its group: SIGTERM, `grace_s` seconds, then SIGKILL. Returns the exit code.

        Idempotent, and bounded by `grace_s` plus a few seconds. An exception meanwhile (a second Ctrl-C)
        skips what is left of the grace.
        """
        if self._stopped:
            return self._popen.returncode
        try:
            self._signal(signal.SIGTERM)
            self._wait(grace_s)
        finally:
            try:
                self._cut_lifeline()
            finally:
                self._bury()
        return self._popen.returncode

    def _cut_lifeline(self) -> None:
        """Ends the lifeline and waits while its holder takes the whole family down, detached members too."""
        if self._popen.stdin:
            with suppress(OSError):
                self._popen.stdin.close()
            self._wait(_AFTER_LIFELINE_S)

    def _bury(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait(_AFTER_KILL_S)
        self._stopped = True
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout=0)
        self._kill_detached()
        adopted.buried(self.pid)
        adopted.bury_adopted()
        self._drain.join(_DRAIN_S)
        self._log.close()

    def _kill_detached(self) -> None:
        """Whoever detached itself from a lifeline that somebody killed carries the run's mark still.

        The other subreaper of such a lifeline is given the time to take down what carries no mark.
        """
        if self._owner is None:
            return
        wait_for_own(self._owner, _OTHER_SUBREAPER_S)
        deadline = time.monotonic() + _AFTER_KILL_S
        while kill_own(self._owner) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(GRACE_S if kind is None else HURRIED_GRACE_S)

    def _signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _wait(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def start(
    argv: Sequence[str], *, env: Mapping[str, str], log_path: Path, lifeline: bool, hidden: Sequence[str] = ()
) -> ServerProcess:
    """Starts the argv (never through a shell) in a session of its own, its output in the log at `log_path`.

    With `lifeline` its standard input is a pipe that ends when this process does; else it is /dev/null. The texts of
    `hidden` are masked in the log.
    Raises InfraError when the log cannot be written or the program cannot be started.
    """
    try:
        log = ServerLog(log_path, hidden=hidden)
    except OSError as problem:
        raise InfraError(
            f"cannot write the server log {log_path}: {problem.strerror}",
            reason="log-unwritable",
            hint="check the folder's owner, mode and free space",
        ) from problem
    try:
        popen = subprocess.Popen(  # noqa: S603 - an argv list, no shell
            list(argv),
            stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
        )
        adopted.started(popen.pid)
    except (OSError, ValueError) as problem:
        log.close()
        raise InfraError(
            f"cannot start {argv[0]!r}: {problem}",
            reason="server-not-started",
            hint="check engine.command and that the program is installed",
        ) from problem
    return ServerProcess(popen, log, owner_in(env))


def _drain(pipe: IO[bytes] | None, log: ServerLog) -> None:
    if pipe is None:
        return
    with pipe:
        while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
            log.feed(chunk)
