"""`gate=auto` through the command line: how history comes to decide, and which runs it is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nights
from command_line import Ran, here, record
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.records.run import record_to_plain
from gatekit.records.verdict import Outcome
from kept_nights import keep_nights
from nights import Night, series

GATE = ("gate=auto", "gate.observed=null")
NIGHTS = ((0.95, 1), (0.951, 2), (0.949, 3))


def night(folder: Path, run_id: str, accuracy: float, flips: int, *more: str) -> Ran:
    """One night of the simulated model; each accuracy is another engine build."""
    return nights.night(folder, *GATE, f"engine.accuracy={accuracy}", f"engine.flip_seed={flips}", *more, run_id=run_id)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three healthy nights of different builds at n = 1319."""
    folder = tmp_path_factory.mktemp("nights")
    made = [Night(f"night-{flips}", accuracy, flips, f"2026-08-{flips:02d}") for accuracy, flips in NIGHTS]
    records = keep_nights(folder, made, *GATE)
    assert [record.verdict.outcome for record in records] == [Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.PASS]
    return folder


@pytest.mark.parametrize("more", [(), ("protocol=chat_5shot", "protocol.temperature=0.7", "protocol.repeats=2")])
def test_kept_nights_are_those_of_runs(tmp_path: Path, more: tuple[str, ...]) -> None:
    """What tests keep as nights without a server are the records of runs, but for what only a server has."""
    some = series("night", 0.9, 2, first="2026-08-30", step=0.01)
    asked = ("task.n=20", *GATE, *more)
    ran, kept = (
        [record_to_plain(record) for record in make(tmp_path / name, some, *asked)]
        for name, make in (("ran", nights.run_nights), ("kept", keep_nights))
    )
    for plain in (*ran, *kept):
        for name in ("digest", "previous", "events"):
            del plain[name]
        plain["spec"]["history"]["dir"] = plain["served"]["model"] = plain["served"]["base_url"] = None
        for name in ("log", "listener", "listed.root", "listed.owned_by"):
            plain["served"]["details"].pop(name, None)
        for seen in plain["observations"]:
            del seen["latency_s"]
    assert kept == ran


def rule(ran: Ran) -> Any:
    """The rule of a run."""
    return ran.data["rule"]


def test_an_empty_history_is_no_verdict(tmp_path: Path) -> None:
    """The first run exits 4, says how many runs are missing, and becomes the first of the history."""
    ran = night(tmp_path, "first", 0.95, 1, "task.n=40")
    assert (ran.code, ran.data["reason_code"]) == (4, "history-too-short")
    assert ran.data["reason"] == "0 comparable runs, need 1"
    assert night(tmp_path, "second", 0.95, 1, "task.n=40").data["rule"]["used"] == ["first"]


def test_three_nights_see_two_points(history: Path) -> None:
    """Against three builds an unchanged night passes and one two points lower fails, at 1319 questions."""
    healthy = night(history, "healthy", 0.9505, 5)
    assert (healthy.code, rule(healthy)["method"]) == (0, "exact_conditional")
    assert rule(healthy)["used"] == ["night-1", "night-2", "night-3"]
    assert healthy.data["p_value"] > 0.01
    worse = night(history, "worse", 0.93, 6)
    assert (worse.code, worse.data["verdict"], worse.data["reason_code"]) == (1, "FAIL", "below-threshold")
    assert worse.data["p_value"] <= rule(worse)["alpha"]
    assert "alpha = 0.00274" in worse.data["reason"]
    assert "turned wrong and" in worse.data["reason"]
    stored = record(worse, history)["verdict"]
    assert stored["rule"]["used"] == ["night-1", "night-2", "night-3", "healthy"]
    assert stored["churn"]["run_id"] == "healthy"
    after = night(history, "after", 0.9495, 7)
    assert (after.code, rule(after)["excluded"]) == (0, {"FAIL": 1}), "a FAIL never becomes the norm"


def test_a_repeated_build_is_one_observation(history: Path) -> None:
    """The same build again, with other answers, adds nothing to its first run."""
    assert keep_nights(history, [Night("again", 0.949, 11, "2026-08-10")], *GATE)[0].verdict.outcome is Outcome.PASS
    more = rule(night(history, "more", 0.9501, 12))
    assert "again" not in more["used"]
    assert "night-3" in more["used"]
    assert more["excluded"]["same build"] == 1


def test_history_of_one_run_is_the_documented_rule(tmp_path: Path) -> None:
    """One earlier run gives McNemar's test, with a count below its own; a rule named that needs two says so."""
    alone = night(tmp_path, "one", 0.95, 1, "task.n=400", "gate.method=moderated_t")
    assert alone.data["reason"] == "moderated_t: 0 comparable runs, need 2 of different builds"
    second = night(tmp_path, "two", 0.951, 2, "task.n=400")
    assert (second.code, rule(second)["method"]) == (0, "exact_mcnemar")
    assert rule(second)["k_reject"] < 0.95 * 400


def test_other_protocols_and_other_hardware_are_left_out(tmp_path: Path) -> None:
    """Runs of another protocol or machine are no history, counted by reason; hardware can be declared equal."""
    for name, asked in (
        ("short", ("task.n=40",)),
        ("tokens", ("task.n=60", "protocol.max_tokens=300")),
        ("elsewhere", ("task.n=60", "hw.name=othercpu")),
    ):
        keep_nights(tmp_path, [Night(name, 0.95, 1, "2026-08-30")], *GATE, *asked)
    ran = night(tmp_path, "tonight", 0.951, 2, "task.n=60")
    assert (ran.code, ran.data["reason_code"]) == (4, "history-too-short")
    assert "1 hardware othercpu" in ran.data["reason"]
    assert "1 other protocol.max_tokens" in ran.data["reason"]
    assert "1 other n, question_ids" in ran.data["reason"]
    assert "; protocol.max_tokens: 300 -> 256" in ran.data["reason"]
    assert "gate.exchangeable_hardware=[othercpu]" in ran.data["hint"]
    pooled = night(tmp_path, "pooled", 0.952, 3, "task.n=60", "gate.exchangeable_hardware=[othercpu]")
    assert rule(pooled)["used"] == ["elsewhere", "tonight"]
    (told,) = [note for note in rule(pooled)["notes"] if note.startswith("another series: ")]
    assert "protocol.max_tokens: 300 -> 256" in told
    assert "1 " in told.rpartition(";")[2]
    assert told.endswith("not comparable")


def test_a_wrong_clock_is_flagged(tmp_path: Path) -> None:
    """An earlier run that is dated after this one is told of, and its place stays that of its arrival."""
    keep_nights(tmp_path, [Night("a", 0.95, 1, "2026-08-30")], *GATE, "task.n=40")
    history = tmp_path / ".gatekit"
    stored = history / "runs" / "a" / "record.json"
    from gatekit.records.canonical import canonical_json, digest

    plain = json.loads(stored.read_text())
    del plain["digest"]
    plain["finished_at"] = "2099-01-01T00:00:00Z"
    stored.unlink()
    stored.write_bytes(canonical_json(plain | {"digest": digest(plain)}) + b"\n")
    (history / "index.sqlite").unlink()
    assert here(tmp_path, "history", "rebuild").code == 0
    ran = night(tmp_path, "b", 0.951, 2, "task.n=40")
    assert any("a clock was wrong: run a is dated 2099" in warning for warning in ran.data["warnings"])
    assert [row.run_id for row in index.list_runs(Place(dir=history), limit=9)] == ["b", "a"]


def test_a_gate_without_alpha_is_found_before_anything_starts(tmp_path: Path) -> None:
    """A history rule without a false-alarm rate exits 2 and leaves no record."""
    keep_nights(tmp_path, [Night("a", 0.95, 1, "2026-08-30")], *GATE, "task.n=40")
    ran = night(tmp_path, "b", 0.951, 2, "task.n=40", "gate.budget=null")
    assert ran.code == 2
    assert not (tmp_path / ".gatekit" / "runs" / "b" / "record.json").exists()
