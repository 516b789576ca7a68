"""One run before its criterion: what every way that the open questions may end has in common."""

from __future__ import annotations

from dataclasses import dataclass

from gatekit.gate.criterion import Criterion
from gatekit.gate.strata import Strata
from gatekit.records.answers import Counts
from gatekit.records.spec import Gate
from gatekit.records.verdict import Outcome, Rule
from gatekit.stats.exact import exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """All that a verdict follows from. `repeats` is how often each question is asked."""

    gate: Gate
    counts: Counts
    strata: Strata
    criterion: Criterion
    repeats: int = 1

    @property
    def rule(self) -> Rule:
        """The criterion's rule."""
        return self.criterion.rule

    @property
    def k_pass(self) -> int:
        """The count from which on the run can PASS, n + 1 when no count is enough; about, where a p-value decides."""
        return max(self.rule.k_reject, self.rule.k_accept or 0)

    @property
    def is_over_truncated(self) -> bool:
        """Whether more answers were cut off than the gate allows."""
        return self.counts.truncated > exact(self.gate.max_truncated_share) * self.counts.n

    @property
    def is_over_lost(self) -> bool:
        """Whether more answers were lost than the gate allows."""
        return is_over_lost(self.gate, self.counts)

    @property
    def allows_pass(self) -> bool:
        """Whether floor and limits are met already, so that a sequential test alone may pass the run."""
        is_over = self.is_over_lost or self.is_over_truncated
        return not is_over and not self.criterion.is_below_floor(self.strata.right)

    def allows(self, outcome: Outcome) -> bool:
        """Whether a sequential test alone may end the run so: a PASS needs floor and limits met already."""
        if outcome is Outcome.PASS:
            return self.allows_pass and not self.criterion.is_reference_missing
        return outcome is Outcome.FAIL and self.criterion.enough.can_fail

    def agreed(self) -> Outcome | None:
        """The outcome that every completion of the open questions leads to; None where they differ.

        Open is what was lost or not asked: each may be right, wrong, or cut off. Beyond the truncation limit a
        FAIL stands only if it stands with every truncated answer counted right, and nothing passes; so open
        questions also stand in the way of a PASS where they could be enough truncated answers.
        """
        best = self.criterion.outcome(self.strata.right_if(open_=True))
        if best is Outcome.FAIL and self._stands_if_cut():
            return Outcome.FAIL
        if self.is_over_truncated:
            return None if self._fails(cut=True) else Outcome.INCONCLUSIVE
        if best is Outcome.FAIL or (best is Outcome.PASS and self._may_be_over_truncated):
            return None
        # The worst case is the dear one to work out, and seldom needed before the end of a run.
        return best if not self._open or self.criterion.outcome(self.strata.right) is best else None

    @property
    def is_drop(self) -> bool:
        """Whether the answers are a drop with every open question wrong."""
        return self.criterion.is_drop(self.strata.right)

    @property
    def is_floor_alone(self) -> bool:
        """Whether a FAIL comes from gate.floor, and the test itself finds no certain drop."""
        best = self.strata.right_if(open_=True)
        return self.criterion.is_below_floor(best) and not self.criterion.test.is_drop(best)

    def p_value(self, *, open_: bool) -> float | None:
        """That of the rule's test with every open question right (`open_`) or wrong."""
        return self.criterion.test.p_value(self.strata.right_if(open_=open_))

    @property
    def is_explained_by_truncation(self) -> bool:
        """Whether a FAIL would be none if every truncated answer were right."""
        return self.counts.truncated > 0 and not self._fails(cut=True)

    @property
    def _open(self) -> int:
        return self.counts.lost + self.counts.unasked

    @property
    def _may_be_over_truncated(self) -> bool:
        return self.counts.truncated + self._open > exact(self.gate.max_truncated_share) * self.counts.n

    def _stands_if_cut(self) -> bool:
        """Whether a FAIL with every open question right is one however many of them are cut off instead."""
        needed = self.counts.truncated > 0 and self._may_be_over_truncated
        return not needed or self._fails(cut=True, open_=True)

    def _fails(self, *, cut: bool = False, open_: bool = False) -> bool:
        return self.criterion.outcome(self.strata.right_if(cut=cut, open_=open_)) is Outcome.FAIL


def is_over_lost(gate: Gate, counts: Counts) -> bool:
    """Whether more answers were lost than the gate allows; questions that were not asked are not lost."""
    return counts.lost > exact(gate.max_lost_share) * counts.n
