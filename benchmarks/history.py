"""How fast the index answers with a million runs in ten thousand series: `python benchmarks/history.py [URL]`.

Prints seconds and milliseconds on this machine. SQLite in a temporary folder, or the PostgreSQL database of URL.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gatekit.history import index
from gatekit.history.past import all_series, past_runs
from gatekit.history.place import Place
from gatekit.history.run_row import NewRow
from gatekit.records.canonical import digest
from gatekit.records.run import Comparability
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome

SERIES, EACH, N = 10_000, 100, 1319
MODELS = 500
GATE = {"name": "auto", "method": "auto"}


def fields_of(series: int) -> dict[str, Any]:
    """The key fields of one series; every model has several."""
    common = {f"protocol.field_{number}": "x" * 20 for number in range(20)}
    return {"model": f"org/model-{series % MODELS}", "n": N, "shots": series // MODELS, **common}


def rows() -> Iterator[NewRow]:
    """A night after the other, every series once a night."""
    chance = random.Random(0)
    fields = [fields_of(series) for series in range(SERIES)]
    keys = [digest(one) for one in fields]
    texts = [json.dumps(one, sort_keys=True) for one in fields]
    bits = [chance.getrandbits(N + 7).to_bytes(166, "big")[-165:] for _ in range(200)]
    bits = [one[:-1] + bytes([one[-1] & 0xFE]) for one in bits]
    counts = [int.from_bytes(one, "big").bit_count() for one in bits]
    heads: list[str | None] = [None] * SERIES
    gate = digest(GATE)
    for night in range(EACH):
        day = f"{2020 + night // 360}-{1 + night // 30 % 12:02}-{1 + night % 30:02}T03:00:00Z"
        for series in range(SERIES):
            drawn = chance.randrange(len(bits))
            own = f"sha256:{night:032x}{series:032x}"
            yield NewRow(
                run_id=f"{day[:10]}-{series:05}-{night:03}",
                digest=own,
                previous=heads[series],
                supersedes=None,
                comparability_key=keys[series],
                gate=gate,
                spec_name=f"spec-{series:05}",
                model=f"org/model-{series % MODELS}",
                hw="b200",
                engine="vllm",
                build=f"0.{night}.0",
                protocol="chat_5shot",
                dataset="gsm8k",
                n=N,
                correct=counts[drawn],
                wrong=N - counts[drawn],
                no_answer=0,
                truncated=0,
                lost=0,
                unasked=0,
                measured=True,
                outcome=Outcome.PASS,
                reason_code="passed",
                simulated=False,
                started_at=day,
                finished_at=day,
                path=f"runs/{day[:10]}-{series:05}-{night:03}/record.json",
                right=bits[drawn],
                key_fields=texts[series],
                gate_section=json.dumps(GATE),
            )
            heads[series] = own


def timed(name: str, deed: Callable[[], object]) -> None:
    """Do it once and print how long it took, with and without what other processes took, and the peak of memory."""
    start, cpu = time.perf_counter(), time.process_time()
    deed()
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {took:.2f} s, {cpu:.2f} s of processor, peak {peak_mib:.0f} MiB", flush=True)


def percentiles(name: str, deed: Callable[[int], object], times: int) -> None:
    """Do it often, with another series each time, and print the spread."""
    chance = random.Random(1)
    took, cpu = [], []
    for _ in range(times):
        series = chance.randrange(SERIES)
        start, cpu_start = time.perf_counter(), time.process_time()
        deed(series)
        took.append(1000 * (time.perf_counter() - start))
        cpu.append(1000 * (time.process_time() - cpu_start))
    print(f"{name}: {_spread(took)}; of processor {_spread(cpu)}", flush=True)


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    places = {share: min(len(ordered) - 1, len(ordered) * share // 100) for share in (50, 90, 99)}
    return ", ".join(f"p{share} {ordered[place]:.2f} ms" for share, place in places.items())


def baseline(place: Place, series: int) -> None:
    """The earlier runs of one series."""
    fields = fields_of(series)
    spec = cast(Spec, SimpleNamespace(model=SimpleNamespace(name=fields["model"])))
    past = past_runs(place, spec, Comparability(key=digest(fields), fields=fields))
    assert len(past.runs) == EACH


def main(url: str | None) -> None:
    """Fill and measure."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place(dir=Path(folder), url=url)
        timed(f"add {SERIES * EACH} runs", lambda: index.add_many(place, rows()))
        if url is None:
            print(f"{(place.dir / 'index.sqlite').stat().st_size / 2**20:.0f} MiB on disk")
        percentiles("past_runs of one key", lambda series: baseline(place, series), 1000)
        percentiles("the last 20 runs", lambda series: index.list_runs(place, limit=20), 200)
        percentiles(
            "the last 20 of a spec",
            lambda series: index.list_runs(place, limit=20, spec_name=f"spec-{series:05}"),
            200,
        )
        percentiles("find a run", lambda series: index.find(place, f"2020-01-01-{series:05}-000"), 200)
        timed("every series, ready for a decision", lambda: sum(len(one.past.runs) for one in all_series(place)))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
