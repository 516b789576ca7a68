"""What a server may cost: the memory of the whole command, measured beside a healthy run of the same size."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import attached, environment
from fault_server import Fault, bomb, endless_header, endless_hints, huge, many_headers, question_of, saying, striking
from raw_server import RawServer, Request, Start, completion, http
from right_answers import right

MOST_MB = 64
QUESTIONS = 64


# A process inherits the peak of the one that started it until it becomes another program: so it tells its own.
MEASURED = """
import runpy, sys
from pathlib import Path
try:
    runpy.run_module("gatekit", run_name="__main__", alter_sys=True)
finally:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    Path("peak.txt").write_text(line.split()[1])
"""


def peak_mb(folder: Path, server: RawServer, code: int, *more: str) -> float:
    """The most memory that one run held at any time; its exit code is as stated."""
    limits = ("client.attempts=1", "client.request_timeout_s=60", f"client.concurrency={QUESTIONS}")
    command = [sys.executable, "-c", MEASURED, *attached(server.url, *limits, *more, n=QUESTIONS)]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == code, done.stderr + done.stdout
    return int((folder / "peak.txt").read_text()) / 1024


@pytest.fixture(scope="module")
def healthy_mb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[float]:
    """A run without any fault."""
    server = RawServer(right)
    server.start()
    yield peak_mb(tmp_path_factory.mktemp("healthy"), server, 0)
    server.stop()


BIG = {**completion("#### 123456"), "logprobs": "x" * (7 * 2**20)}

COSTLY: dict[str, tuple[Fault, int]] = {
    "a gzip bomb": (bomb, 3),
    "bodies of 50 MB": (huge, 3),
    "allowed bodies of 7 MiB": (saying(http(200, BIG)), 1),
    "200,000 headers": (many_headers, 3),
    "an endless header": (endless_header, 3),
    "endless interim responses": (endless_hints, 3),
}


def all_at_once(request: Request) -> Any:
    """Every question by one of the faults, each by turns."""
    faults = [fault for fault, _ in COSTLY.values()]
    return faults[(question_of(request) or 0) % len(faults)](request)


def test_memory_under_all_faults(raw_server: Start, tmp_path: Path, healthy_mb: float) -> None:
    """Whatever 64 connections carry at once, the command grows by less than 64 MB over a healthy run."""
    server = raw_server(striking(all_at_once))
    assert peak_mb(tmp_path, server, 3, "client.request_timeout_s=8") - healthy_mb < MOST_MB


@pytest.mark.slow
@pytest.mark.parametrize("name", COSTLY)
def test_memory_under_one_fault(raw_server: Start, tmp_path: Path, healthy_mb: float, name: str) -> None:
    """The same law where all 64 connections carry the same."""
    fault, code = COSTLY[name]
    short = ["client.request_timeout_s=5"] if fault is endless_hints else []
    assert peak_mb(tmp_path, raw_server(striking(fault)), code, *short) - healthy_mb < MOST_MB


def test_memory_of_a_thousand_in_flight(raw_server: Start, tmp_path: Path, healthy_mb: float) -> None:
    """1,000 requests in flight cost less than 64 MB over 64 of them."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2200:
        pytest.skip("needs a limit of 2,200 open files for both ends of 1,000 connections")
    many = ("task.n=1000", "client.concurrency=1000")
    assert peak_mb(tmp_path, raw_server(right), 0, *many) - healthy_mb < MOST_MB
