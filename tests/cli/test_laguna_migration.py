"""A model that moved from raw completions to chat on 1 September 2026: two protocols, two histories, two thresholds."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from command_line import Ran, here
from kept_nights import keep_nights
from nights import series

SIMULATED = ("hw=b200", "engine=sim", "task=gsm8k_synth", "gate=auto", "gate.floor=null", "gate.observed=null")
RAW = ("model=laguna_nvfp4_completions", *SIMULATED)
CHAT = ("model=laguna_nvfp4", *SIMULATED)
BEFORE_THE_SWITCH = (*CHAT, "protocol=completions_5shot", "protocol.max_tokens=256")
SWITCH = "protocol.api: completions -> chat"
LOCK = Path("conf/thresholds/laguna_nvfp4-b200-sim.lock.yaml")


def recompute(folder: Path, asked: tuple[str, ...], n: int, *more: str) -> Ran:
    """`gatekit thresholds recompute` of one protocol at n questions."""
    return here(folder, "thresholds", "recompute", *asked, f"task.n={n}", *more)


def locked_run(folder: Path, n: int, run_id: str, accuracy: float) -> Ran:
    """A night under chat that is judged by the lock file."""
    chosen = tuple(word for word in CHAT if word != "gate=auto")
    sim = ("engine.latency={}", f"engine.accuracy={accuracy}", f"engine.flip_seed={run_id[-1]}")
    return here(folder, *chosen, "gate=locked", f"task.n={n}", *sim, "--run-id", run_id, "--json")


def lived_through(folder: Path, n: int, *, norm: int, nights: int) -> None:
    """Nights of completions around .87, a lock from the first `norm`, the switch, and nights of chat around .91."""
    raw_asked, chat_asked, old_asked = (
        (*asked, f"gate.baseline_builds={norm}") for asked in (RAW, CHAT, BEFORE_THE_SWITCH)
    )
    first = (date(2026, 9, 1) - timedelta(days=nights)).isoformat()
    keep_nights(folder, series("raw", 0.87, nights, first=first), *raw_asked, f"task.n={n}")
    (raw,) = recompute(folder, raw_asked, n, "--json").data["thresholds"]
    assert len(raw["lock"]["used"]) == norm, "the norm is the first builds, and no later one"
    assert raw["lock"]["used"][0] == "raw-00"
    assert raw["lock"]["mean"] / n == pytest.approx(0.87, abs=0.02)
    assert recompute(folder, old_asked, n, "--write").code == 0
    old = (folder / LOCK).read_bytes()

    nothing_yet = recompute(folder, chat_asked, n, "--write")
    assert nothing_yet.code == 4
    told = " ".join(nothing_yet.out.split())
    assert "the lock is that of another series (protocol.api: completions -> chat" in told
    assert "0 comparable runs, need 1" in told
    assert SWITCH in told
    assert f"{nights} earlier runs are not comparable" in told
    assert (folder / LOCK).read_bytes() == old, "nothing is written for a history that is too short"

    refused = locked_run(folder, n, "first-1", 0.911)
    assert (refused.code, refused.data["reason_code"]) == (4, "lock-other-key"), refused.err
    assert SWITCH in refused.data["reason"]
    assert "gatekit thresholds recompute" in refused.data["hint"]
    assert recompute(folder, chat_asked, n, "--check").code == 2

    two_needed = recompute(folder, chat_asked, n, "gate.method=moderated_t")
    assert two_needed.code == 4
    assert "moderated_t: 1 comparable run, need 2 of different builds" in two_needed.out

    keep_nights(folder, series("chat", 0.91, 5, first="2026-09-02"), *chat_asked, f"task.n={n}")
    refused = recompute(folder, chat_asked, n, "--write")
    assert refused.code == 2, "fewer builds are no silent match for more"
    assert f"not written: the lock in place is that of another series ({SWITCH}" in refused.out
    assert (folder / LOCK).read_bytes() == old
    why = ("--allow-looser", "--reason", "the endpoint speaks chat since 1 September")
    (chat,) = recompute(folder, chat_asked, n, "--write", *why, "--json").data["thresholds"]
    assert chat["is_written"]
    assert chat["lock"]["looser_because"] == why[-1]
    assert set(chat["lock"]["used"]) <= {"first-1", *(f"chat-{number:02d}" for number in range(5))}
    assert len(chat["lock"]["used"]) >= 4
    assert any(change.startswith(SWITCH) or SWITCH in change for change in chat["changes"])
    assert chat["lock"]["mean"] / n == pytest.approx(0.91, abs=0.02)
    assert recompute(folder, chat_asked, n, "--check").code == 0

    then = recompute(folder, chat_asked, n, "--as-of", "2026-09-01", "--json")
    assert (then.code, then.data["thresholds"][0]["lock"]) == (4, None), "on the day of the switch nobody knew"
    passed = locked_run(folder, n, "next-2", 0.9105)
    assert (passed.code, passed.data["rule"]["method"]) == (0, "locked"), passed.data["reason"]


def test_the_switch_at_100_questions(tmp_path: Path) -> None:
    """Chat is judged by chat alone, a lock from before the switch is refused, and the field that changed is named."""
    lived_through(tmp_path, 100, norm=10, nights=12)


@pytest.mark.slow
def test_the_switch_at_1319_questions(tmp_path: Path) -> None:
    """The same with all questions, 41 nights, a norm of thirty; a night of chat at the old .87 is a regression."""
    lived_through(tmp_path, 1319, norm=30, nights=41)
    worse = locked_run(tmp_path, 1319, "worse-3", 0.87)
    assert (worse.code, worse.data["verdict"]) == (1, "FAIL")
