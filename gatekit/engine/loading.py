"""Whether a starting server still does something: its output grows, or its processes use CPU or other memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gatekit.engine.launch import ServerProcess
from gatekit.engine.listener import family
from gatekit.engine.process_stat import process_stat

# A server that waits for its turn still polls: what is less than this is no movement.
_LEAST_MEMORY_BYTES = 2**20
_LEAST_CPU_SHARE = 0.03
_LEAST_CPU_S = 0.05
_GIB = 2**30
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A server at one moment: bytes of output so far, and memory and CPU time of all its processes together.

    Memory and CPU are None where the kernel does not show them.
    """

    at_s: float
    log_bytes: int
    memory_bytes: int | None
    cpu_s: float | None


def sample(process: ServerProcess) -> Sample:
    """The server now."""
    stats = [stat for pid in family(process.pid) if (stat := process_stat(pid)) is not None]
    return Sample(
        at_s=time.monotonic(),
        log_bytes=process.log_bytes,
        memory_bytes=sum(stat.memory_bytes for stat in stats) if stats else None,
        cpu_s=sum(stat.cpu_s for stat in stats) if stats else None,
    )


def movement(before: Sample, now: Sample) -> str:
    """What moved between two moments, such as `log +12 KiB, memory +1.5 GiB, CPU 180 %`; empty when nothing did.

    CPU time of a process that ended meanwhile is gone: less of it is movement too.
    """
    moved = []
    if (log := now.log_bytes - before.log_bytes) > 0:
        moved.append(f"log +{_size(log)}")
    if before.memory_bytes is not None and now.memory_bytes is not None:
        memory = now.memory_bytes - before.memory_bytes
        if abs(memory) >= _LEAST_MEMORY_BYTES:
            moved.append(f"memory {'+' if memory > 0 else '-'}{_size(abs(memory))}")
    if before.cpu_s is not None and now.cpu_s is not None:
        passed_s, cpu_s = max(now.at_s - before.at_s, 0.01), now.cpu_s - before.cpu_s
        if cpu_s < -_LEAST_CPU_S:
            moved.append("processes ended")
        elif cpu_s >= max(_LEAST_CPU_S, _LEAST_CPU_SHARE * passed_s):
            moved.append(f"CPU {100 * cpu_s / passed_s:.0f} %")
    return ", ".join(moved)


class Loading:
    """The movements of one starting server. A pause is measured from the last movement on, however slow they are."""

    def __init__(self, look: Callable[[], Sample]) -> None:
        self._look = look
        self.began = look()
        self._now = self._told = self._moved = self.began
        self.longest_pause_s = 0.0

    @property
    def passed_s(self) -> float:
        """How long it is watched."""
        return self._now.at_s - self.began.at_s

    @property
    def pause_s(self) -> float:
        """For how long nothing has moved."""
        return self._now.at_s - self._moved.at_s

    def look(self) -> None:
        """Take the next sample."""
        self._now = self._look()
        self.longest_pause_s = max(self.longest_pause_s, self.pause_s)
        if movement(self._moved, self._now):
            self._moved = self._now

    def told(self) -> str:
        """A sentence on what moved since the last one, or that nothing does."""
        moved, self._told = movement(self._told, self._now), self._now
        if moved:
            return f"still loading after {self.passed_s:.0f} s: {moved}"
        return f"no sign of life for {self.pause_s:.0f} s: log, memory and CPU are still"


def _size(size: int) -> str:
    if size >= _GIB:
        return f"{size / _GIB:.1f} GiB"
    return f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{max(size // 1024, 1)} KiB"
