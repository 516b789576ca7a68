"""How long `gatekit validate` takes, measured in one run: `python benchmarks/validate.py [SPECS]`.

A team folder of 500 generated models (each builds on a shipped one, chooses its engine, protocol and gate, and sets a
dozen keys) and a matrix of 500 rows is checked together with the shipped configs, in processes of their own: the whole,
and a single file. Beside it, the same specs composed by Hydra alone and by the library, in one process. Exits 1 when
the whole passes 10 s, or a single file 300 ms (the median of nine). Processor time is what a machine that does nothing
else would need.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from gatekit.resources import conf_dir
from gatekit.spec.compose import compose
from gatekit.spec.library import Library

MOST_SECONDS, MOST_SECONDS_OF_A_FILE = 10.0, 0.3
BASES = ("laguna_int4", "laguna_nvfp4", "diffusiongemma_fp8", "simulated")
COMPOSED_BY_HYDRA = 40
MODEL = """\
defaults:
  - {base}
  - override /engine: {engine}
  - override /protocol: {protocol}
  - override /gate: exact_binomial

model:
  name: team/model-{number}
  server_args:
    vllm: [--max-num-seqs, "{seqs}", --block-size, "16"]
engine:
  seed: {number}
  max_model_len: {context}
  startup_timeout_s: 900
protocol:
  max_tokens: {tokens}
  temperature: 0.0
task:
  n: {n}
gate:
  observed: {{correct: {correct}, n: {n}}}
  alpha: 0.001
client:
  concurrency: 64
"""


def write(folder: Path, specs: int) -> list[Path]:
    """The team's files; the models are returned."""
    (folder / "model").mkdir(parents=True)
    (folder / "matrix").mkdir()
    models = []
    for number in range(specs):
        n = 200 + number
        text = MODEL.format(
            base=BASES[number % len(BASES)],
            engine=("vllm", "sglang")[number % 2],
            protocol=("chat_5shot", "completions_5shot")[number // 2 % 2],
            number=number,
            seqs=16 + number % 64,
            context=4096,
            tokens=256 + number % 256,
            n=n,
            correct=n * 9 // 10,
        )
        models.append(folder / "model" / f"m{number:04d}.yaml")
        models[-1].write_text(text, encoding="utf-8")
    rows = "".join(f"  - {{model: {path.stem}, hw: b200x2}}\n" for path in models)
    (folder / "matrix" / "team.yaml").write_text(f"description: all\nrows:\n{rows}", encoding="utf-8")
    return models


def process_s(*arguments: str, repeats: int = 1) -> tuple[float, float]:
    """Median seconds of a process from its start to its end, and of its processor time. It must find no mistake."""
    times = []
    for _ in range(repeats):
        began, used = perf_counter(), processor_s()
        subprocess.run([sys.executable, "-m", "gatekit", "validate", *arguments], check=True, capture_output=True)
        times.append((perf_counter() - began, processor_s() - used))
    return statistics.median(wall for wall, _ in times), statistics.median(used for _, used in times)


def processor_s() -> float:
    """Processor time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def in_process_s(models: list[Path], folder: Path) -> tuple[float, float]:
    """Seconds a spec by Hydra, and by the library with its reading."""
    dirs = [folder, conf_dir()]
    began = perf_counter()
    for path in models[:COMPOSED_BY_HYDRA]:
        compose([f"model={path.stem}"], config_dirs=dirs)
    hydra_s = (perf_counter() - began) / COMPOSED_BY_HYDRA
    library = Library(dirs)
    began = perf_counter()
    for path in models:
        library.compose([f"model={path.stem}"])
    return hydra_s, (perf_counter() - began) / len(models)


def main() -> None:
    """Measure and print; exit 1 over a limit."""
    specs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {specs} models and a matrix of {specs} rows")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "conf"
        models = write(folder, specs)
        whole, used = process_s(str(folder), "--shipped")
        print(f"all files, specs and rows:  {whole:6.2f} s, processor {used:.2f} s (limit {MOST_SECONDS:g} s)")
        among, used = process_s(str(models[0]), repeats=5)
        print(f"one file among {specs}:      {among:6.3f} s, processor {used:.3f} s")
        hydra_s, library_s = in_process_s(models, folder)
        print(f"composing one spec:         {hydra_s * 1e3:6.1f} ms by Hydra, {library_s * 1e3:.2f} ms by the library")
        print(
            f"                            {hydra_s / library_s:6.0f} times; all by Hydra alone: {hydra_s * specs:.0f} s"
        )
    single, used = process_s(str(conf_dir() / "model" / "laguna_int4.yaml"), repeats=9)
    print(f"one shipped file:           {single:6.3f} s, processor {used:.3f} s (limit {MOST_SECONDS_OF_A_FILE:g} s)")
    sys.exit(1 if whole > MOST_SECONDS or single > MOST_SECONDS_OF_A_FILE else 0)


if __name__ == "__main__":
    main()
