"""Real vLLM on a CPU, gated, compared with llama.cpp and hurt: `python -m benchmarks.real_engines VLLM CHECKPOINT`.

VLLM is the program of an installation, CHECKPOINT a Hugging Face folder with the weights of `tiny_gsm`:
docs/real_engines.md says how to make both. Prints, in Markdown, what each part showed. Part `gate` asks both engines
all 1,319 questions and compares the answers text by text; the others start vLLM and make it, or gatekit, fail. A gate
that is there already is not repeated, faults are. Exits 1 where a part does not show what it must.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from gatekit.engine.environment import RUN_MARKER
from gatekit.records.run import RunRecord, record_from_plain

# One thread and a small cache: the machine may be small. The address keeps vLLM from looking for one by itself.
ENVIRONMENT = (
    "engine.env={VLLM_NO_USAGE_STATS: '1', VLLM_CPU_KVCACHE_SPACE: '1', VLLM_HOST_IP: 127.0.0.1, OMP_NUM_THREADS: '1'}"
)
EAGER = ("engine=vllm", "engine.enforce_eager=true", ENVIRONMENT)
WHOLE = ("hw=cpu", "gate=auto", "gate.observed=null")  # without history nothing is decided: every question is asked
TOLD = ("dtype", "max_model_len", "quantization", "kv_cache_dtype", "enforce_eager", "seed", "tensor_parallel_size")
ASKED_LINES = 100  # mid-run: so many answers are in the journal
GONE_S = 5.0
LONGEST_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A gatekit that ended: its exit code, its last words, how long it took and how long after its server's end."""

    code: int
    words: str
    took_s: float
    after_server_s: float | None


class Gatekit:
    """A running `gatekit run` with a history of its own. As a context manager it leaves none behind."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self.name, self.history = name, folder / name
        shutil.rmtree(self.history, ignore_errors=True)
        self.errors = (folder / f"{name}.err").open("w+", encoding="utf-8")
        command = [sys.executable, "-m", "gatekit", "run", "model=tiny_gsm", *WHOLE, *arguments]
        command += [f"history.dir={self.history}", "--run-id", name]
        self.began_s = time.monotonic()
        self.process = subprocess.Popen(
            command, env={**os.environ, **environ}, stdout=self.errors, stderr=subprocess.STDOUT
        )

    def __enter__(self) -> Gatekit:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return Path(self.errors.name).read_text(encoding="utf-8")

    def servers(self) -> dict[int, str]:
        """The processes that carry the run's mark, by id, with their command; those that hold the server left out."""
        return {pid: command for pid, command in marked(self.name) if "lifeline.py" not in command}

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something. Raises SystemExit where gatekit ends before, or it takes too long."""
        while not is_so():
            if self.process.poll() is not None or time.monotonic() - self.began_s > LONGEST_S:
                raise SystemExit(f"{self.name}: ended too early\n{self.printed}")
            time.sleep(0.05)

    def until_asked(self) -> None:
        """Wait until many questions are answered."""
        journal = self.history / "runs" / self.name / "journal.jsonl"
        self.until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > ASKED_LINES)

    def ended(self) -> Ended:
        """Wait for its end, and look meanwhile for the end of its server."""
        seen_s = None
        while self.process.poll() is None and time.monotonic() - self.began_s < LONGEST_S:
            if self.servers():
                seen_s = time.monotonic()
            time.sleep(0.1)
        now_s = time.monotonic()
        code, after_s = self.process.wait(timeout=10), None if seen_s is None else now_s - seen_s
        words = [line for line in self.printed.splitlines() if not line.startswith("gatekit: waiting")]
        return Ended(code=code, words="\n".join(words), took_s=now_s - self.began_s, after_server_s=after_s)


def marked(run: str) -> Iterator[tuple[int, str]]:
    """The living processes of a run, with their commands."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if f"{RUN_MARKER}={run}".encode() in variables and command:
            yield int(entry.name), command


class Bench:
    """What the parts share: the folder of the runs, and how gatekit is called."""

    def __init__(self, folder: Path, vllm: Path, checkpoint: Path) -> None:
        self.folder = folder
        self.startup = "engine.startup_timeout_s=900"
        self.environ = {
            "PATH": os.pathsep.join((str(vllm.parent), os.environ.get("PATH", os.defpath))),
            "TINY_GSM_PATH": str(checkpoint),
        }

    def on_vllm(self, name: str, *arguments: str, **environ: str) -> Gatekit:
        """A started run on vLLM."""
        return Gatekit(self.folder, name, (*EAGER, self.startup, *arguments), {**self.environ, **environ})

    def record(self, name: str, start: Callable[[str], Gatekit]) -> RunRecord:
        """The stored run of that name, made where there is none."""
        path = self.folder / name / "runs" / name / "record.json"
        if not path.exists():
            with start(name) as running:
                ended = running.ended()
            print(f"{name}: {ended.took_s:.0f} s, start-up included\n", flush=True)
        return record_from_plain(json.loads(path.read_text(encoding="utf-8")))


def gate(bench: Bench) -> Iterator[str]:
    """Both engines over all questions; what differs, and what the record says of vLLM."""
    vllm = bench.record("vllm", bench.on_vllm)
    llama = bench.record(
        "llamacpp", lambda name: Gatekit(bench.folder, name, ("engine=llamacpp",), {"TINY_GSM_PATH": ""})
    )
    pairs = list(zip(llama.observations, vllm.observations, strict=True))
    texts = sum(one.text != other.text for one, other in pairs)
    outcomes = sum(one.status is not other.status for one, other in pairs)
    for record in (llama, vllm):
        counts, build = record.counts, record.served.build if record.served else None
        print(f"- {record.spec.engine.name} ({build}): {counts.correct} of {counts.n}, lost {counts.lost}")
    print(f"- of {len(pairs)} texts {texts} differ, of the outcomes {outcomes}\n")
    details = vllm.served.details if vllm.served else {}
    print(*(f"    {key} = {value}" for key, value in sorted(details.items())), sep="\n")
    print(*(f"    event: {event}" for event in vllm.events), sep="\n")
    if outcomes or llama.counts.lost or vllm.counts.lost:
        yield f"gate: {outcomes} outcomes differ, lost {llama.counts.lost} and {vllm.counts.lost}"
    if missing := [name for name in TOLD if f"effective.{name}" not in details]:
        yield f"gate: the record does not tell {', '.join(missing)}"


def speculating(bench: Bench) -> Iterator[str]:
    """Speculative decoding: its method, its size and what share of drafts was accepted are in the record."""
    config = json.dumps({"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}).replace('"', '\\"')
    arguments = (f'engine.args=[--speculative-config,"{config}"]', "task.n=200", "gate.measured_under=null")
    record = bench.record("speculating", lambda name: bench.on_vllm(name, *arguments))
    details = record.served.details if record.served else {}
    told = {key: value for key, value in sorted(details.items()) if key.startswith("effective.speculative")}
    print(f"{record.counts.correct} of {record.counts.n}\n")
    print(*(f"    {key} = {value}" for key, value in told.items()), sep="\n")
    if details.get("effective.speculative_method") != "ngram" or "effective.speculative_acceptance" not in details:
        yield "speculating: the record does not tell the method or the acceptance"


def not_effective(bench: Bench) -> Iterator[str]:
    """Weights that are not quantised where the spec says they are: INFRA before the first question, when asked for."""
    with bench.on_vllm("not_effective", "model.quantization=int4", "engine.require_effective=true") as running:
        yield from _must(running.ended(), "not_effective", 3, says="asked for quantization=int4")


def core_killed(bench: Bench) -> Iterator[str]:
    """SIGKILL for vLLM's EngineCore while it answers: INFRA, and no verdict on accuracy."""
    with bench.on_vllm("core_killed") as running:
        running.until_asked()
        cores = [pid for pid, command in running.servers().items() if "EngineCore" in command]
        at_s = time.monotonic()
        for pid in cores:
            os.kill(pid, signal.SIGKILL)
        ended = running.ended()
        print(f"{len(cores)} killed; {time.monotonic() - at_s:.1f} s later:")
    yield from _must(ended, "core_killed", 3)


def gatekit_killed(bench: Bench) -> Iterator[str]:
    """SIGKILL for gatekit while vLLM answers: nothing is left after five seconds."""
    with bench.on_vllm("gatekit_killed") as running:
        running.until_asked()
        before = list(marked(running.name))
        running.process.kill()
        at_s = time.monotonic()
        while (left := list(marked(running.name))) and time.monotonic() - at_s < 2 * GONE_S:
            time.sleep(0.02)
        gone_s = time.monotonic() - at_s
    print(f"{len(before)} processes before, {len(left)} left {gone_s:.1f} s after the kill")
    if left or gone_s > GONE_S or len(before) < len(("lifeline", "API server", "EngineCore", "worker")):
        yield f"gatekit_killed: {len(before)} before, {len(left)} left after {gone_s:.1f} s"


def port_taken(bench: Bench) -> Iterator[str]:
    """Somebody else takes the port while vLLM loads, and answers: INFRA, and no question is asked of him."""
    with bench.on_vllm("port_taken") as running:
        running.until(lambda: "waiting for http://" in running.printed)
        found = re.search(r"waiting for http://127\.0\.0\.1:([0-9]+)", running.printed)
        assert found is not None
        with _stranger(int(found[1])) as asked:
            ended = running.ended()
        print(f"requests to the stranger: {sorted(set(asked)) or 'none'}")
    yield from _must(ended, "port_taken", 3)
    if any(request.startswith("POST") for request in asked):
        yield "port_taken: a question was asked of a stranger"


@contextmanager
def _stranger(port: int) -> Iterator[list[str]]:
    """A server that says it is well to whatever is asked; yields what was."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", port), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield asked
        finally:
            server.shutdown()


def wrong_path(bench: Bench) -> Iterator[str]:
    """A folder that is none: vLLM's own words reach the user."""
    with bench.on_vllm("wrong_path", TINY_GSM_PATH=str(bench.folder / "nowhere")) as running:
        yield from _must(running.ended(), "wrong_path", 3)


def empty_folder(bench: Bench) -> Iterator[str]:
    """A folder without a model in it: vLLM's own words reach the user."""
    (bench.folder / "empty").mkdir(exist_ok=True)
    with bench.on_vllm("empty_folder", TINY_GSM_PATH=str(bench.folder / "empty")) as running:
        yield from _must(running.ended(), "empty_folder", 3)


def too_long(bench: Bench) -> Iterator[str]:
    """More context than the model has: vLLM's own words reach the user."""
    with bench.on_vllm("too_long", "engine.max_model_len=999999") as running:
        yield from _must(running.ended(), "too_long", 3, says="max_model_len")


def _must(ended: Ended, part: str, code: int, says: str = "") -> Iterator[str]:
    after = "" if ended.after_server_s is None else f", {ended.after_server_s:.1f} s after the server's end"
    print(f"exit {ended.code} after {ended.took_s:.0f} s{after}\n")
    print(*(f"    {line}" for line in ended.words.splitlines()), sep="\n")
    if ended.code != code or says not in ended.words:
        yield f"{part}: exit {ended.code} instead of {code}, or without {says!r}"


PARTS: Mapping[str, Callable[[Bench], Iterator[str]]] = {
    part.__name__: part
    for part in (
        gate,
        speculating,
        not_effective,
        too_long,
        wrong_path,
        empty_folder,
        port_taken,
        core_killed,
        gatekit_killed,
    )
}


def main() -> int:
    """Show the parts, one after another, and say what was not as it must be."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("vllm", type=Path, help="the program vllm, in the bin folder of its environment")
    asked.add_argument("checkpoint", type=Path, help="the Hugging Face folder of tiny_gsm")
    asked.add_argument("--folder", type=Path, help="where runs are kept; default: a new temporary folder")
    asked.add_argument("--part", action="append", choices=list(PARTS), help="default: all")
    options = asked.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="real_engines-"))
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder.absolute(), options.vllm.absolute(), options.checkpoint.absolute())
    broken: list[str] = []
    for name in options.part or list(PARTS):
        print(f"\n## {name}\n", flush=True)
        broken += PARTS[name](bench)
    print(*(f"not as it must be: {text}" for text in broken), sep="\n", flush=True)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
