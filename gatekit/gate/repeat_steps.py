"""Whether repeats hang together within a run, as a derivation shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatekit.gate.reasons import DEPENDENT
from gatekit.gate.repeats import TOO_ALIKE_Z, dependence
from gatekit.gate.step import Step
from gatekit.records.answers import statuses
from gatekit.records.past import PastRun
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeAgain:
    """The steps, the outcome that is left (None where it cannot be computed anew), and why, if it is another one."""

    steps: tuple[Step, ...]
    outcome: Outcome | None
    told: str | None = None


def repeat_steps(record: RunRecord) -> Iterator[Step]:
    """What a count of answers is made of; nothing for a run without repeats."""
    repeats = record.spec.protocol.repeats
    if repeats > 1:
        questions = len(record.dataset.question_ids) // repeats
        yield Step(label="repeats", text=f"n = {repeats} repeats x {questions} questions = {repeats * questions}")


def alike_again(record: RunRecord, runs: Sequence[PastRun], now: Outcome) -> AlikeAgain | None:
    """What the repeats of a run make of its outcome `now`; None without repeats, and where they say nothing.

    `runs` are those that the rule rests on; where a lock decided they are not known any more.
    """
    repeats = record.spec.protocol.repeats
    if repeats == 1 or not record.observations or record.verdict.rule is None:
        return None
    found = dependence(statuses(record.observations, record.dataset.question_ids), repeats, runs)
    if found is None:
        if record.verdict.reason_code != DEPENDENT:
            return None
        return AlikeAgain(steps=(), outcome=None, told=f"not computed anew: {record.verdict.reason}")
    over = f"{found.questions} questions in {found.runs + 1} runs of {repeats} repeats"
    relation = ">" if found.z > TOO_ALIKE_Z else "<="
    text = f"z = sum (W - E) / sqrt(sum (W - E)^2) = {found.z:.3g} {relation} {TOO_ALIKE_Z:g}, {over}"
    steps = [Step(label="alike", text=text)]
    if found.z > TOO_ALIKE_Z and now in (Outcome.PASS, Outcome.FAIL):
        name, p = ("few", found.drop_p) if now is Outcome.FAIL else ("many", found.rise_p)
        text = f"p of so {name} right answers, all repeats of a question taken for one, is {p:.3g}"
        steps.append(Step(label="by question", text=text))
    if not found.overrules(now, record.verdict.rule.alpha):
        return AlikeAgain(steps=tuple(steps), outcome=now)
    told = f"{Outcome.INCONCLUSIVE.value}: repeats are too alike within a run for {now.value}"
    return AlikeAgain(steps=tuple(steps), outcome=Outcome.INCONCLUSIVE, told=told)
