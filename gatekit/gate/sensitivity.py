"""What would change a verdict: how many answers, how many lost ones, which alpha, which floor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from gatekit.gate.decide import decide
from gatekit.gate.retrial import Retrial
from gatekit.gate.rule import thresholds
from gatekit.gate.strata import Kind, Strata, turned, unsorted
from gatekit.gate.trial import Trial
from gatekit.records.answers import Counts, Status
from gatekit.records.past import Past
from gatekit.records.spec import Method, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.stats.binomial import lower_tail
from gatekit.stats.next_count import binomial_variance

_NO_HISTORY = Past()

Judge = Callable[[Strata], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """So many answers turned, and the verdict that they bring."""

    answers: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far the verdict is from another one.

    `fewer` turns right answers wrong (where a p-value decides: of questions that all earlier runs got right, which
    tell most) and `more` wrong ones right (those that most earlier runs got right first), each None where no number
    of them changes the verdict; INCONCLUSIVE where questions were left unasked: the run would have had to go on.
    `lost_borne` is how many more answers could be lost, whichever they were; None for a verdict that loss cannot take
    away. `fails_from_alpha` is the smallest alpha at which the run is a FAIL (derived counts and p-values only),
    `passes_to_floor` the highest effective floor that it reaches (typed floors only).
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
    return _sensitivity(
        lambda strata: verdict_of(spec, strata.counts).outcome,
        unsorted(counts),
        fails_from_alpha=_fails_from_alpha(spec, counts),
        passes_to_floor=_passes_to_floor(spec, counts),
    )


def sensitivity_on_history(again: Retrial) -> Sensitivity:
    """What would change the verdict of a run by a rule on history."""
    return _sensitivity(
        again.outcome, again.trial.strata, fails_from_alpha=_fails_by_p_value(again), passes_to_floor=None
    )


def _sensitivity(
    judge: Judge, strata: Strata, *, fails_from_alpha: float | None, passes_to_floor: float | None
) -> Sensitivity:
    now = judge(strata)
    return Sensitivity(
        fewer=_first_change(judge, strata, now, strata.right[-1], "right", "wrong"),
        more=_first_change(judge, strata, now, sum(strata.wrong), "wrong", "right"),
        lost_borne=_lost_borne(judge, strata, now),
        fails_from_alpha=fails_from_alpha,
        passes_to_floor=passes_to_floor,
    )


def _first_change(judge: Judge, strata: Strata, now: Outcome, most: int, source: Kind, target: Kind) -> Change | None:
    """The fewest turned answers that change the outcome; outcomes are monotone, so halving finds them."""

    def after(answers: int) -> Outcome:
        return judge(turned(strata, answers, source=source, target=target))

    if after(most) is now:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if after(middle) is now else (low, middle)
    return Change(answers=high, outcome=after(high))


def _lost_borne(judge: Judge, strata: Strata, now: Outcome) -> int | None:
    """Lost are the answers that tell most: wrong ones of a FAIL, right ones of a PASS."""
    if now is Outcome.FAIL:
        change = _first_change(judge, strata, now, sum(strata.wrong), "wrong", "lost")
    elif now is Outcome.PASS:
        change = _first_change(judge, strata, now, sum(strata.right), "right", "lost")
    else:
        return None
    return None if change is None else change.answers - 1


def _fails_by_p_value(again: Retrial) -> float | None:
    """The p-value with every lost answer right: at most alpha is a FAIL.

    None where more than alpha decides: a floor beside it, truncated or unasked answers, no answer pattern that could
    FAIL at all, a lock, which has one alpha, or the margin of totals, which is one binomial deviation at least; and
    over one half.
    """
    trial = again.trial
    is_plain = not trial.counts.truncated and not trial.counts.unasked and trial.gate.floor is None
    is_locked = trial.rule.method == Method.LOCKED.value
    if not is_plain or is_locked or not trial.criterion.enough.can_fail or _is_within_margin(trial):
        return None
    p = trial.p_value(open_=True)
    return p if p is not None and p < 0.5 else None


def _is_within_margin(trial: Trial) -> bool:
    """Whether the totals lie closer to their mean than they ever need to, or are themselves widened to that."""
    if trial.rule.method != Method.MODERATED_T.value:
        return False
    mean, n = (trial.rule.reference_accuracy or 0.0) * trial.rule.n, trial.rule.n
    best = trial.counts.correct + trial.counts.lost
    is_near = mean - best - 1 < sqrt(binomial_variance(mean, n))
    return is_near or any(note.startswith("equal totals") for note in trial.rule.notes)


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
