"""`gatekit explain RUN` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import here
from gatekit.records.canonical import canonical_json, digest
from kept_nights import keep_nights
from nights import Night, series


def explained(folder: Path, *overrides: str) -> dict[str, str]:
    """The lines of the derivation of a run with these overrides, wrapped ones joined; the last of each label."""
    here(folder, "--run-id", "run-1", *overrides)
    ran = here(folder, "explain", "run")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    facts: dict[str, str] = {}
    label = ""
    for line in ran.out.splitlines()[2:]:
        is_more = not line[2:15].strip()
        label = label if is_more else line[2:15].strip()
        facts[label] = f"{facts[label]} {line[15:]}" if is_more else line[15:]
    return facts


def test_the_default_gate(tmp_path: Path) -> None:
    """The formula stands there with the numbers put in, and the verdict is computed anew."""
    said = explained(tmp_path, "gate.method=exact_binomial")
    assert "max{k : P(X < k) <= 0.00274}, X ~ Bin(1319, 1253/1319)" in said["k_reject"]
    assert "P(X < 1230) = 0.00226, P(X < 1231) = 0.00321 > alpha, so 1230" in said["k_reject"]
    assert said["alpha"].startswith("1 - (1 - 1/365)^(1/1) = 0.00274")
    assert said["verdict"].endswith(">= k_pass = 1230: PASS")
    assert said["today"] == "computed anew from the record: PASS, as stored"
    assert said["fewer right"].endswith("right answers turned wrong: FAIL")
    assert said["losses borne"].startswith("13 more answers")


def test_a_floor_that_fails(tmp_path: Path) -> None:
    """A hand floor is shown in exact decimals, with the answers that are missing and the floor it reaches."""
    said = explained(tmp_path, "gate=static_floor", "gate.floor=0.90", "gate.tolerance=0.08", "engine.accuracy=0.7")
    assert said["k_reject"] == "k_reject = ceil((0.9 - 0.08) x 1319) = ceil(1081.58) = 1082, in exact decimals"
    assert said["verdict"].endswith("< k_reject = 1082: FAIL")
    assert "turned right: " in said["more right"]


def test_lost_answers_both_ways(tmp_path: Path) -> None:
    """Lost answers are counted wrong and right, and the limit on them is named."""
    said = explained(
        tmp_path, "task.n=400", "engine.faults.http_500=0.1", "client.attempts=1", "gate.method=exact_binomial"
    )
    assert "missing answers wrong: " in said["two-sided"]
    assert said["two-sided"].count(", FAIL") == 1
    assert "over the limit of 1%" in said["lost"]
    assert said["today"] == "computed anew from the record: INFRA, as stored"


def test_json(tmp_path: Path) -> None:
    """One JSON document holds the steps and what would change the verdict."""
    here(tmp_path, "--run-id", "r", "task.n=200", "gate.sigmas=2", "gate.method=exact_binomial")
    found = here(tmp_path, "explain", "r", "--json").data
    assert found["derivation"]["recomputed"] == found["verdict"]["outcome"]
    assert found["derivation"]["disagreement"] is None
    labels = [step["label"] for step in found["derivation"]["steps"]]
    assert labels == ["rule", "inputs", "k_reject", "seen", "two-sided", "verdict"]
    assert set(found["derivation"]["sensitivity"]) >= {"fewer", "more", "lost_borne"}


def test_another_verdict_than_stored_is_said(tmp_path: Path) -> None:
    """A record that holds a verdict its counts do not give is called out, with both verdicts."""
    keep_nights(tmp_path, [Night("r", 0.95, 1, "2026-08-30")], "gate.method=exact_binomial")
    path = tmp_path / ".gatekit" / "runs" / "r" / "record.json"
    plain = json.loads(path.read_text())
    del plain["digest"]
    plain["verdict"]["outcome"] = "FAIL"
    plain["spec"]["name"] = "red \x1b[31m"
    plain["digest"] = digest(plain)
    path.chmod(0o600)
    path.write_bytes(canonical_json(plain) + b"\n")
    out = here(tmp_path, "explain", "r").out
    assert "DIFFERS: the counts give PASS today, FAIL is stored" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("arguments", "code"), [((), 2), (("nothing",), 2), (("a", "b"), 2)])
def test_wrong_input(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """A missing or unknown run is exit 2 and one sentence."""
    keep_nights(tmp_path, [Night("r", 0.95, 1, "2026-08-30")], "task.n=22")
    ran = here(tmp_path, "explain", *arguments)
    assert ran.code == code
    assert ran.err.startswith("gatekit: ")


def test_a_verdict_on_history(tmp_path: Path) -> None:
    """The run that a verdict rests on is read again: McNemar's numbers stand there and nothing differs."""
    for seed, name in enumerate(("old", "new")):
        here(tmp_path, "--run-id", name, "gate=auto", "gate.observed=null", f"engine.flip_seed={seed}", "task.n=400")
    said = here(tmp_path, "explain", "new").out
    assert "rests on     old (" in said
    assert "p = P(Bin(" in said
    assert "computed anew from the record: PASS, as stored" in said
    assert "right answers at questions that all earlier runs got right turned wrong: FAIL" in said


def test_a_verdict_whose_history_is_gone(tmp_path: Path) -> None:
    """Without the record of a run that it rests on the rule is shown as stored, and the run is named."""
    keep_nights(tmp_path, [Night("old", 0.95, 1, "2026-08-30")], "gate=auto", "gate.observed=null", "task.n=200")
    here(tmp_path, "--run-id", "new", "gate=auto", "gate.observed=null", "task.n=200", "engine.flip_seed=9")
    next(tmp_path.rglob("runs/old/record.json")).unlink()
    shown = here(tmp_path, "explain", "new")
    assert shown.code == 0
    assert "not computed anew: a run it rests on is not at hand: old" in shown.out
    assert "as stored: it does not follow from what is at hand" in shown.out


def test_a_paired_test_beside_a_rule_without_history(tmp_path: Path) -> None:
    """The builds of a test question by question come from the series as it was, where the rule itself names none."""
    asked = ("task.n=100", "task.order_seed=1", "gate.delta=0.1", "engine.dispersion=0.5")
    keep_nights(tmp_path, series("night", 0.95, 3, first="2026-08-30"), "gate=auto", *asked)
    stop = ("gate.method=exact_binomial", "gate.early_stop=paired_sprt", "engine.latency={}", "engine.accuracy=0.2")
    in_order = "client.concurrency=1"  # one late answer of many in flight, and the count alone is sure before the test
    bad = here(tmp_path, "--run-id", "bad", *asked, *stop, in_order, "--json")
    assert (bad.code, bad.data["reason_code"]) == (1, "sequential-fail"), bad.err
    keep_nights(tmp_path, series("later", 0.951, 1, first="2099-01-01"), "gate=auto", *asked)
    said = " ".join(here(tmp_path, "explain", "bad").out.split())
    assert "the log likelihood ratio is" in said
    assert "today computed anew from the record: FAIL, as stored" in said
