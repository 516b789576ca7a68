"""The catalogue's statistical faults, S01 to S17, each as a user meets it: through the command line.

S09, S10 and S17 speak of imports and S12 of locked thresholds; runs are made by `engine=sim` over real HTTP.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Ran, here
from kept_nights import keep_nights
from nights import Night, night

SIM = ("engine.latency={}", "engine.seed=0")
FROM_HISTORY = ("gate=auto", "gate.observed=null")
FLOOR = ("gate=static_floor", "gate.delta=null", "gate.measured_under=null")


def exactly(accuracy: float, n: int) -> tuple[str, ...]:
    """A model that is right on just this share of n questions, without chance."""
    return (f"engine.accuracy={accuracy}", "engine.dispersion=0", f"task.n={n}")


def totals(folder: Path, counts: list[int], n: int, *arguments: str) -> Ran:
    """Import nightly totals, each of another build."""
    lines = [
        json.dumps({"finished_at": f"2026-09-{day:02d}T03:00:00Z", "n": n, "correct": count, "build": f"b{day}"})
        for day, count in enumerate(counts, start=1)
    ]
    (folder / "totals.jsonl").write_text("\n".join(lines) + "\n")
    return here(folder, "history", "import", "totals.jsonl", "--format", "totals", *arguments)


def before(folder: Path, run_id: str, accuracy: float, *overrides: str) -> None:
    """An earlier night, kept in the history."""
    keep_nights(folder, [Night(run_id, accuracy, 1, "2026-08-30")], *overrides)


@pytest.mark.parametrize(
    ("case", "accuracy", "n", "floor", "tolerance"),
    [("S01", 0.7, 10, "0.8", "0.1"), ("S02", 0.29, 100, "0.29", "0.0")],
)
def test_equality_passes(tmp_path: Path, case: str, accuracy: float, n: int, floor: str, tolerance: str) -> None:
    """S01, S02: 7 of 10 reaches 0.8 - 0.1 and 29 of 100 reaches 0.29; one answer fewer does not."""
    measured = f"gate.observed={{correct: {round(accuracy * n)}, n: {n}}}"
    typed = (f"gate.floor={floor}", f"gate.tolerance={tolerance}", measured)
    gate = (*FLOOR, *typed, "gate.delta=0.25", "gate.beta=0.5")
    ran = night(tmp_path, *exactly(accuracy, n), *gate)
    assert (ran.code, ran.data["verdict"]) == (0, "PASS"), (case, ran.data["reason"])
    assert ran.data["counts"]["correct"] == ran.data["rule"]["k_reject"] == round(accuracy * n)
    fewer = night(tmp_path, *exactly(accuracy - 1 / n, n), *gate)
    assert (fewer.code, fewer.data["verdict"]) == (1, "FAIL"), (case, fewer.data["reason"])


def test_a_perfect_run_is_not_certain(tmp_path: Path) -> None:
    """S03: 1319 of 1319 has an interval, and a threshold derived from such runs is below 1."""
    before(tmp_path, "perfect", 1.0, *exactly(1.0, 1319), *FROM_HISTORY)
    after = night(tmp_path, *exactly(1.0, 1319), *FROM_HISTORY)
    assert after.code == 0, after.data["reason"]
    interval = after.data["interval"]
    assert 0.99 < interval["low"] < interval["high"] <= 1
    assert 1200 < after.data["rule"]["k_reject"] < 1319


def test_nothing_right_is_a_fail_about_accuracy(tmp_path: Path) -> None:
    """S04: 0 of 1319 fails, speaks of accuracy, and has no negative bound and no NaN."""
    ran = night(tmp_path, *exactly(0.0, 1319))
    assert (ran.code, ran.data["verdict"]) == (1, "FAIL")
    assert "correct" in ran.data["reason"]
    assert "NaN" not in ran.out
    assert ran.data["interval"]["low"] == 0


def test_one_question_decides_nothing(tmp_path: Path) -> None:
    """S05: n = 1 is INCONCLUSIVE and says how many questions the margin takes."""
    ran = night(tmp_path, *exactly(1.0, 1))
    assert (ran.code, ran.data["verdict"]) == (4, "INCONCLUSIVE")
    assert "1 question is too few" in ran.data["reason"]
    assert "needs at least" in ran.data["reason"]


def test_an_empty_history_is_no_threshold(tmp_path: Path) -> None:
    """S06: without a comparable run there is no verdict, and recompute writes nothing."""
    overrides = (*SIM, "task.n=40", *FROM_HISTORY)
    recomputed = here(tmp_path, "thresholds", "recompute", *overrides, "--write")
    assert "0 comparable runs, need 1" in recomputed.out + recomputed.err
    assert not list(tmp_path.rglob("*.lock.yaml"))
    ran = night(tmp_path, "task.n=40", *FROM_HISTORY)
    assert (ran.code, ran.data["reason"]) == (4, "0 comparable runs, need 1")


def test_a_history_of_one_run_has_a_margin(tmp_path: Path) -> None:
    """S07: one earlier run gives the documented rule, with a count well below its own."""
    before(tmp_path, "one", 0.95, *exactly(0.95, 200), *FROM_HISTORY)
    ran = night(tmp_path, *exactly(0.95, 200), *FROM_HISTORY, "engine.seed=0")
    assert ran.data["rule"]["method"] == "exact_mcnemar"
    assert ran.data["rule"]["k_reject"] <= 190 - 3
    assert ran.code in (0, 4)


@pytest.mark.parametrize(("n", "right", "points"), [(1319, 1253, 0.60), (200, 190, 1.54)])
def test_equal_totals_keep_a_margin(tmp_path: Path, n: int, right: int, points: float) -> None:
    """S08: after ten runs with the same count the margin is at least one binomial standard deviation, never 0."""
    spec = ("engine=sim", *SIM, f"task.n={n}")
    assert totals(tmp_path, [right] * 10, n, *spec).code == 0
    ran = night(tmp_path, *exactly(0.95, n), *FROM_HISTORY)
    rule = ran.data["rule"]
    assert rule["method"] == "moderated_t"
    assert len(rule["used"]) == 10
    assert 100 * (right - rule["k_reject"]) / n >= points


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ("protocol.shots=8", "protocol.shots"),
        ("protocol.max_tokens=300", "protocol.max_tokens"),
        ("protocol=completions_5shot", "protocol.api"),
        ("protocol.extractor=last_integer", "extractor_version"),
    ],
)
def test_another_protocol_is_another_history(tmp_path: Path, changed: str, field: str) -> None:
    """S11: runs under another protocol do not count; the reason counts them and names the field."""
    asked = ("protocol=chat_5shot", "task.n=60", *FROM_HISTORY)
    before(tmp_path, "a", 0.95, *asked)
    before(tmp_path, "b", 0.951, *asked)
    ran = night(tmp_path, *asked, changed, "engine.accuracy=0.952")
    assert (ran.code, ran.data["reason_code"]) == (4, "history-too-short")
    assert "2 other" in ran.data["reason"]
    assert field in json.dumps(ran.data)


def test_a_threshold_for_1319_questions_says_nothing_about_50(tmp_path: Path) -> None:
    """S12: a lock and a typed number for 1319 questions are not used for 50."""
    spec = ("engine=sim", *SIM, "gate=locked")
    assert totals(tmp_path, [1250, 1255, 1248], 1319, *spec).code == 0
    assert here(tmp_path, "thresholds", "recompute", *spec, "--write").code == 0
    assert night(tmp_path, *exactly(0.95, 1319), "gate=locked").code == 0
    short = night(tmp_path, *exactly(0.95, 50), "gate=locked")
    assert (short.code, short.data["verdict"]) == (4, "INCONCLUSIVE")
    assert "gatekit thresholds recompute" in short.data["hint"]
    typed = night(tmp_path, *exactly(0.95, 50), "gate.measured_under={n: 1319}")
    assert (typed.code, typed.data["reason_code"]) == (4, "protocol-mismatch")


def test_another_gpu_is_not_pooled(tmp_path: Path) -> None:
    """S13: runs on other hardware do not count until gate.exchangeable_hardware says so."""
    before(tmp_path, "elsewhere", 0.95, "task.n=60", *FROM_HISTORY, "hw.name=h200")
    ran = night(tmp_path, "task.n=60", *FROM_HISTORY, "engine.accuracy=0.951")
    assert ran.code == 4
    assert "1 hardware h200" in ran.data["reason"]
    assert "gate.exchangeable_hardware=[h200]" in ran.data["hint"]


def test_an_outlier_moves_no_threshold(tmp_path: Path) -> None:
    """S14: one run at 0.31 among twenty around 0.95 moves the threshold by under 0.2 points and is marked."""
    n, healthy = 1319, [1250 + 2 * (day % 5) for day in range(20)]
    for name, counts in (("without", healthy), ("with", [*healthy[:10], 409, *healthy[10:]])):
        (tmp_path / name).mkdir()
        assert totals(tmp_path / name, counts, n, "engine=sim", *SIM).code == 0
    tonight = Night("tonight", 0.95, 1, "2026-10-01")
    (without,) = keep_nights(tmp_path / "without", [tonight], *exactly(0.95, n), *FROM_HISTORY)
    rule = night(tmp_path / "with", *exactly(0.95, n), *FROM_HISTORY).data["rule"]
    assert without.verdict.rule is not None
    assert 100 * abs(without.verdict.rule.k_reject - rule["k_reject"]) / n < 0.2
    assert rule["excluded"]["outlier"] == 1
    assert any("outlier left out" in note and "409 of 1319" in note for note in rule["notes"])
    assert "409" in here(tmp_path / "with", "history", "list", "--limit", "30").out


def test_infra_runs_are_no_history(tmp_path: Path) -> None:
    """S15: when all earlier runs are INFRA the history is as good as empty."""
    broken = ("engine.faults={drop: 1.0}", "client.attempts=1", "task.n=40", *FROM_HISTORY)
    assert [night(tmp_path, *broken, run_id=name).code for name in "ab"] == [3, 3]
    ran = night(tmp_path, "task.n=40", *FROM_HISTORY)
    assert ran.code == 4
    assert ran.data["reason"] == "0 comparable runs, need 1; left out: 2 INFRA"


def test_two_results_of_one_seed_are_both_kept(tmp_path: Path) -> None:
    """S16: greedy decoding with one seed may give two accuracies; both runs stay and nothing claims equality."""
    for flips in (1, 2):
        night(tmp_path, "task.n=200", f"engine.flip_seed={flips}", "protocol.temperature=0.0", run_id=f"r{flips}")
    listed = here(tmp_path, "history", "list", "--json").data["runs"]
    assert [row["run_id"] for row in listed] == ["r2", "r1"]
    assert listed[0]["comparability_key"] == listed[1]["comparability_key"]
    assert listed[0]["correct"] != listed[1]["correct"]
