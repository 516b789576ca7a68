"""The two ways to find a drop: too few right answers, or too improbable a pattern of them.

Right answers come sorted: `right[h]` is how many of the questions that h earlier runs got right are right now.
A test that only counts has the one stratum h = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import Protocol

from gatekit.stats.conditional import UNDERFLOW, conditional_tail, log_conditional_tail, widened_log_p, widened_p

Right = Sequence[int]
_TIE = 1 + 1e-9  # a p-value that is alpha but for rounding is "at most alpha"


class DropTest(Protocol):
    """A test that no right answer can turn from clean into a drop."""

    def is_drop(self, right: Right) -> bool:
        """Whether these right answers are a drop."""

    def p_value(self, right: Right) -> float | None:
        """How probable answers at least this bad are under no change; None where no test is behind the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTest:
    """A drop is fewer than `k_reject` right answers; `tail` gives the p-value of a count."""

    k_reject: int
    tail: Callable[[int], float] | None = None

    def is_drop(self, right: Right) -> bool:
        """Fewer than `k_reject`."""
        return sum(right) < self.k_reject

    def p_value(self, right: Right) -> float | None:
        """The tail at the count."""
        return None if self.tail is None else self.tail(sum(right))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalTest:
    """A drop is an exact conditional p-value of at most `critical`.

    `questions[h]` is the number of questions with h right answers in the earlier runs. With two or more of these
    the p-value told is widened by `psi` on `df` degrees of freedom, and `critical` is the plain one at which
    that is alpha: the same decision, without a quantile per look. `log_critical` is its logarithm, for one that is too
    small for a float.
    """

    questions: tuple[int, ...]
    critical: float
    log_critical: float
    psi: float | None = None
    df: float | None = None

    def is_drop(self, right: Right) -> bool:
        """As improbable as the critical p-value, or more."""
        if self.critical < UNDERFLOW:
            return log_conditional_tail(self.questions, right) <= self.log_critical + log(_TIE)
        return conditional_tail(self.questions, right, below=self.critical) <= self.critical * _TIE

    def p_value(self, right: Right) -> float:
        """Widened where two or more runs show how totals scatter: what is far out in plain need not be so then."""
        plain = conditional_tail(self.questions, right)
        if self.psi is None or self.df is None:
            return plain
        if plain < UNDERFLOW:
            return widened_log_p(log_conditional_tail(self.questions, right), self.psi, self.df)
        return widened_p(plain, self.psi, self.df)
