"""What would change a verdict: how many answers, how many lost ones, which alpha, which floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gatekit.gate.decide import decide
from gatekit.gate.rule import thresholds
from gatekit.records.answers import Counts, Status
from gatekit.records.past import Past
from gatekit.records.spec import Method, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.stats.binomial import lower_tail

_NO_HISTORY = Past()

Turn = Callable[[Counts, int], Counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """So many answers turned, and the verdict that they bring."""

    answers: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far the verdict is from another one.

    `fewer` turns right answers wrong and `more` wrong ones right, each None where no number of them changes
    the verdict; INCONCLUSIVE where questions were left unasked: the run would have had to go on. `lost_borne`
    is how many more answers could be lost, whichever they were; None for a verdict that loss cannot take away.
    `fails_from_alpha` is the smallest alpha at which the run is a FAIL (derived counts only), `passes_to_floor`
    the highest effective floor that it reaches (typed floors only).
    """

    fewer: Change | None
    more: Change | None
    lost_borne: int | None
    fails_from_alpha: float | None
    passes_to_floor: float | None


def verdict_of(spec: Spec, counts: Counts) -> Verdict:
    """The verdict of these counts for a gate whose rule needs no history: `static_floor`, `exact_binomial`.

    Such a rule only counts, so the order of the answers does not matter. Raises ConfigError as `decide` does.
    """
    statuses = [status for status in Status for _ in range(getattr(counts, status.value))]
    return decide(spec, [*statuses, *[None] * counts.unasked], _NO_HISTORY)


def sensitivity(spec: Spec, counts: Counts) -> Sensitivity:
    """What would change the verdict of these counts; `spec` as in `verdict_of`."""
    now = verdict_of(spec, counts).outcome
    wrong = counts.wrong + counts.no_answer
    return Sensitivity(
        fewer=_first_change(spec, counts, now, counts.correct, _right_to_wrong),
        more=_first_change(spec, counts, now, wrong, _wrong_to_right),
        lost_borne=_lost_borne(spec, counts, now),
        fails_from_alpha=_fails_from_alpha(spec, counts),
        passes_to_floor=_passes_to_floor(spec, counts),
    )


def _first_change(spec: Spec, counts: Counts, now: Outcome, most: int, turn: Turn) -> Change | None:
    """The fewest turned answers that change the outcome; outcomes are monotone, so halving finds them."""

    def after(answers: int) -> Outcome:
        return verdict_of(spec, turn(counts, answers)).outcome

    if after(most) is now:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if after(middle) is now else (low, middle)
    return Change(answers=high, outcome=after(high))


def _lost_borne(spec: Spec, counts: Counts, now: Outcome) -> int | None:
    if now is Outcome.FAIL:
        change = _first_change(spec, counts, now, counts.wrong + counts.no_answer, _wrong_to_lost)
    elif now is Outcome.PASS:
        change = _first_change(spec, counts, now, counts.correct, _right_to_lost)
    else:
        return None
    return None if change is None else change.answers - 1


def _right_to_wrong(counts: Counts, answers: int) -> Counts:
    return replace(counts, correct=counts.correct - answers, wrong=counts.wrong + answers)


def _wrong_to_right(counts: Counts, answers: int) -> Counts:
    from_wrong = min(answers, counts.wrong)
    return replace(
        counts,
        correct=counts.correct + answers,
        wrong=counts.wrong - from_wrong,
        no_answer=counts.no_answer - (answers - from_wrong),
    )


def _right_to_lost(counts: Counts, answers: int) -> Counts:
    return replace(counts, correct=counts.correct - answers, lost=counts.lost + answers)


def _wrong_to_lost(counts: Counts, answers: int) -> Counts:
    from_wrong = min(answers, counts.wrong)
    return replace(
        counts,
        wrong=counts.wrong - from_wrong,
        no_answer=counts.no_answer - (answers - from_wrong),
        lost=counts.lost + answers,
    )


def _fails_from_alpha(spec: Spec, counts: Counts) -> float | None:
    """P(X <= best count) at the healthy accuracy: the p-value if every lost answer had been right.

    None where more than alpha decides: a floor beside it, truncated or unasked answers, no right answer
    needed at all.
    """
    gate = spec.gate
    is_derived = gate.method is Method.EXACT_BINOMIAL and gate.floor is None
    if not is_derived or counts.truncated or counts.unasked:
        return None
    nothing_right = Counts(n=counts.n, correct=0, wrong=counts.n, no_answer=0, truncated=0, lost=0)
    if verdict_of(spec, nothing_right).outcome is not Outcome.FAIL:
        return None
    return lower_tail(counts.correct + counts.lost + 1, counts.n, thresholds(gate, counts.n).guarded)


def _passes_to_floor(spec: Spec, counts: Counts) -> float | None:
    """The worst count as a share: every floor up to it is reached."""
    is_plain = not counts.truncated and not counts.unasked
    return counts.correct / counts.n if spec.gate.method is Method.STATIC_FLOOR and is_plain else None
