"""The sequential test of a recorded run, computed anew: what it compares, and where it crossed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.gate.early_stop import early_test, known
from gatekit.gate.step import Step
from gatekit.records.answers import statuses
from gatekit.records.past import PastRun
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Early, Outcome, Rule
from gatekit.stats.sequential import Boundaries
from gatekit.stats.stopping import Crossing, crossing


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyAgain:
    """What the sequential test says of the record today; `outcome` is None where it cannot be made anew."""

    steps: tuple[Step, ...]
    outcome: Outcome | None


def early_again(record: RunRecord, rule: Rule, runs: Sequence[PastRun]) -> EarlyAgain | None:
    """The test beside the stored rule on the record's answers in asking order; None for a rule without one.

    `runs` are those that the rule rests on. INCONCLUSIVE where it crosses no boundary.
    """
    early = rule.early
    if early is None:
        return None
    builds = tuple(run for run in runs if run.outcomes is not None)
    if early.builds is not None and early.builds != len(builds):
        why = f"{early.method} rests on {early.builds} builds with answers, of which {len(builds)} are at hand"
        return EarlyAgain(steps=(Step(label="early stop", text=f"{why}: as stored"),), outcome=None)
    test = early_test(record.spec.gate, rule.n, early, builds)
    found = crossing(test, [known(status) for status in statuses(record.observations, record.dataset.question_ids)])
    steps = (
        Step(label="early stop", text=_compared(early)),
        Step(label="boundaries", text=_boundaries(early, test.bounds)),
        Step(label="stop", text="no boundary was crossed" if found is None else _crossed(found, test.bounds)),
    )
    return EarlyAgain(steps=steps, outcome=Outcome.INCONCLUSIVE if found is None else found.outcome)


def _compared(early: Early) -> str:
    rates = f"alpha {early.asked_alpha:.3g} and beta {early.asked_beta:.3g} are split with the rule"
    if early.healthy is None:
        return f"{early.method}: every question as often right as in {early.builds} earlier builds, or less; {rates}"
    counts = f"would the whole run reach K0 = {early.healthy} right answers, or only K1 = {early.dropped}"
    return f"{early.method}: {counts}; {rates}"


def _boundaries(early: Early, bounds: Boundaries) -> str:
    fail = f"FAIL from ln(1 / {early.alpha:.3g}) = {bounds.log_a:.4g} on"
    return f"log likelihood ratio: {fail}, PASS down to ln({early.beta:.3g}) = {bounds.log_b:.4g}"


def _crossed(found: Crossing, bounds: Boundaries) -> str:
    unknown = found.asked - found.right - found.wrong
    aside = f", {unknown} unknown counted {'right' if found.outcome is Outcome.FAIL else 'wrong'}" if unknown else ""
    seen = f"after the first {found.asked} questions ({found.right} right, {found.wrong} wrong{aside})"
    limit = f">= {bounds.log_a:.4g}" if found.outcome is Outcome.FAIL else f"<= {bounds.log_b:.4g}"
    return f"{seen} the log likelihood ratio is {found.ratio:.4g} {limit}: {found.outcome.value}"
