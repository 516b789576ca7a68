"""What lost answers can still change, and when the rest of a run no longer matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gatekit.records.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Right answers if all missing ones were wrong (`worst`) and if all were right (`best`)."""

    worst: int
    best: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curtailment:
    """The counts at which the verdict of the full run is certain."""

    fail_when_wrong_reaches: int
    pass_when_correct_reaches: int


def missing_bounds(correct: int, missing: int) -> Bounds:
    """The range of the full count: correct .. correct + missing.

    Hypothesis: none; nothing is assumed about why answers are missing. Dividing by the answered questions
    would assume that time-outs hit easy and hard questions alike, and they do not. Reference: Manski 1989.
    Always valid.

    >>> missing_bounds(160, 40)
    Bounds(worst=160, best=200)
    """
    return Bounds(worst=correct, best=correct + missing)


def agreed_outcome(bounds: Bounds, outcome: Callable[[int], Outcome]) -> Outcome | None:
    """The outcome that the worst and the best case share; None when they differ.

    Hypothesis: `outcome` is monotone in the count, so agreement at both ends is agreement between them.
    Reference: Manski 1989. Valid for every monotone rule.

    >>> agreed_outcome(Bounds(worst=1, best=3), lambda k: Outcome.PASS if k >= 2 else Outcome.FAIL) is None
    True
    """
    worst, best = outcome(bounds.worst), outcome(bounds.best)
    return worst if worst is best else None


def missing_verdict(k_pass: int, correct: int, missing: int) -> Outcome:
    """PASS or FAIL where missing answers cannot change it, else INFRA, for the rule correct >= k_pass.

    Hypotheses, reference and validity: as `missing_bounds`.

    >>> [missing_verdict(170, correct, 3).value for correct in (170, 167, 166)]
    ['PASS', 'INFRA', 'FAIL']
    """
    bounds = missing_bounds(correct, missing)
    agreed = agreed_outcome(bounds, lambda count: Outcome.PASS if count >= k_pass else Outcome.FAIL)
    return agreed or Outcome.INFRA


def curtailment_counts(n: int, k_pass: int) -> Curtailment:
    """When to stop: n - k_pass + 1 wrong force FAIL, k_pass right force PASS.

    Hypothesis: none. The verdict equals that of the full run in any order of completion, 0 <= k_pass <= n.
    Reference: the definition of curtailed sampling.

    >>> curtailment_counts(200, 170)
    Curtailment(fail_when_wrong_reaches=31, pass_when_correct_reaches=170)
    """
    return Curtailment(fail_when_wrong_reaches=n - k_pass + 1, pass_when_correct_reaches=k_pass)
