"""What follows from a run: one of four outcomes, with every number that led to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gatekit.errors import ExitCode


class Outcome(StrEnum):
    """PASS: measured and good enough. FAIL: a measured regression. The rest support neither."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INFRA = "INFRA"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_code(self) -> ExitCode:
        """The process exit code of this outcome."""
        return ExitCode[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A two-sided confidence interval for the accuracy, both ends in [0, 1]."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A decision rule as integer counts, with its error rates.

    FAIL iff correct < k_reject; PASS iff correct >= max(k_reject, k_accept); else INCONCLUSIVE.
    `reference_accuracy` is the healthy accuracy that the error rates refer to, `alpha` the nominal and
    `realised_alpha` the true false-alarm rate at it, `sigmas` its distance from the threshold in binomial
    standard deviations, `noticed_drop` the smallest drop that fails with probability `power`; each is None
    where it is undefined.
    """

    method: str
    n: int
    k_reject: int
    k_accept: int | None
    reference_accuracy: float | None
    alpha: float | None
    realised_alpha: float | None
    sigmas: float | None
    noticed_drop: float | None
    power: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one run, why, and what to do next."""

    outcome: Outcome
    reason_code: str
    reason: str
    hint: str = ""
    rule: Rule | None = None
    interval: Interval | None = None
    warnings: tuple[str, ...] = ()
