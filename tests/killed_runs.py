"""Runs that are killed at an instant, and what is left of them after going on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import acknowledging
from command_line import environment, gatekit, servers
from gatekit.run.journal import read_journal
from gatekit.run.resume import answered

_NOT_SCORED = ("latency_s", "first_token_s", "attempts")


@dataclass(frozen=True)
class Killed:
    """One killed run: what it had told, what its journal held, whether it was done, and its scored part at the end."""

    acknowledged: int
    kept: int
    was_recorded: bool
    exit_code: int
    scored: Any

    @property
    def lost(self) -> int:
        """Acknowledged answers that the journal does not hold."""
        return max(0, self.acknowledged - self.kept)


def scored_part(record: Any) -> Any:
    """What of a stored record must be the same however often the run was cut off."""
    seen = [{k: v for k, v in one.items() if k not in _NOT_SCORED} for one in record["observations"]]
    verdict = {k: v for k, v in record["verdict"].items() if k != "warnings"}
    kept = {key: record[key] for key in ("spec", "dataset", "comparability", "counts")}
    kept["spec"] = {k: v for k, v in kept["spec"].items() if k not in ("history", "client")}
    return json.dumps([kept, seen, verdict], sort_keys=True)


@dataclass(frozen=True)
class Whole:
    """A run that nobody killed: its scored part, and how long it took until it asked and from there to the end."""

    scored: Any
    start_s: float
    asking_s: float


def unbroken(folder: Path, *overrides: str) -> Whole:
    """Run it to its end."""
    began_s = time.monotonic()
    process = start(folder, "unbroken", *overrides)
    await_asking(folder, "unbroken", process)
    asked_s = time.monotonic()
    process.wait(300)
    scored = scored_part(read_record(folder, "unbroken"))
    return Whole(scored=scored, start_s=asked_s - began_s, asking_s=time.monotonic() - asked_s)


def kill_and_go_on(folder: Path, run_id: str, after_s: float, *overrides: str, from_start: bool = False) -> Killed:
    """Kill a run with SIGKILL `after_s` seconds after it began to ask, then go on with it by the command line.

    With `from_start` the seconds count from the start of its process.
    """
    process = start(folder, run_id, *overrides)
    if not from_start:
        await_asking(folder, run_id, process)
    time.sleep(after_s)
    process.kill()
    process.wait(30)
    await_no_server(run_id)
    told = acknowledging.acknowledged(folder / f"{run_id}.acknowledged")
    was_recorded = (folder / ".gatekit" / "runs" / run_id / "record.json").exists()
    kept = kept_by(folder, run_id)
    code = 0
    if not was_recorded:  # killed before it began: the same command begins it
        words = (*overrides, "--run-id", run_id) if kept is None else ("--resume", run_id)
        ran = gatekit(folder, "run", *words, "--json", timeout_s=300)
        assert ran.data["record"], ran.err
        code = ran.code
    scored = scored_part(read_record(folder, run_id))
    return Killed(acknowledged=told, kept=kept or 0, was_recorded=was_recorded, exit_code=code, scored=scored)


def await_asking(folder: Path, run_id: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the run's journal says who answers, or the run is over."""
    journal = folder / ".gatekit" / "runs" / run_id / "journal.jsonl"
    while process.poll() is None and not (journal.exists() and b'{"server":' in journal.read_bytes()):
        time.sleep(0.01)


def kept_by(folder: Path, run_id: str) -> int | None:
    """How many answers the journal of a run holds, None where there is none yet."""
    try:
        kept = read_journal(folder / ".gatekit" / "runs" / run_id / "journal.jsonl")
    except FileNotFoundError:
        return None
    return None if kept is None else answered(kept)


def start(folder: Path, run_id: str, *overrides: str) -> subprocess.Popen[bytes]:
    """A run of its own that writes down what it acknowledges."""
    argv = [sys.executable, acknowledging.__file__, str(folder / f"{run_id}.acknowledged"), run_id, *overrides]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(argv, cwd=folder, env=environment(), stdin=quiet, stdout=quiet, stderr=quiet)


def await_no_server(marker: str, limit_s: float = 5.0) -> None:
    """Fail unless every process of the run is gone within the limit."""
    deadline = time.monotonic() + limit_s
    while left := servers(marker):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def read_record(folder: Path, run_id: str) -> Any:
    """The stored record of a run."""
    return json.loads((folder / ".gatekit" / "runs" / run_id / "record.json").read_text())
