"""A recorded run before its criterion again: the one that the runs it rests on give today."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gatekit.gate.criterion import Criterion, binding_gate, criterion_of, historical
from gatekit.gate.decide import outcome_of
from gatekit.gate.drop_test import CountTest
from gatekit.gate.enough import Enough
from gatekit.gate.exchangeable import Exchangeable
from gatekit.gate.locked import from_lock
from gatekit.gate.rule import binding_floor
from gatekit.gate.rung import PER_QUESTION, Rung
from gatekit.gate.split import SHARE, as_decided
from gatekit.gate.strata import Strata, sorter, unsorted
from gatekit.gate.trial import Trial
from gatekit.records.answers import Status, statuses
from gatekit.records.lock import Lock
from gatekit.records.past import Past, PastRun
from gatekit.records.run import RunRecord
from gatekit.records.spec import Gate, Method, Observed
from gatekit.records.verdict import Outcome, Rule

_MOST_NAMED = 5
_NEEDS_LOCK = frozenset({"too-small", "gate-cannot-decide"})  # what the lock predicts decides, not its counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrial:
    """The run as it stands today: its trial, the runs behind the criterion, and the lock of a locked gate if known."""

    trial: Trial
    runs: tuple[PastRun, ...] = ()
    lock: Lock | None = None

    def outcome(self, strata: Strata | None = None) -> Outcome:
        """The outcome of the run, or of other answers before the same criterion."""
        if strata is None:
            return outcome_of(self.trial)[0]
        return outcome_of(replace(self.trial, strata=strata, counts=strata.counts))[0]


def retrial(record: RunRecord, rule: Rule, past: Past | None) -> Retrial | str:
    """The run before its criterion, of a rule on history; or a sentence that says what is missing for it.

    `past` holds the runs named in `rule.used`, and the lock of a locked gate.
    """
    gate = as_decided(record.spec.gate, rule)
    if rule.method == Method.LOCKED.value:
        return _by_lock(record, rule, None if past is None else past.lock)
    is_stated = rule.method == Method.BETA_BINOMIAL_PREDICTIVE.value and gate.observed is not None
    runs = _used(rule, past, is_baseline_stated=is_stated)
    if isinstance(runs, str):
        return runs
    rung = Rung(method=Method(rule.method), why=rule.why, runs=runs, excluded=rule.excluded)
    needs_answers = rung.method in PER_QUESTION
    if needs_answers and any(run.outcomes is None for run in runs):
        return f"not computed anew: {_listed([run.run_id for run in runs if run.outcomes is None])} has no answers"
    if needs_answers and not record.observations:
        return "not computed anew: the record holds no answers"
    found = historical(gate, rule.n, rung)
    return Retrial(trial=_trial(record, gate, found), runs=runs)


def past_run(record: RunRecord) -> PastRun:
    """A record as an earlier run; without answers where only its total is known."""
    ended = statuses(record.observations, record.dataset.question_ids)
    return PastRun(
        run_id=record.run_id,
        build=record.served.build if record.served else None,
        hardware=record.spec.hw.name,
        finished_at=record.finished_at,
        n=record.counts.n,
        correct=record.counts.correct,
        outcomes=bytes(status is Status.CORRECT for status in ended) if record.observations else None,
    )


def is_lock_of(lock: Lock, gate: Gate, rule: Rule) -> bool:
    """Whether a rule says that it comes from this very lock."""
    return from_lock(gate, lock, Exchangeable(runs=(), excluded={})).rule.why == rule.why


def is_of_series(lock: Lock, record: RunRecord) -> bool:
    """Whether a lock holds for the series of a run."""
    return (lock.key, lock.n) == (record.comparability.key, record.counts.n)


def by_lock(record: RunRecord, rule: Rule, lock: Lock) -> Retrial:
    """The run before the counts of a lock of its series, the one that decided or another."""
    gate = as_decided(binding_gate(record.spec, rule.n), rule)
    share = 1.0 if rule.early is None else SHARE
    found = from_lock(gate, lock, Exchangeable(runs=(), excluded={}), share=share)
    criterion = criterion_of(replace(gate, alpha=share * lock.alpha), rule.n, found, (), is_typed=False)
    return Retrial(trial=_trial(record, gate, criterion), lock=lock)


def _by_lock(record: RunRecord, rule: Rule, lock: Lock | None) -> Retrial | str:
    gate = as_decided(binding_gate(record.spec, rule.n), rule)
    if lock is not None and lock.n == rule.n and is_lock_of(lock, gate, rule):
        return by_lock(record, rule, lock)
    if record.verdict.reason_code in _NEEDS_LOCK:
        return "not computed anew: it takes the lock that decided"
    return Retrial(trial=_trial(record, gate, _stored(gate, rule)))


def _stored(gate: Gate, rule: Rule) -> Criterion:
    """The counts of a lock that is no longer at hand, as the record holds them."""
    right = round((rule.reference_accuracy or 0.0) * rule.n)
    observed = Observed(correct=right, n=rule.n)
    return Criterion(
        rule=rule,
        test=CountTest(k_reject=rule.k_reject),
        enough=Enough(can_pass=True, can_fail=True),
        floor=binding_floor(gate, rule.n),
        alone=rule.k_reject,
        planning=replace(gate, method=Method.EXACT_BINOMIAL, floor=None, observed=observed, alpha=rule.alpha),
        is_typed=False,
    )


def _used(rule: Rule, past: Past | None, *, is_baseline_stated: bool) -> tuple[PastRun, ...] | str:
    """The runs of the rule, in its order."""
    if not rule.used and not is_baseline_stated:
        return "not computed anew: the record names no run that it rests on"
    known = {run.run_id: run for run in (past.runs if past else ()) if run.n == rule.n}
    missing = [name for name in rule.used if name not in known]
    if not missing:
        return tuple(known[name] for name in rule.used)
    what = (
        "a run it rests on is" if len(missing) == 1 else f"{len(missing)} of the {len(rule.used)} runs it rests on are"
    )
    return f"not computed anew: {what} not at hand: {_listed(missing)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _trial(record: RunRecord, gate: Gate, found: Criterion) -> Trial:
    strata = _sorted(record, found) if record.observations else unsorted(record.counts)
    repeats = record.spec.protocol.repeats
    return Trial(gate=gate, counts=record.counts, strata=strata, criterion=found, repeats=repeats)


def _sorted(record: RunRecord, found: Criterion) -> Strata:
    return sorter(found.before, len(found.runs))(statuses(record.observations, record.dataset.question_ids))
