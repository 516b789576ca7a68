"""What the first block costs a healthy run: the same requests with and without stopping rules, side by side.

A server in a process of its own answers after 0.2 s (or log-normally around it). Run: `python benchmarks/ramp.py`.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import time

from gatekit.gate.early_stop import EarlyTest
from gatekit.records import spec as records
from gatekit.records.answers import Status
from gatekit.records.spec import EarlyStop
from gatekit.records.verdict import Outcome
from gatekit.run.client import Client
from gatekit.run.loop import Answer, Asking
from gatekit.run.stopping import EarlyStopping, NeverStopping, Stopping
from gatekit.stats.wor_mixture import WorMixture, wor_counts

N = 1319
MEDIAN_S = 0.2
REPEATS = 5
BODY = json.dumps({"model": "m", "choices": [{"text": "#### 1", "finish_reason": "stop"}]}).encode()
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


async def serve(sigma: float) -> None:
    """Answer every request after its time; ends with its standard input."""
    chance = random.Random(0)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            await asyncio.sleep(MEDIAN_S * math.exp(chance.gauss(0, sigma)))
            writer.write(RESPONSE)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1024)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def early() -> Stopping:
    """All rules of a nightly: curtailment and the sequential test, which a healthy run passes without stopping."""
    test = EarlyTest(method=EarlyStop.WOR_MIXTURE, test=WorMixture(N, *wor_counts(N, 0.95, 0.05), 0.003, 0.1))
    return EarlyStopping(N, settled=lambda _: None, decides=lambda _: Outcome.INCONCLUSIVE, test=test)


async def span_s(port: int, concurrency: int, stopping: Stopping) -> float:
    """Seconds from the first request to the last answer."""
    limits = records.Client(concurrency=concurrency, request_timeout_s=60, deadline_s=600, attempts=1, outage_s=5)
    async with Client(f"http://127.0.0.1:{port}", api_key=None, request_timeout_s=60) as client:

        def take(answer: Answer) -> None:
            stopping.answered(answer.index, Status.WRONG if answer.index % 20 == 19 else Status.CORRECT)

        asking = Asking(
            client,
            [b'{"prompt": "p"}'] * N,
            api=records.Api.COMPLETIONS,
            limits=limits,
            expected_model="m",
            on_answer=take,
            watch=lambda: None,
            stopping=stopping,
        )
        began = time.perf_counter()
        failure = await asking.run(asyncio.Event())
        assert failure is None
        assert asking.answered == N
        return time.perf_counter() - began


def compare(sigma: float, concurrency: int) -> None:
    """Print the medians of both and what the stopping rules add."""
    command = [sys.executable, __file__, "serve", str(sigma)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        plain, ramped = [], []
        for _ in range(REPEATS):
            plain.append(asyncio.run(span_s(port, concurrency, NeverStopping())))
            ramped.append(asyncio.run(span_s(port, concurrency, early())))
        server.stdin.close()
    before, after = statistics.median(plain), statistics.median(ramped)
    first = early().in_flight(concurrency)
    print(
        f"{sigma:5.1f} {concurrency:9d} {first:11d} {before:9.3f} s {after:9.3f} s {100 * (after / before - 1):+7.1f} %"
    )


def main() -> None:
    """The table."""
    print(f"{N} questions, median latency {MEDIAN_S} s, medians of {REPEATS}")
    print("sigma in flight first block   at once  with ramp   added")
    for sigma in (0.0, 0.5):
        for concurrency in (64, 128):
            compare(sigma, concurrency)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(float(sys.argv[2])))
    else:
        main()
