"""What turns right answers into an outcome, ready to be asked: rule, test, floor, and what they can support."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gatekit.gate.drop_test import CountTest, DropTest, Right
from gatekit.gate.enough import Enough, can_fail, enough, margin
from gatekit.gate.exchangeable import Exchangeable
from gatekit.gate.from_history import FromHistory, from_history
from gatekit.gate.locked import LockFault, from_lock, untold_notes, usable_lock
from gatekit.gate.needs import check_reference
from gatekit.gate.rule import binding_floor, rule, thresholds
from gatekit.gate.rung import Rung, Shortage, choose
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Gate, Method, Observed, Spec
from gatekit.records.verdict import Outcome, Rule
from gatekit.stats.exact import exact
from gatekit.stats.next_count import NextCount, accept_from

_TYPED = (Method.STATIC_FLOOR, Method.EXACT_BINOMIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The rule with the test behind it and the runs that it rests on.

    `floor` is the count that gate.floor asks for beside it (0: none); `before` says of each question, in asking
    order, how many of the runs got it right, () where only counts matter; `planning` is a gate of a typed
    number that needs about as many questions; `alone` the count of the rule without that floor; `predicted` the
    next count, None for a typed number. `is_reference_missing`: a drop shall be excluded, and there is no healthy
    accuracy to take it from, so that nothing passes. `early_note` says what keeps a sequential test away.
    """

    rule: Rule
    test: DropTest
    enough: Enough
    floor: int
    alone: int
    planning: Gate
    predicted: NextCount | None = None
    is_reference_missing: bool = False
    early_note: str = ""
    runs: tuple[PastRun, ...] = ()
    before: tuple[int, ...] = ()
    is_typed: bool

    def outcome(self, right: Right) -> Outcome:
        """FAIL, INCONCLUSIVE or PASS; a right answer more never goes back in this order."""
        correct = sum(right)
        if self.is_drop(right):
            return Outcome.FAIL if self.enough.can_fail else Outcome.INCONCLUSIVE
        is_enough = correct >= (self.rule.k_accept or 0) and self.enough.can_pass
        return Outcome.PASS if is_enough and not self.is_reference_missing else Outcome.INCONCLUSIVE

    def is_drop(self, right: Right) -> bool:
        """Whether the test or the floor says so."""
        return self.is_below_floor(right) or self.test.is_drop(right)

    @property
    def floor_binds(self) -> bool:
        """Whether gate.floor asks for more than the rule beside it."""
        return self.floor > self.alone

    def is_below_floor(self, right: Right) -> bool:
        """Whether gate.floor says so."""
        return sum(right) < self.floor


def full_rate(gate: Gate, n: int, past: Past, history: Exchangeable) -> Criterion | Shortage | LockFault:
    """The criterion of a gate that has its error rates to itself, or what leaves it without one.

    That is too short a history, or no lock that holds; `history` are the runs of `past` that count. Raises
    ConfigError when the gate lacks what its method needs: as `gatekit.gate.rule.rule`, or `floor-delta-needs-observed`.
    """
    if gate.method is Method.LOCKED:
        return locked(gate, n, past, history)
    rung = choose(gate, history)
    if isinstance(rung, Shortage):
        return rung
    if rung.method in _TYPED:
        return _typed(gate, n, rung)
    return historical(gate, n, rung)


def locked(gate: Gate, n: int, past: Past, history: Exchangeable, *, share: float = 1.0) -> Criterion | LockFault:
    """That of a lock, at a share of its alpha. The runs of the history tell of churn only: it brings the counts."""
    lock = usable_lock(n, past)
    if isinstance(lock, LockFault):
        return lock
    found = from_lock(gate, lock, history, share=share)
    notes = (*found.rule.notes, *untold_notes(lock, past))
    found = replace(found, rule=replace(found.rule, notes=notes))
    return criterion_of(replace(gate, alpha=share * lock.alpha), n, found, history.runs, is_typed=False)


def _typed(asked: Gate, n: int, rung: Rung) -> Criterion:
    gate = replace(asked, method=rung.method)
    is_floor = gate.method is Method.STATIC_FLOOR
    is_reference_missing = is_floor and gate.delta is not None and gate.observed is None
    if is_reference_missing and asked.method is not Method.AUTO:
        check_reference(gate)
    alone = thresholds(gate if is_floor else replace(gate, floor=None), n).k_reject
    return Criterion(
        rule=replace(rule(gate, n), why=rung.why, excluded=rung.excluded),
        test=CountTest(k_reject=alone),
        enough=enough(gate, n),
        floor=0 if is_floor else binding_floor(gate, n),
        alone=alone,
        planning=gate,
        is_reference_missing=is_reference_missing,
        is_typed=True,
    )


def historical(gate: Gate, n: int, rung: Rung) -> Criterion:
    """The criterion of a rung with history, or of the beta-binomial one with a stated baseline."""
    return criterion_of(gate, n, from_history(gate, n, rung), rung.runs, is_typed=not rung.runs)


def criterion_of(gate: Gate, n: int, found: FromHistory, runs: tuple[PastRun, ...], *, is_typed: bool) -> Criterion:
    """The criterion of a rule from history or lock. `runs` are those behind it, `gate.alpha` plans further runs."""
    right = ceil(found.guarded * n) if found.guarded else 0
    return Criterion(
        rule=found.rule,
        test=found.test,
        enough=_enough(gate, n, found),
        floor=binding_floor(gate, n),
        alone=found.alone,
        predicted=found.predicted,
        planning=replace(gate, method=Method.EXACT_BINOMIAL, floor=None, observed=Observed(correct=right, n=n)),
        runs=runs,
        before=found.before,
        is_typed=is_typed or gate.floor is not None,
    )


def _enough(gate: Gate, n: int, found: FromHistory) -> Enough:
    """As `enough`, with the spread that the history shows instead of the binomial one."""
    none_right = [0] * (len(found.rule.used) + 1 if found.before else 1)
    fails = can_fail(n, found.guarded, 1) and (found.test.is_drop(none_right) or binding_floor(gate, n) > 0)
    needed = found.rule.k_accept
    if needed is None:
        needed = accept_from(found.predicted, n * exact(margin(gate)), gate.beta)
    return Enough(can_pass=fails and needed <= n, can_fail=fails)


def binding_gate(spec: Spec, n: int) -> Gate:
    """The gate of a spec as it binds a run of n questions.

    A lock holds for its own key, whatever a floor beside it was measured under: such a floor says nothing here, and
    leaves the verdict to the lock. Every other rule may fall back on what was typed, so that it keeps it.
    """
    is_void = spec.gate.method is Method.LOCKED and bool(mismatches(spec, n))
    return replace(spec.gate, floor=None, tolerance=0.0) if is_void else spec.gate


def is_mismatched(spec: Spec, n: int, found: Criterion) -> bool:
    """Whether the rule rests on a typed number that was measured under another protocol than this run's."""
    return found.is_typed and spec.gate.method is not Method.LOCKED and bool(mismatches(spec, n))


def mismatches(spec: Spec, n: int) -> tuple[str, ...]:
    """Where a run of n answers differs from `gate.measured_under`, which counts questions: field, there, here."""
    measured, protocol = spec.gate.measured_under, spec.protocol
    if measured is None:
        return ()
    pairs = (
        ("api", measured.api, protocol.api),
        ("shots", measured.shots, protocol.shots),
        ("max_tokens", measured.max_tokens, protocol.max_tokens),
        ("n", measured.n, n // protocol.repeats),
    )
    return tuple(f"{name}={was} (this run: {now})" for name, was, now in pairs if was is not None and was != now)
