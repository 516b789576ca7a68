"""Stopping early through the command line, against the bundled server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, here, record

N = 1319
SEQUENTIAL = ("gate.early_stop=wor_mixture", "gate.delta=0.05", "task.order_seed=7")
FAST = "engine.latency.median_s=0.005"


def sent(stored: Any) -> int:
    """How many questions the run says were sent."""
    events = "\n".join(stored["events"])
    found = re.search(r"stopped early after \d+ answers \(\d+ right\), (\d+) of 1319 questions sent", events)
    assert found is not None
    return int(found[1])


def test_a_dead_model_fails_after_tens_of_questions(tmp_path: Path) -> None:
    """Accuracy 0 at 64 in flight: FAIL after at most 100 sent questions; the rest is unasked, not lost."""
    ran = here(tmp_path, *SEQUENTIAL, "engine.accuracy=0.0", "client.concurrency=64", "--json")
    stored = record(ran, tmp_path)
    assert (ran.code, ran.data["verdict"]) == (1, "FAIL")
    assert sent(stored) <= 100
    counts = stored["counts"]
    assert (counts["correct"], counts["lost"]) == (0, 0)
    assert counts["n"] == N
    assert counts["unasked"] == N - len(stored["observations"]) > N - 100


def test_a_dead_model_without_a_sequential_test_is_curtailed(tmp_path: Path) -> None:
    """Curtailment is always on: FAIL as soon as too many answers are wrong."""
    ran = here(tmp_path, "engine.accuracy=0.0", FAST, "--json")
    stored = record(ran, tmp_path)
    assert (ran.code, ran.data["verdict"]) == (1, "FAIL")
    assert 90 <= len(stored["observations"]) <= 112
    assert sent(stored) <= 176


def test_a_healthy_commit_stops_on_pass(tmp_path: Path) -> None:
    """With stop_on_pass a healthy model passes after a fraction of the questions."""
    ran = here(tmp_path, *SEQUENTIAL, "gate.stop_on_pass=true", FAST, "--json")
    stored = record(ran, tmp_path)
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    assert len(stored["observations"]) < N / 2
    assert stored["counts"]["unasked"] > N / 2


@pytest.mark.parametrize("arguments", [(), SEQUENTIAL])
def test_a_healthy_nightly_asks_everything(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A passing run that feeds the history is whole, with and without a sequential test."""
    ran = here(tmp_path, *arguments, FAST, "--json")
    stored = record(ran, tmp_path)
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    assert (len(stored["observations"]), stored["counts"]["unasked"]) == (N, 0)
    assert "stopped early" not in "".join(stored["events"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("gate.early_stop=wor_mixture", "task.order_seed=7"), "early-stop-needs-delta"),
        (("gate.early_stop=wor_mixture", "gate.delta=0.05"), "early-stop-needs-order"),
        ((*SEQUENTIAL, "gate=static_floor", "gate.floor=0.9", "gate.observed=null"), "early-stop-needs-reference"),
        (("gate.early_stop=wor_mixture", "task.order_seed=7", "gate.delta=0.99"), "drop-too-large"),
    ],
)
def test_what_a_sequential_test_lacks_is_said_before_the_run(
    tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    """A missing drop, order or reference is the user's to mend: exit 2, no server, no record."""
    ran: Ran = here(tmp_path, *arguments)
    assert ran.code == 2
    assert f"[{reason}]" in ran.err
    assert "starting engine" not in ran.err
    assert list(tmp_path.rglob("record.json")) == []
