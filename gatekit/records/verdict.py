"""What follows from a run: one of four outcomes, with every number that led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gatekit.errors import ExitCode

_BY_P_VALUE = frozenset({"exact_mcnemar", "exact_conditional"})


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
class Early:
    """The sequential test beside a rule, and how the gate's error rates are split between the two.

    `alpha` and `beta` bound its own FAIL and PASS, `asked_alpha` and `asked_beta` are those of the whole gate.
    It asks whether the whole run would get `healthy` right answers (K0) or only `dropped` (K1); both are None for
    a test question by question, which rests on `builds` earlier builds (None where it rests on none).
    """

    method: str
    alpha: float
    beta: float
    asked_alpha: float
    asked_beta: float
    healthy: int | None = None
    dropped: int | None = None
    builds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A decision rule as integer counts, with its error rates.

    FAIL iff correct < k_reject; PASS iff correct >= max(k_reject, k_accept); else INCONCLUSIVE. Where `by_p_value`
    FAIL iff the p-value is at most alpha (or correct below gate.floor), and k_reject is what that comes to if as
    many questions flip as between earlier runs.
    `reference_accuracy` is the healthy accuracy that the error rates refer to, `alpha` the nominal and
    `realised_alpha` the true false-alarm rate at it, `sigmas` its distance from the threshold in binomial
    standard deviations, `noticed_drop` the smallest drop that fails with probability `power`; each is None
    where it is undefined. `why` says why this method was chosen, `used` which earlier runs it rests on,
    `excluded` how many were left out and why; `phi`, `df` and `psi` are the dispersion, its degrees of freedom
    and the over-dispersion factor of rules that have them. `early` is the sequential test beside it: `alpha` and
    `k_accept` are then made at the rule's own share of the error rates.
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
    why: str = ""
    used: tuple[str, ...] = ()
    excluded: Mapping[str, int] = field(default_factory=dict)
    phi: float | None = None
    df: float | None = None
    psi: float | None = None
    early: Early | None = None

    @property
    def by_p_value(self) -> bool:
        """Whether a p-value decides and the counts are what it comes to before the run."""
        return self.method in _BY_P_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Questions that changed sides against one earlier run, and how surprising that many are.

    `p_value` is one-sided, of at least as many changes as between earlier runs; None without two earlier runs.
    """

    run_id: str
    right_to_wrong: int
    wrong_to_right: int
    p_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one run, why, and what to do next.

    `p_value` is that of the run under no change, for rules that have one (with lost or unasked answers all counted
    right for a FAIL, else all wrong), None where a sequential test decided; `cause` names what alone explains a FAIL
    (`truncation`), None where nothing does.
    """

    outcome: Outcome
    reason_code: str
    reason: str
    hint: str = ""
    rule: Rule | None = None
    interval: Interval | None = None
    warnings: tuple[str, ...] = ()
    p_value: float | None = None
    churn: Churn | None = None
    cause: str | None = None
