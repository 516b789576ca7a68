"""The sequential test of a gate: what it needs, and what it says of a run that was cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.errors import ConfigError
from gatekit.gate.exchangeable import Exchangeable
from gatekit.records.answers import Status
from gatekit.records.past import PastRun
from gatekit.records.spec import EarlyStop, Gate
from gatekit.records.verdict import Early, Outcome
from gatekit.stats.paired_sprt import BUILDS_TO_FAIL, BUILDS_TO_PASS, PairedSprt
from gatekit.stats.stopping import PrefixTest, first_crossing
from gatekit.stats.wor_mixture import WorMixture

_KNOWN = {Status.CORRECT: True, Status.WRONG: False, Status.NO_ANSWER: False}


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyTest:
    """A gate's sequential test; `test` is None where it cannot be made, and `note` says so."""

    method: EarlyStop
    test: PrefixTest | None
    note: str = ""


def early_test(gate: Gate, n: int, early: Early, runs: Sequence[PastRun]) -> PrefixTest:
    """The sequential test of n questions; `runs` are the builds with answers, for a test question by question.

    Raises ConfigError (`early-stop-untestable`) where the earlier runs leave nothing to tell from their drop.
    """
    if early.healthy is not None and early.dropped is not None:
        return WorMixture(n, early.healthy, early.dropped, early.alpha, early.beta)
    assert gate.delta is not None
    right = [sum(answers) for answers in zip(*(run.outcomes or b"" for run in runs), strict=True)]
    try:
        return PairedSprt(right, len(runs), gate.delta, early.alpha, early.beta)
    except ValueError as error:
        raise _untestable(gate, error) from None


def detailed_runs(history: Exchangeable) -> tuple[PastRun, ...]:
    """The runs that a test question by question rests on."""
    return tuple(run for run in history.runs if run.outcomes is not None)


def early_outcome(test: PrefixTest, statuses: Sequence[Status | None]) -> Outcome | None:
    """What the test says of these statuses, in asking order, None where unknown; None while undecided.

    Answers that are lost or cut off tell nothing: like the unknown, they count right for FAIL, wrong for PASS.
    """
    return first_crossing(test, [known(status) for status in statuses])


def known(status: Status | None) -> bool | None:
    """Whether a question was answered right; None where that is unknown, lost, or cut off."""
    return None if status is None else _KNOWN.get(status)


def builds_note(builds: int) -> str:
    """Which verdicts so many builds are too few for; empty where they are enough."""
    have = f"early_stop paired_sprt: {builds} distinct builds with answers per question"
    if builds < BUILDS_TO_FAIL:
        return f"{have}, {BUILDS_TO_FAIL} needed to stop on FAIL and {BUILDS_TO_PASS} on PASS: this run asks on"
    return f"{have}, {BUILDS_TO_PASS} needed to stop on PASS" if builds < BUILDS_TO_PASS else ""


def _untestable(gate: Gate, error: ValueError) -> ConfigError:
    return ConfigError.one(
        f"gate {gate.name}: early_stop {gate.early_stop.value} cannot test this: {error}",
        reason="early-stop-untestable",
        where="gate.delta",
        hint="set another gate.delta, ask more questions, or set gate.early_stop=none",
    )
