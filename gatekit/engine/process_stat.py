"""A process as the kernel counts it in /proc/PID/stat."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStat:
    """Ids are those of this /proc; `started_ticks` counts from the machine's start and tells a reused id apart."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    cpu_s: float
    memory_bytes: int
    started_ticks: int

    @property
    def is_dead(self) -> bool:
        """Whether it has ended, and only waits to be buried."""
        return self.state in ("Z", "X")


def process_stat(pid: int | str, *, proc: Path = PROC) -> ProcessStat | None:
    """What is known of the process (`self` for this one); None where there is none."""
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
        # pid (name) state parent group session ...; a name may hold spaces and brackets.
        fields = text.rpartition(")")[2].split()
        return ProcessStat(
            pid=int(text.split(maxsplit=1)[0]),
            state=fields[0],
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
            memory_bytes=int(fields[21]) * _PAGE_BYTES,
            started_ticks=int(fields[19]),
        )
    except (OSError, ValueError, IndexError):
        return None


def all_processes(*, proc: Path = PROC) -> Iterator[ProcessStat]:
    """Every process of this /proc, dead ones that nobody buried included."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names alone, of thousands of entries
    except OSError:
        return
    for name in names:
        if name.isdigit() and (stat := process_stat(name, proc=proc)) is not None:
            yield stat


def shows_this_process(*, proc: Path = PROC) -> bool:
    """Whether ids of this /proc are those that this process may use, as they are not in a half-made container."""
    own = process_stat("self", proc=proc)
    return own is not None and own.pid == os.getpid()
