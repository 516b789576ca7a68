"""How the history grows, measured in one run: `python benchmarks/history.py [SERIES [RUNS]]`.

An index of series of 1319 questions is filled night after night with simulated runs, each of another build (86 % of
the questions certainly right, 6 % wrong, 8 % uncertain): 10,000 series of 1, 10 and 100 runs are 10^4, 10^5 and 10^6
runs. For each size: the size of the SQLite file; the query behind one verdict (`past_runs`) over series taken at
random, in wall and in processor time; and the whole recomputation (`gatekit thresholds recompute --all-series
--write`: database to lock text) in processes of its own, with the largest memory that one of them held. Exits 1 when
the query's 99th percentile passes 10 ms, or a recomputation passes 60 s or 1 GiB.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from gatekit.history import index
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.run_row import NewRow
from gatekit.records.canonical import canonical_json, digest, to_plain
from gatekit.records.run import Comparability
from gatekit.records.spec import Budget, Gate, Method, Spec
from gatekit.records.verdict import Outcome
from gatekit.resources import conf_dir
from gatekit.spec.resolve import resolve

N, QUERIES, SEED, KEYS_PER_MODEL = 1319, 1000, 20261130, 2
GATE = Gate(name="auto", method=Method.AUTO, budget=Budget(nights=365, gates=20))
GATE_TEXT = canonical_json(to_plain(GATE)).decode()
GATE_DIGEST = digest(to_plain(GATE))
CHANCE = np.concatenate([np.ones(1134), np.zeros(79), np.full(N - 1213, 0.5)])
MOST_QUERY_S, MOST_SECONDS, MOST_BYTES = 0.010, 60.0, 1 << 30


def model(series: int) -> str:
    """Every model has two series, as after a protocol switch."""
    return f"org/model-{series // KEYS_PER_MODEL}"


def comparability(series: int) -> Comparability:
    """A key with as many fields as a real one."""
    fields = {"model": model(series), "n": N, "quantization": "nvfp4", "revision": None, "simulated": True}
    fields |= {f"protocol.field_{number}": "sha256:" + f"{number:064x}" for number in range(14)}
    fields["protocol.api"] = ("completions", "chat")[series % KEYS_PER_MODEL]
    return Comparability(key=digest(fields), fields=fields)


def night(keys: list[Comparability], run: int, random: np.random.Generator) -> Iterator[NewRow]:
    """One run of every series."""
    moment = f"2026-{1 + run // 28 % 12:02d}-{1 + run % 28:02d}T03:00:00Z"
    for series, key in enumerate(keys):
        answers = random.random(N) < CHANCE
        correct = int(np.count_nonzero(answers))
        yield NewRow(
            run_id=f"s{series}-r{run}",
            digest=f"sha256:{series:032x}{run:032x}",
            previous=None,
            supersedes=None,
            comparability_key=key.key,
            gate=GATE_DIGEST,
            spec_name=f"spec-{series}",
            model=model(series),
            hw="b200",
            engine="vllm",
            build=f"0.{run}",
            protocol="chat_5shot",
            dataset="gsm8k",
            n=N,
            correct=correct,
            wrong=N - correct,
            no_answer=0,
            truncated=0,
            lost=0,
            unasked=0,
            measured=True,
            outcome=Outcome.PASS,
            reason_code="at-or-above-threshold",
            simulated=True,
            started_at=moment,
            finished_at=moment,
            path=f"runs/s{series}-r{run}/record.json",
            right=np.packbits(answers).tobytes(),
            key_fields=json.dumps(key.fields, sort_keys=True),
            gate_section=GATE_TEXT,
        )


def fill(place: Place, keys: list[Comparability], runs: range) -> float:
    """Seconds to add these nights."""
    random = np.random.default_rng([SEED, runs.start])
    started = perf_counter()
    index.add_many(place, (row for run in runs for row in night(keys, run, random)))
    return perf_counter() - started


def query_times(place: Place, spec: Spec, keys: list[Comparability]) -> tuple[list[float], list[float]]:
    """Wall and processor seconds of one verdict's query, sorted, for series taken at random."""
    wall, processor = [], []
    for series in np.random.default_rng(SEED).integers(len(keys), size=QUERIES).tolist():
        asked = replace(spec, model=replace(spec.model, name=model(series)))
        started, used = perf_counter(), process_time()
        past = past_runs(place, asked, keys[series])
        wall.append(perf_counter() - started)
        processor.append(process_time() - used)
        assert past.runs
        assert len(past.changes) == KEYS_PER_MODEL - 1
    return sorted(wall), sorted(processor)


def recompute(place: Place, folder: Path, series: int) -> tuple[float, int]:
    """Seconds and the largest memory of a process in bytes, database to lock files."""
    shutil.rmtree(folder / "conf", ignore_errors=True)
    command = [sys.executable, "-m", "gatekit", "thresholds", "recompute", "--all-series", "--write"]
    started = perf_counter()
    with (folder / "out.txt").open("wb") as out:
        subprocess.run([*command, "--dir", str(place.dir)], cwd=folder, stdout=out, check=True)
    seconds = perf_counter() - started
    written = sum(1 for _ in (folder / "conf" / "thresholds").glob("*.lock.yaml"))
    assert written == series, f"{written} locks of {series}"
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def main() -> None:
    """Print one row per size; exit 1 where a promise is broken."""
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    spec = resolve([], dirs=(conf_dir(),))
    keys = [comparability(one) for one in range(series)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {series:,} series of {N}")
    print("runs       file      adding    query p50, p99 (wall)  p99 (processor)  recompute, per series   memory")
    done, broken = 0, False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = Place(dir=folder / "history")
        index.prepare(place)
        for runs in sorted({1, min(10, most), most}):
            added = fill(place, keys, range(done, runs))
            done = runs
            wall, processor = query_times(place, spec, keys)
            middle, p99 = wall[QUERIES // 2], wall[99 * QUERIES // 100]
            seconds, memory = recompute(place, folder, series)
            size = (place.dir / "index.sqlite").stat().st_size
            row = f"{series * runs:<10,} {size / 1e6:5.0f} MB {added:7.1f} s   {1e3 * middle:5.2f} {1e3 * p99:6.2f} ms"
            row += f"        {1e3 * processor[99 * QUERIES // 100]:6.2f} ms       {seconds:6.1f} s"
            print(f"{row} {1e3 * seconds / series:6.2f} ms   {memory / 2**20:6.0f} MiB", flush=True)
            broken |= p99 > MOST_QUERY_S or seconds > MOST_SECONDS or memory > MOST_BYTES
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
