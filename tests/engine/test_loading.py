"""What counts as a movement of a starting server."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

import pytest

from gatekit.engine.launch import start
from gatekit.engine.loading import Loading, Sample, movement, sample

STILL = Sample(at_s=0.0, log_bytes=100, memory_bytes=2**30, cpu_s=5.0)


def later(at_s: float, *, log: int = 0, memory: int = 0, cpu_s: float = 0.0) -> Sample:
    """STILL, with more of each."""
    return Sample(at_s=at_s, log_bytes=100 + log, memory_bytes=2**30 + memory, cpu_s=5.0 + cpu_s)


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (later(10.0), ""),
        (later(10.0, memory=2**19, cpu_s=0.2), ""),  # a poll now and then is no work
        (later(10.0, log=1), "log +1 KiB"),
        (later(10.0, memory=3 * 2**30), "memory +3.0 GiB"),
        (later(10.0, memory=-(2**29)), "memory -512.0 MiB"),
        (later(10.0, cpu_s=18.0), "CPU 180 %"),
        (later(10.0, log=4096, memory=2**21, cpu_s=1.0), "log +4 KiB, memory +2.0 MiB, CPU 10 %"),
        (later(10.0, cpu_s=-4.0), "processes ended"),
        (Sample(at_s=9.0, log_bytes=100, memory_bytes=None, cpu_s=None), ""),
    ],
)
def test_movements(now: Sample, text: str) -> None:
    """Any output, a MiB of memory or three percent of a core is a movement; what is not known is none."""
    assert movement(STILL, now) == text


def test_slow_movements_add_up() -> None:
    """A server that grows by less than counts at once is loading all the same; one that stops has a pause from then."""
    samples = [STILL, *(later(float(at), memory=at * 2**18) for at in range(1, 9)), later(20.0, memory=2**21)]
    loading = Loading(partial(next, iter(samples)))
    for _ in range(8):
        loading.look()
    assert (loading.pause_s, loading.longest_pause_s) == (0.0, 4.0)
    assert loading.told() == "still loading after 8 s: memory +2.0 MiB"
    loading.look()
    assert loading.pause_s == 12.0
    assert loading.told() == "no sign of life for 12 s: log, memory and CPU are still"


def test_real_processes_count_together(tmp_path: Path) -> None:
    """The CPU time of a child is its server's, and a sleeping server has no movement."""
    busy = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'while True: pass'])"
    idle = "import time; print('up', flush=True); time.sleep(300)"
    with start((sys.executable, "-S", "-c", busy), env={}, log_path=tmp_path / "a", lifeline=False) as process:
        before = sample(process)
        deadline = time.monotonic() + 20
        while "CPU" not in movement(before, sample(process)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "CPU" in movement(before, sample(process))
    with start((sys.executable, "-S", "-c", idle), env={}, log_path=tmp_path / "b", lifeline=False) as process:
        while "up" not in process.head():
            time.sleep(0.01)
        before = sample(process)
        time.sleep(0.5)
        assert movement(before, sample(process)) == ""
