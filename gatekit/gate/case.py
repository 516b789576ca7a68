"""One run before its gate: the counts, the rule, and the outcome of any number of right answers."""

from __future__ import annotations

from dataclasses import dataclass

from gatekit.gate.enough import Enough
from gatekit.records.answers import Counts
from gatekit.records.spec import Gate
from gatekit.records.verdict import Outcome, Rule
from gatekit.stats.exact import exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a verdict follows from."""

    gate: Gate
    counts: Counts
    rule: Rule
    enough: Enough

    @property
    def k_pass(self) -> int:
        """The count from which on the run can PASS; n + 1 when no count is enough."""
        return max(self.rule.k_reject, self.rule.k_accept or 0)

    @property
    def is_over_truncated(self) -> bool:
        """Whether more answers were cut off than the gate allows."""
        return self.counts.truncated > exact(self.gate.max_truncated_share) * self.counts.n

    @property
    def is_over_lost(self) -> bool:
        """Whether more answers were lost than the gate allows."""
        return self.counts.lost > exact(self.gate.max_lost_share) * self.counts.n

    def outcome(self, correct: int) -> Outcome:
        """The outcome if `correct` were right and none lost; monotone in `correct`.

        Beyond the truncation limit a FAIL stands only if it stands with every truncated answer counted right.
        """
        if not self.is_over_truncated:
            return self._count_outcome(correct)
        generous = self._count_outcome(correct + self.counts.truncated)
        return Outcome.FAIL if generous is Outcome.FAIL else Outcome.INCONCLUSIVE

    def _count_outcome(self, correct: int) -> Outcome:
        if correct < self.rule.k_reject and self.enough.can_fail:
            return Outcome.FAIL
        if correct >= self.k_pass and self.enough.can_pass:
            return Outcome.PASS
        return Outcome.INCONCLUSIVE
