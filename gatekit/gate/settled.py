"""Whether a run that is still going can end in one way only."""

from __future__ import annotations

from collections.abc import Callable

from gatekit.gate.criterion import Criterion, binding_gate, is_mismatched
from gatekit.gate.repeats import is_carried
from gatekit.gate.split_criterion import criterion
from gatekit.gate.strata import Statuses, sorter
from gatekit.gate.trial import Trial
from gatekit.records.past import Past
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome


def settled(spec: Spec, statuses: Statuses, past: Past) -> Outcome | None:
    """The outcome that every completion of the unasked questions leads to; None while there are two.

    `statuses` has one entry per planned question, in asking order: None for those that were not asked. Answers
    already lost stay open; too many of them are INFRA unless it is a FAIL. A completion answers every question:
    answers that get lost later can still make a PASS INFRA, never a FAIL. With repeats nothing is settled that whole
    questions do not carry. Errors: as `settler`.
    """
    return settler(spec, len(statuses), past)(statuses)


def settler(spec: Spec, n: int, past: Past) -> Callable[[Statuses], Outcome | None]:
    """`settled` for one run of n questions, prepared once and then asked after every answer.

    One call takes one pass over the answers and, where a p-value decides, at most three of these. A gate that
    cannot decide (too short a history, another protocol) settles nothing: its run is there to become history.
    Raises ConfigError as `gatekit.gate.rule.rule` does.
    """
    found = criterion(spec, n, past) if n > 0 else None
    if not isinstance(found, Criterion) or is_mismatched(spec, n, found):
        return _never
    sort = sorter(found.before, len(found.runs))
    gate = binding_gate(spec, n)

    def outcome(statuses: Statuses) -> Outcome | None:
        strata = sort(statuses)
        trial = Trial(gate=gate, counts=strata.counts, strata=strata, criterion=found, repeats=spec.protocol.repeats)
        agreed = trial.agreed()
        undecided = agreed is None or agreed is Outcome.FAIL
        if trial.is_over_lost and not undecided:
            return Outcome.INFRA
        if agreed is None or agreed is Outcome.INCONCLUSIVE:
            return agreed
        is_sure = is_carried(agreed, statuses, spec.protocol.repeats, found.runs, found.rule.alpha)
        return agreed if is_sure else None

    return outcome


def _never(statuses: Statuses) -> None:
    """No verdict to settle."""
