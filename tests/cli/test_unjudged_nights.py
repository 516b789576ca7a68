"""Runs that met no threshold: they do not move the norm of a series that has one."""

from __future__ import annotations

from pathlib import Path

from command_line import here
from kept_nights import keep_nights
from nights import Night

ASKED = ("gate=auto", "task.n=100", "engine.dispersion=0.3")
NO_LOCK = ("gate=locked", "gate.locks=nowhere", "task.n=100", "engine.dispersion=0.3")


def nights(folder: Path, first: int, accuracies: tuple[float, ...], asked: tuple[str, ...]) -> list[str]:
    """One night after another, each of another build; the reasons of their verdicts."""
    some = [
        Night(f"night-{first + place}", accuracy, first + place, f"2026-09-{first + place:02d}")
        for place, accuracy in enumerate(accuracies)
    ]
    return [record.verdict.reason_code for record in keep_nights(folder, some, *asked)]


def norm(folder: Path) -> tuple[list[str], dict[str, int]]:
    """The runs that a lock of the series would rest on, and how many others do not count, by reason."""
    ran = here(folder, "thresholds", "recompute", *ASKED, "engine.latency={}", "--json")
    (found,) = ran.data["thresholds"]
    return found["lock"]["used"], found["lock"]["excluded"]


def test_a_week_without_a_lock_moves_no_norm(tmp_path: Path) -> None:
    """Nights of a gate whose lock was missing are kept, and left out of the norm, with the reason."""
    nights(tmp_path, 1, (0.95, 0.951, 0.952), ASKED)
    before, _ = norm(tmp_path)
    assert set(nights(tmp_path, 4, (0.90, 0.901, 0.902), NO_LOCK)) == {"no-lock"}
    after, excluded = norm(tmp_path)
    assert after == before
    assert excluded["without a verdict"] == 3


def test_a_lock_can_begin_with_nothing(tmp_path: Path) -> None:
    """Where nothing was ever judged, nights without a lock are what the first lock is made of."""
    assert set(nights(tmp_path, 1, (0.95, 0.951, 0.952), NO_LOCK)) == {"no-lock"}
    used, excluded = norm(tmp_path)
    assert (used, excluded) == (["night-1", "night-2", "night-3"], {})
