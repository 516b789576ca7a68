"""A memory cgroup of a test's own, in which the kernel really kills a process for want of memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_ROOM_BYTES = 32 * 2**20
_HOG_BYTES = 80 * 2**20
_HOG = """
import sys, time
print("ready", flush=True)
sys.stdin.readline()
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096): held[at] = 1
time.sleep(300)
"""


class MemoryCgroup:
    """A folder of the version 1 or 2 hierarchy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_v1 = (path / "memory.limit_in_bytes").exists()

    def enter(self, pid: int) -> None:
        """The process, and what it starts from now on, counts here."""
        (self.path / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def kills(self) -> int:
        """How many processes were killed here for want of memory."""
        name = "memory.oom_control" if self._is_v1 else "memory.events"
        lines = (self.path / name).read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def kill_for_memory(self, victim: int, timeout_s: float = 20) -> None:
        """Lets memory run out here, the victim being the process that the kernel shall choose."""
        Path(f"/proc/{victim}/oom_score_adj").write_text("1000", encoding="ascii")
        argv = [sys.executable, "-S", "-c", _HOG, str(_HOG_BYTES)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hog:
            assert hog.stdin is not None
            assert hog.stdout is not None
            try:
                hog.stdout.readline()
                self.enter(hog.pid)
                self._limit()
                hog.stdin.write(b"\n")
                hog.stdin.flush()
                deadline = time.monotonic() + timeout_s
                while not self.kills() and time.monotonic() < deadline:
                    time.sleep(0.02)
            finally:
                hog.kill()

    def _limit(self) -> None:
        used, limit = (
            ("memory.usage_in_bytes", "memory.limit_in_bytes") if self._is_v1 else ("memory.current", "memory.max")
        )
        with suppress(OSError):
            swap = self.path / ("memory.swappiness" if self._is_v1 else "memory.swap.max")
            swap.write_text("0", encoding="ascii")
        room = int((self.path / used).read_text(encoding="ascii")) + _ROOM_BYTES
        (self.path / limit).write_text(str(room), encoding="ascii")


@contextmanager
def memory_cgroup(name: str) -> Iterator[MemoryCgroup | None]:
    """A new cgroup, gone afterwards; None where this user may make none."""
    for root in (_ROOT / "memory", _ROOT):
        path = root / name
        try:
            path.mkdir()
        except OSError:
            continue
        if (path / "memory.limit_in_bytes").exists() or (path / "memory.max").exists():
            yield MemoryCgroup(path)
            _remove(path)
            return
        path.rmdir()
    yield None


def _remove(path: Path) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() >= deadline:
                return
            time.sleep(0.1)
        else:
            return
