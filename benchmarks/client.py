"""What asking costs: gatekit against a bare aiohttp loop, CPU, memory and time, interleaved, medians of rounds.

Both ask every test question of GSM8K, 5-shot, 128 at once, of the load server of docs/benchmarks.md, which is given as
a path, as the folder of the GSM8K files is; its libraries (httptools, orjson, uvloop) may be those of another
interpreter. The server has one core and the client another. gatekit is the whole command as its users type it, with
journal, record, index, live statistics and an explained verdict. Run:
`python benchmarks/client.py SERVER GSM8K_DIR --python PYTHON [--rounds 5]`. Exits 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CONCURRENCY = 128
N = 1319
CORRECT = 1026  # what the server answers rightly
APIS = ("completions", "chat")
LATENCIES = ("fixed:0", "lognormal:200:0.6")
MOST_ASKING_CPU = 1.5  # of the bare loop's
MOST_SPAN = 1.03  # of the ideal
MOST_RSS_MB = 100.0  # over the interpreter's
_HERE = Path(__file__).parent
_HEAD = (
    "| client | latency ms | wall s | CPU s | ms CPU a question | asking: CPU s | ms a question | span s | of ideal "
    "| peak RSS MB |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One process: all of it, and its asking alone."""

    wall_s: float
    cpu_s: float
    rss_mb: float
    asking_cpu_s: float = 0.0
    span_s: float = 0.0


@contextmanager
def served(python: str, server: Path, data: Path, latency: str, core: int) -> Iterator[str]:
    """The base URL of the load server, on a core of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [python, str(server), "--port", str(port), "--data", str(data / "test.jsonl"), "--latency", latency]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            os.sched_setaffinity(process.pid, {core})
            assert process.stdout.readline() == "ready\n", "the load server did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def spent(command: Sequence[str], folder: Path, core: int) -> tuple[Reading, str]:
    """What the process took, as the kernel counts it, and what it printed."""
    told = folder / "told"
    with told.open("w") as file:
        began_s = time.perf_counter()
        process = subprocess.Popen([sys.executable, *command], cwd=folder, env=_environment(), stdout=file, stderr=file)
        os.sched_setaffinity(process.pid, {core})
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, told.read_text()
    reading = Reading(wall_s=wall_s, cpu_s=usage.ru_utime + usage.ru_stime, rss_mb=usage.ru_maxrss / 1024)
    return reading, told.read_text()


def gated(api: str, url: str, data: Path, core: int, history: Path) -> Reading:
    """One gate, from the command line to its verdict, as on any night but the first."""
    with tempfile.TemporaryDirectory() as name:
        readings = Path(name, "readings.json")
        overrides = ["engine=external", f"engine.base_url={url}", "engine.expected_model=mock", "task=gsm8k"]
        overrides += [f"task.path={data}", f"protocol={api}_5shot", f"client.concurrency={CONCURRENCY}"]
        overrides += [f"history.dir={history}", f"gate.observed={{correct: {CORRECT}, n: {N}}}"]
        command = [str(_HERE / "timed_gatekit.py"), str(readings), *overrides]
        whole, told = spent(command, Path(name), core)
        assert f"{CORRECT} of {N} correct" in told, told
        return _with_asking(whole, readings.read_text())


def bare(api: str, url: str, data: Path, core: int, history: Path) -> Reading:
    """One pass of the bare loop."""
    with tempfile.TemporaryDirectory() as name:
        command = [str(_HERE / "bare_loop.py"), api, url, str(data), str(CONCURRENCY)]
        whole, told = spent(command, Path(name), core)
        assert round(json.loads(told)["accuracy"] * N) == CORRECT, told
        return _with_asking(whole, told)


def idle_mb() -> float:
    """The peak of an interpreter that does nothing, as it tells itself: of a small process the kernel would count the
    memory of the process that it was forked from."""
    said = subprocess.check_output([sys.executable, "-c", "print(open('/proc/self/status').read())"], text=True)
    return next(int(line.split()[1]) / 1024 for line in said.splitlines() if line.startswith("VmHWM:"))


def _with_asking(whole: Reading, readings: str) -> Reading:
    found = json.loads(readings)
    return Reading(
        wall_s=whole.wall_s,
        cpu_s=whole.cpu_s,
        rss_mb=whole.rss_mb,
        asking_cpu_s=found["asking_cpu_s"],
        span_s=found["span_s"],
    )


def _environment() -> dict[str, str]:
    """Without settings of gatekit, and with compiled files, as an installed program has them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEKIT_", "PYTHON"))}
    return {**kept, "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), f"client-benchmark-{os.getuid()}"))}


def ideal_span_s(latency: str) -> float:
    """What the asking takes when every place in flight is filled again at once, in the order of the questions."""
    kind, *numbers = latency.split(":")
    if kind == "fixed":
        return math.ceil(N / CONCURRENCY) * float(numbers[0]) / 1000
    mean_s, sigma = float(numbers[0]) / 1000, float(numbers[1])
    places = [0.0] * CONCURRENCY
    for index in range(N):  # the latency that the server gives each question, with its seed 1
        latency_s = random.Random(1000 + index).lognormvariate(math.log(mean_s) - sigma * sigma / 2, sigma)
        heapq.heapreplace(places, places[0] + latency_s)
    return max(places)


def median(readings: Sequence[Reading]) -> Reading:
    """Field by field."""
    fields = Reading.__dataclass_fields__
    return Reading(**{name: statistics.median(getattr(one, name) for one in readings) for name in fields})


def row(name: str, latency: str, taken: Reading) -> str:
    """One line of the table."""
    ideal_s = ideal_span_s(latency)
    share = f"{taken.span_s / ideal_s:.3f}" if ideal_s else "-"
    cells = [name, latency, f"{taken.wall_s:.2f}", f"{taken.cpu_s:.2f}", f"{1000 * taken.cpu_s / N:.2f}"]
    cells += [f"{taken.asking_cpu_s:.3f}", f"{1000 * taken.asking_cpu_s / N:.2f}", f"{taken.span_s:.3f}", share]
    return f"| {' | '.join(cells)} | {taken.rss_mb:.0f} |"


def judged(what: str, value: float, limit: float) -> bool:
    """Whether the bound is kept, said in one line."""
    kept = value <= limit
    print(f"{'kept' if kept else 'BROKEN'}: {what}: {value:.3f} (limit {limit:g})")
    return kept


def measured(given: argparse.Namespace, latency: str, history: Path) -> dict[str, list[Reading]]:
    """The readings of all clients at one latency, round by round; the first round, which compiles files and makes the
    history's database, is left out."""
    found: dict[str, list[Reading]] = {}
    server_core, client_core = given.cores
    for number in range(given.rounds + 1):
        for api in APIS:
            for name, client in (("bare loop", bare), ("gatekit", gated)):
                with served(given.python, given.server, given.gsm8k, latency, server_core) as url:
                    reading = client(api, url, given.gsm8k, client_core, history)
                if number:
                    found.setdefault(f"{name}, {api}", []).append(reading)
    return found


def asking_ratios(gates: Sequence[Reading], loops: Sequence[Reading]) -> list[float]:
    """The CPU of asking over the bare loop's of the same round: neighbours share what the machine does meanwhile."""
    return sorted(gate.asking_cpu_s / loop.asking_cpu_s for gate, loop in zip(gates, loops, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """The table, then the bounds; 1 where one of them is broken."""
    given = _parsed(arguments)
    os.sched_setaffinity(0, {given.cores[0]})
    print(_HEAD, flush=True)
    readings, medians = {}, {}
    for latency in LATENCIES:
        with tempfile.TemporaryDirectory() as history:
            readings[latency] = measured(given, latency, Path(history))
        medians[latency] = {name: median(taken) for name, taken in readings[latency].items()}
        for name, taken in medians[latency].items():
            print(row(name, latency, taken), flush=True)
    interpreter_mb = idle_mb()
    print(f"\nan idle interpreter: {interpreter_mb:.0f} MB")
    at_once, slow = (medians[latency] for latency in LATENCIES)
    kept = []
    for api in APIS:
        gate, loop = at_once[f"gatekit, {api}"], at_once[f"bare loop, {api}"]
        print(f"told: {api}: CPU of the whole command over the bare loop's: {gate.cpu_s / loop.cpu_s:.2f}")
        ratios = asking_ratios(*(readings[LATENCIES[0]][f"{name}, {api}"] for name in ("gatekit", "bare loop")))
        what = f"{api}: CPU of asking over the bare loop's, median of rounds ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        kept.append(judged(what, statistics.median(ratios), MOST_ASKING_CPU))
        span = slow[f"gatekit, {api}"].span_s / ideal_span_s(LATENCIES[1])
        kept.append(judged(f"{api}: span over the ideal at {LATENCIES[1]}", span, MOST_SPAN))
        rss = max(each[f"gatekit, {api}"].rss_mb for each in (at_once, slow)) - interpreter_mb
        kept.append(judged(f"{api}: peak RSS over the interpreter's, MB", rss, MOST_RSS_MB))
    return 0 if all(kept) else 1


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", type=Path)
    parser.add_argument("gsm8k", type=lambda text: Path(text).resolve())
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the server's libraries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs=2, default=(0, 1), metavar=("SERVER", "CLIENT"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
