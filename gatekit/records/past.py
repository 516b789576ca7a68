"""Earlier runs as the decision sees them: comparable, whole, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """One earlier run with the same comparability key, every question of which was answered.

    `outcomes` says of each question, in asking order, whether it was right; None where only the total is known.
    """

    run_id: str
    build: str | None
    hardware: str
    finished_at: str
    n: int
    correct: int
    outcomes: tuple[bool, ...] | None = None

    def __post_init__(self) -> None:
        if self.outcomes is not None and (len(self.outcomes), sum(self.outcomes)) != (self.n, self.correct):
            raise ValueError(f"run {self.run_id}: outcomes do not add up to {self.correct} of {self.n}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The comparable runs of a spec, oldest first, and how many others were left out, by reason."""

    runs: tuple[PastRun, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
