"""Nights of a simulated model, run one after another in this process, by the command line or by what it calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from command_line import Ran, here
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.records.run import RunRecord
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.run.execute import Surroundings, execute
from gatekit.run.progress import Silent
from gatekit.spec.resolve import resolve

ASKED = ("gate=auto", "task.n=100", "engine.dispersion=0.5")
"""A small gate on history."""
LOCK = Path("conf/thresholds/simulated-cpu-sim.lock.yaml")
"""Where its lock is kept."""


def night(folder: Path, *overrides: str, run_id: str | None = None) -> Ran:
    """Tonight's run by the command line, with --json."""
    named = () if run_id is None else ("--run-id", run_id)
    return here(folder, "engine.latency={}", "engine.seed=0", *overrides, *named, "--json")


@dataclass(frozen=True)
class Night:
    """One run: each accuracy is another build of the engine, each number other flips. `day` is its UTC date."""

    run_id: str
    accuracy: float
    flips: int
    day: str


def series(name: str, accuracy: float, days: int, *, first: str, step: float = 0.0005) -> list[Night]:
    """So many nights, one a day from `first` on, of builds whose accuracy lies around `accuracy`."""
    start = datetime.fromisoformat(first)
    return [
        Night(
            run_id=f"{name}-{number:02d}",
            accuracy=round(accuracy + step * (number % 7 - 3) + 1e-6 * number, 6),
            flips=number,
            day=(start + timedelta(days=number)).date().isoformat(),
        )
        for number in range(days)
    ]


def run_nights(folder: Path, nights: Sequence[Night], *overrides: str) -> list[RunRecord]:
    """The records of these nights, kept in the default history of `folder`."""
    own = ["engine.latency={}", f"history.dir={folder / '.gatekit'}"]
    spec = resolve([*overrides, *own], dirs=(conf_dir(),))
    return [_run(folder, night, spec) for night in nights]


def _run(folder: Path, night: Night, spec: Spec) -> RunRecord:
    tonight = replace(spec, engine=replace(spec.engine, accuracy=night.accuracy, flip_seed=night.flips))
    moment = datetime.fromisoformat(night.day).replace(hour=3, tzinfo=UTC)
    around = Surroundings(environ={}, now=lambda: moment, cache_dir=folder / "cache", progress=Silent())
    return execute(tonight, run_id=night.run_id, around=around).record


def stored_ids(place: Place) -> list[str]:
    """The runs in the index of a history, newest first."""
    return [row.run_id for row in index.list_runs(place, limit=1000)]
