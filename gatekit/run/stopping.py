"""Whether a run needs its remaining questions, and how many it should have in flight until that is likely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gatekit.gate.early_stop import EarlyTest, known
from gatekit.records.answers import Status
from gatekit.records.verdict import Outcome
from gatekit.stats.stopping import PrefixWatch

_FIRST_BLOCK = 32
_RAMP_SHARE = 40  # the first block holds back at most n / 40 requests: 2.5 % of the time of a long run
_RIGHT_TO_OPEN = 8
_ANSWERS_TO_OPEN = 128
_SETTLED_EVERY = 16  # answers between two looks at curtailment, which take a pass over all answers
_OTHERS_SHARE = 4  # of the answers between two looks at least a fourth were not right: where fewer were, one waits
_LOOKS = 40  # at most so many looks in one run, so that a question of a long run costs no more than one of a short

Statuses = Sequence[Status | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """The verdict that a run stopped at, the rule that found it, and one sentence with the counts."""

    outcome: Outcome
    rule: str
    text: str


class Stopping(Protocol):
    """Told of every question when it is first sent and when it ended; says when that is enough."""

    notes: tuple[str, ...]

    def in_flight(self, limit: int) -> int:
        """How many requests may be in flight now, at most `limit`; it only grows."""

    def dispatched(self, index: int) -> None:
        """The question was sent for the first time."""

    def answered(self, index: int, status: Status) -> None:
        """The question ended."""

    def verdict(self) -> StopReason | None:
        """Why the remaining questions are not needed, or None while they are."""

    def suffices(self, statuses: Statuses) -> bool:
        """Whether a run that stopped with these, None for each question that was not asked, came to its verdict."""


class NeverStopping:
    """Asks everything, at full width from the start."""

    notes: tuple[str, ...] = ()

    def in_flight(self, limit: int) -> int:
        """The limit."""
        return limit

    def dispatched(self, index: int) -> None:
        """Ignore it."""

    def answered(self, index: int, status: Status) -> None:
        """Ignore it."""

    def verdict(self) -> StopReason | None:
        """Never."""
        return None

    def suffices(self, statuses: Statuses) -> bool:
        """Never."""
        return False


class EarlyStopping:
    """Stops at the first verdict that more answers cannot change, or that a sequential test has reached.

    `settled` gives the outcome that every completion of the unknown leads to, None while there are several.
    `test` is the gate's sequential test, if it has one; what it finds stands only if `decides`, the decision as
    it will be made from the same statuses, agrees. FAIL always stops; PASS only with `stop_on_pass`, because a run
    that stopped adds nothing to the history of totals.
    """

    def __init__(
        self,
        n: int,
        *,
        settled: Callable[[Statuses], Outcome | None],
        decides: Callable[[Statuses], Outcome],
        test: EarlyTest | None = None,
        stop_on_pass: bool = False,
    ) -> None:
        self._settled = settled
        self._decides = decides
        self._test = test
        self._watch = PrefixWatch(test.test) if test is not None and test.test is not None else None
        self._stops_at = {Outcome.FAIL, Outcome.PASS} if stop_on_pass else {Outcome.FAIL}
        self._statuses: list[Status | None] = [None] * n
        self._sent = self._ended = self._right = 0
        self._looked_at_others = 0
        self._look_every = max(_SETTLED_EVERY, n // _LOOKS)
        self.notes: tuple[str, ...] = () if test is None or not test.note else (test.note,)
        self._reason: StopReason | None = None

    def in_flight(self, limit: int) -> int:
        """A first block of about 32 until 8 answers were right (or 128 came at all), then the limit.

        A dead server is then stopped after tens of requests, not hundreds. What the first block holds back is at
        most a fortieth of all questions, so that it delays a healthy run by at most 2.5 %.
        """
        if self._right >= _RIGHT_TO_OPEN or self._ended >= _ANSWERS_TO_OPEN:
            return limit
        return min(limit, max(_FIRST_BLOCK, limit - len(self._statuses) // _RAMP_SHARE))

    def dispatched(self, index: int) -> None:
        """Count it."""
        self._sent += 1

    def answered(self, index: int, status: Status) -> None:
        """Keep the status and look whether it decides the run; after that nothing is looked at any more."""
        self._statuses[index] = status
        self._ended += 1
        self._right += status is Status.CORRECT
        if self._reason is None and self._ended < len(self._statuses):
            self._reason = self._crossing(index, status) or self._curtailment()

    def verdict(self) -> StopReason | None:
        """Why the remaining questions are not needed, or None while they are."""
        return self._reason

    def suffices(self, statuses: Statuses) -> bool:
        """Whether the decision from them is one that stops a run."""
        return self._decides(statuses) in self._stops_at

    def _crossing(self, index: int, status: Status) -> StopReason | None:
        right = known(status)
        if self._watch is None or self._test is None or self._watch.outcome is not None or right is None:
            return None
        outcome = self._watch.add(index, right=right)
        if outcome not in self._stops_at or self._decides(self._statuses) is not outcome:
            return None
        method = self._test.method.value
        return self._stop(outcome, method, f"{method} finds {outcome.value}")

    def _curtailment(self) -> StopReason | None:
        if self._ended % self._look_every or not self._may_have_settled():
            return None
        outcome = self._settled(self._statuses)
        if outcome not in self._stops_at:
            return None
        return self._stop(outcome, "curtailed", f"no answer still to come can change {outcome.value}")

    def _may_have_settled(self) -> bool:
        """Right answers bring no FAIL nearer, and a few others hardly."""
        others = self._ended - self._right
        if Outcome.PASS not in self._stops_at and others - self._looked_at_others < self._look_every // _OTHERS_SHARE:
            return False
        self._looked_at_others = others
        return True

    def _stop(self, outcome: Outcome, rule: str, why: str) -> StopReason:
        counts = f"{self._ended} answers ({self._right} right), {self._sent} of {len(self._statuses)} questions sent"
        return StopReason(outcome=outcome, rule=rule, text=f"stopped early after {counts}: {why}")
