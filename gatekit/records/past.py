"""Earlier runs as the decision sees them: comparable, whole, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatekit.records.lock import Lock
from gatekit.records.run import Comparability

QUARANTINED, SUPERSEDED = "quarantined", "superseded"
"""Why a run is left out that counted once: it was decided afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One earlier run with the same comparability key, every question of which was answered.

    `outcomes` has one byte per question, in asking order: 1 right, 0 not; None where only the total is known.
    """

    run_id: str
    build: str | None
    hardware: str
    finished_at: str
    n: int
    correct: int
    outcomes: bytes | None = None

    def __post_init__(self) -> None:
        answers = self.outcomes
        if answers is None:
            return
        right = int.from_bytes(answers, "big").bit_count()  # many times faster than a sum
        if (len(answers), right) != (self.n, self.correct) or answers.translate(None, b"\0\1"):
            raise ValueError(f"run {self.run_id}: outcomes do not add up to {self.correct} of {self.n}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The comparable runs of a spec, oldest first, and how many others were left out, by reason.

    `changes` names what distinguishes the runs under other keys from this one, newest first, in sentences such as
    `protocol.api: completions -> chat on 2026-09-01; 41 earlier runs are not comparable`. `key` is the
    comparability key of the run to be judged, `lock` the locked threshold of its spec where there is one. `left_out`
    says of every run under the key that is not among `runs` why, by its id.
    """

    runs: tuple[PastRun, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    key: Comparability | None = None
    lock: Lock | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
