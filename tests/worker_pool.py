"""Short-lived processes that are born warm: one interpreter that has imported everything, and a fork for each task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]

_LOOP = """
import os, sys
{setup}
def task(argument):
{task}
warm = {warm!r}
if warm:
    task(warm)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            task(line.rstrip("\\n"))
            code = 0
        except BaseException as error:
            print(f"error {{error!r}}", flush=True)
        finally:
            os._exit(code)
    print(f"pid {{child}}", flush=True)
    _, status = os.waitpid(child, 0)
    print(f"ended {{os.waitstatus_to_exitcode(status)}}", flush=True)
"""


class WarmWorker:
    """Runs the body `task`, whose `argument` is a line of text, in a fork of an interpreter that ran `setup`, and that
    did the task itself once with the argument `warm`."""

    def __init__(self, setup: str, task: str, *, warm: str = "") -> None:
        indented = "\n".join(f"    {line}" for line in task.strip().splitlines())
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOOP.format(setup=setup, task=indented, warm=warm)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        while self.read() != "ready":
            pass

    def start(self, argument: str) -> int:
        """Start a task; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(argument + "\n")
        self._process.stdin.flush()
        pid, self._said = None, []
        while pid is None:
            line = self.read()
            if line.startswith("pid "):
                pid = int(line[4:])
            else:
                self._said.append(line)
        return pid

    def kill(self, pid: int) -> None:
        """SIGKILL, if it is still there."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def wait(self) -> tuple[int, list[str]]:
        """The exit code of the task that was started last, and the lines it printed."""
        while not (line := self.read()).startswith("ended "):
            self._said.append(line)
        return int(line[6:]), self._said

    def read(self) -> str:
        """The next line of output."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker died"
        return line.rstrip("\n")

    def stop(self) -> None:
        """End the interpreter."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> WarmWorker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.stop()
