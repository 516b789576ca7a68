"""What each rule says of a served model that is not what it should be: `python -m benchmarks.damage_ladder`.

Real weights (`tiny_gsm`) on a real llama-server, whole runs of 1,319 questions, greedy. Every variant of
`benchmarks.tiny_model.damage` is written to a file, served under the name of the healthy model and asked by gatekit
itself. Each rule then judges the stored answers at one false alarm in a thousand, beside two rules of thumb. Their
history is either three nights of one build, which are one observation, or three builds. Runs that are there already
are not repeated, so that the command can be interrupted. Needs `gguf` and a llama-server (`pip install '.[demo]'
gguf==0.19.0`), 25 s a run on two cores. Exits 1 where a variant of `MUST_PASS` fails or one of `MUST_FAIL` does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.tiny_model.checkpoint import load, write_gguf
from benchmarks.tiny_model.damage import Variant, variants
from gatekit.gate.decide import decide
from gatekit.records.answers import Status, statuses
from gatekit.records.past import Past, PastRun
from gatekit.records.run import RunRecord, record_from_plain
from gatekit.records.spec import Method, Observed, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.resources import weights_file
from gatekit.stats.binomial import lower_tail

ALPHA = 0.001
HAND_RULES = (0.05, 0.08)
WHOLE = ("gate=auto", "gate.observed=null")  # without history nothing is decided, so that every question is asked

# Healthy numerics: the KV cache as it is, and rounded to 8 bits, its keys alone or all of it. What else was tried
# (float32 weights or cache, bfloat16 weights or cache, no flash attention, 1 to 64 slots) answers alike, text by text.
BASELINE: Mapping[str, tuple[str, ...]] = {
    "f16": (),
    "f16_again": (),
    "f16_third": (),
    "kv_q8_0": ("engine.args=[--cache-type-k,q8_0,--cache-type-v,q8_0]",),
    "k_q8_0": ("engine.args=[--cache-type-k,q8_0]",),
}
NIGHTS, BUILDS = ("f16", "f16_again", "f16_third"), ("f16", "k_q8_0", "kv_q8_0")
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "zero_shot": (),
    "chat": (
        "protocol=chat_5shot",
        "protocol.shots=0",
        "protocol.question_template='{question}'",
        "protocol.max_tokens=96",
    ),
}
MUST_PASS = ("q8_0", "int8_chan", "fp8_e4m3_noscale", "fp8_e5m2_noscale", "noise_1pct", "rope_theta_9000")
MUST_FAIL = (
    *("int4_chan", "int4_tensor_bad", "rope_theta_20000", "rms_eps_1e-2", "int3_g32"),
    *("tok_digits_8_9_swapped", "tok_digits_1_7_swapped", "tok_half_merges", "layers_1_2_swapped"),
    *("kv_heads_swapped_L1", "rope_theta_100000", "rope_theta_1000000"),
)
RUNGS = (
    Method.EXACT_BINOMIAL,
    Method.MODERATED_T,
    Method.FLIP_PREDICTION,
    Method.EXACT_MCNEMAR,
    Method.EXACT_CONDITIONAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A variant's answers before every rule, and before gatekit's own choice after `nights` and `builds`."""

    name: str
    record: RunRecord
    by_rung: Mapping[Method, Verdict]
    nights: Verdict
    builds: Verdict


class Bench:
    """The folder of weights and runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = {variant.name: variant for variant in variants()}
        self.healthy = load(weights_file("tiny_gsm-f16.gguf"))

    def run(self, name: str, weights: str, protocol: str, overrides: Iterable[str] = ()) -> RunRecord:
        """The stored run of that name, made where there is none."""
        history = self.folder / protocol / name
        found = sorted(history.glob("runs/*/record.json"))
        if not found:
            self._ask(history, self._weights(self.known[weights]), (*PROTOCOLS[protocol], *overrides))
            found = sorted(history.glob("runs/*/record.json"))
        record = record_from_plain(json.loads(found[-1].read_text(encoding="utf-8")))
        counts = record.counts
        if counts.lost or counts.unasked:
            raise SystemExit(f"{protocol}/{name}: {counts.lost} lost, {counts.unasked} not asked; see {found[-1]}")
        return record

    def _weights(self, variant: Variant) -> Path:
        path = self.folder / "weights" / f"{variant.name}.gguf"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            partial = path.with_suffix(".part")
            write_gguf(variant.change(self.healthy), partial, variant.file_type)
            partial.rename(path)
        return path

    def _ask(self, history: Path, weights: Path, overrides: Sequence[str]) -> None:
        command = [sys.executable, "-m", "gatekit", "model=tiny_gsm", *overrides, *WHOLE, f"history.dir={history}"]
        environ = {**os.environ, "TINY_GSM_PATH": str(weights)}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode != Outcome.INCONCLUSIVE.exit_code:
            raise SystemExit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")


def row(name: str, record: RunRecord, healthy: Mapping[str, RunRecord]) -> Row:
    """The verdict of every rule on a run."""
    nights = Past(runs=tuple(_past_run(healthy[one], name=one, build="f16") for one in NIGHTS))
    builds = Past(runs=tuple(_past_run(healthy[one], name=one, build=one) for one in BUILDS))
    return Row(
        name=name,
        record=record,
        by_rung={rung: _verdict(record, rung, nights if rung is Method.EXACT_MCNEMAR else builds) for rung in RUNGS},
        nights=_verdict(record, Method.AUTO, nights),
        builds=_verdict(record, Method.AUTO, builds),
    )


def _past_run(record: RunRecord, *, name: str, build: str) -> PastRun:
    return PastRun(
        run_id=name,
        build=build,
        hardware=record.spec.hw.name,
        finished_at=record.finished_at,
        n=record.counts.n,
        correct=record.counts.correct,
        outcomes=bytes(seen.status is Status.CORRECT for seen in record.observations),
    )


def _verdict(record: RunRecord, method: Method, past: Past) -> Verdict:
    return decide(_spec(record.spec, method, past), statuses(record.observations, record.dataset.question_ids), past)


def _spec(spec: Spec, method: Method, past: Past) -> Spec:
    """The rule at ALPHA; a typed accuracy is that of the first healthy run."""
    typed = Observed(correct=past.runs[0].correct, n=past.runs[0].n) if method is Method.EXACT_BINOMIAL else None
    gate = replace(spec.gate, method=method, alpha=ALPHA, budget=None, observed=typed, measured_under=None)
    return replace(spec, gate=gate)


def healthy_lines(records: Mapping[str, RunRecord]) -> Iterator[str]:
    """The history, and how far its runs differ."""
    yield "| healthy run | correct | outcomes that differ from the first | texts that differ |"
    yield "|---|---|---|---|"
    first = next(iter(records.values()))
    for name, record in records.items():
        pairs = list(zip(first.observations, record.observations, strict=True))
        flips = sum((a.status is Status.CORRECT) != (b.status is Status.CORRECT) for a, b in pairs)
        texts = sum(a.text != b.text for a, b in pairs)
        yield f"| {name} | {record.counts.correct} | {flips} | {texts} |"


def table_lines(rows: Sequence[Row], healthy: RunRecord) -> Iterator[str]:
    """The table, the most right answers first."""
    yield (
        "| variant | correct | accuracy | right to wrong, wrong to right | binomial p | t | flips | McNemar p "
        "| conditional p | gatekit, one build | gatekit, three builds | -0.05 | -0.08 |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    measured = healthy.counts.correct / healthy.counts.n
    for one in sorted(rows, key=lambda one: -one.record.counts.correct):
        yield _line(one, measured)


def _line(one: Row, measured: float) -> str:
    counts, churn = one.record.counts, one.nights.churn
    assert churn is not None
    by_hand = [counts.correct / counts.n < round(measured, 3) - tolerance for tolerance in HAND_RULES]
    cells = [
        one.name,
        str(counts.correct),
        f"{counts.correct / counts.n:.3f}",
        f"{churn.right_to_wrong}, {churn.wrong_to_right}",
        _p(lower_tail(counts.correct + 1, counts.n, measured), one.by_rung[Method.EXACT_BINOMIAL]),
        *(_outcome(one.by_rung[rung]) for rung in (Method.MODERATED_T, Method.FLIP_PREDICTION)),
        *(
            _p(one.by_rung[rung].p_value, one.by_rung[rung])
            for rung in (Method.EXACT_MCNEMAR, Method.EXACT_CONDITIONAL)
        ),
        *(_outcome(verdict) for verdict in (one.nights, one.builds)),
        *("FAIL" if fails else "pass" for fails in by_hand),
    ]
    return f"| {' | '.join(cells)} |"


def _outcome(verdict: Verdict) -> str:
    outcome = "FAIL" if verdict.outcome is Outcome.FAIL else verdict.outcome.lower()
    return outcome + (", churn" if any(text.startswith("churn:") for text in verdict.warnings) else "")


def _p(value: float | None, verdict: Verdict) -> str:
    text = "?" if value is None else f"{value:.2f}" if value >= 0.095 else f"{value:.1g}" if value else "<1e-300"
    return f"{text} FAIL" if verdict.outcome is Outcome.FAIL else text


def thresholds(one: Row) -> str:
    """The counts of the count rules."""
    counts = {rung: verdict.rule.k_reject for rung, verdict in one.by_rung.items() if verdict.rule}
    return ", ".join(f"{rung} FAIL below {count}" for rung, count in counts.items())


def broken_promises(rows: Iterable[Row]) -> Iterator[str]:
    """Variants whose verdict, after either history, is not the one that they must get."""
    for one in rows:
        for history, outcome in (("one build", one.nights.outcome), ("three builds", one.builds.outcome)):
            is_fail = outcome is Outcome.FAIL
            if (is_fail and one.name in MUST_PASS) or (not is_fail and one.name in MUST_FAIL):
                yield f"{one.name} after {history}: {outcome}"


def main() -> int:
    """Run what is missing, print the tables, and check the promises."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", type=Path, default=Path(".gatekit/damage_ladder"))
    asked.add_argument("--protocol", action="append", choices=list(PROTOCOLS), help="default: both")
    asked.add_argument("--only", action="append", help="a variant; default: all")
    options = asked.parse_args()
    bench = Bench(options.folder.absolute())
    broken: list[str] = []
    for protocol in options.protocol or list(PROTOCOLS):
        healthy = {
            name: bench.run(f"baseline_{name}", "f16", protocol, overrides) for name, overrides in BASELINE.items()
        }
        names = [name for name in bench.known if options.only is None or name in options.only]
        rows = [row(name, bench.run(name, name, protocol), healthy) for name in names]
        print(f"\n## {protocol}\n", *healthy_lines(healthy), "", thresholds(rows[0]), "", sep="\n")
        print(*table_lines(rows, healthy["f16"]), sep="\n", flush=True)
        broken += broken_promises(rows) if protocol == "zero_shot" else []
    print(*(f"not as promised: {text}" for text in broken), sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
