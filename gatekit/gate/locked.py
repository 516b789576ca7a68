"""The rule of a locked gate: counts that were derived before, reviewed, and hold for one series only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import inf, sqrt

from gatekit.gate.drop_test import CountTest
from gatekit.gate.exchangeable import Exchangeable
from gatekit.gate.from_history import FromHistory, healthy_accuracy
from gatekit.gate.rule import POWER, binding_floor, floor_notes, zone_notes
from gatekit.gate.wording import short
from gatekit.records.canonical import Plain
from gatekit.records.lock import Lock
from gatekit.records.past import QUARANTINED, SUPERSEDED, Past
from gatekit.records.run import Comparability
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Rule
from gatekit.stats.exact import exact
from gatekit.stats.next_count import NextCount, accept_from, binomial_variance, count_tail, noticed_loss, reject_below
from gatekit.stats.predictive import predicted_counts


class Fault(StrEnum):
    """Why a locked gate has no threshold for this run: there is no lock, it is that of another measurement, or it
    rests on a run that was set aside since."""

    NO_LOCK = "no-lock"
    OTHER_KEY = "lock-other-key"
    OTHER_N = "lock-other-n"
    SET_ASIDE = "lock-run-set-aside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field of the comparability key: its value under the lock and now; None where it has none."""

    field: str
    locked: Plain
    now: Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFault:
    """A locked gate without a lock that holds: what is wrong, and the figures that show it."""

    fault: Fault
    lock: Lock | None
    n: int
    differences: tuple[Difference, ...] = ()
    set_aside: Mapping[str, str] = field(default_factory=dict)


def usable_lock(n: int, past: Past) -> Lock | LockFault:
    """The lock of `past` if it holds for its key and n questions. A key that is not known is another one.

    Nor does it hold where a run that it rests on was quarantined or superseded since: its numbers are then those of a
    measurement that somebody has called none. A rebaseline leaves a lock as it is until it is recomputed.
    """
    lock = past.lock
    if lock is None:
        return LockFault(fault=Fault.NO_LOCK, lock=None, n=n)
    if lock.n != n:
        return LockFault(fault=Fault.OTHER_N, lock=lock, n=n)
    if past.key is None or past.key.key != lock.key:
        found = key_differences(lock.fields, past.key)
        return LockFault(fault=Fault.OTHER_KEY, lock=lock, n=n, differences=found)
    why = {run_id: past.left_out.get(run_id) for run_id in lock.used}
    set_aside = {run_id: reason for run_id, reason in why.items() if reason in (QUARANTINED, SUPERSEDED)}
    if set_aside:
        return LockFault(fault=Fault.SET_ASIDE, lock=lock, n=n, set_aside=set_aside)
    return lock


def untold_notes(lock: Lock, past: Past) -> tuple[str, ...]:
    """What to know of a lock of whose runs this history cannot tell whether they still count."""
    if not lock.used:
        return ("the lock names no run that it rests on: whether one was set aside since cannot be told",)
    known = {run.run_id for run in past.runs} | past.left_out.keys()
    unknown = sum(run_id not in known for run_id in lock.used)
    if not unknown:
        return ()
    some = f"{unknown} of the {len(lock.used)} runs" if len(lock.used) > 1 else "1 run"
    return (f"{some} behind the lock: not in this history, so that whether one was set aside since cannot be told",)


def key_differences(locked: Mapping[str, Plain], key: Comparability | None) -> tuple[Difference, ...]:
    """The fields that differ, by name; none where the key is not known."""
    if key is None:
        return ()
    names = sorted(name for name in locked.keys() | key.fields.keys() if locked.get(name) != key.fields.get(name))
    return tuple(Difference(field=name, locked=locked.get(name), now=key.fields.get(name)) for name in names)


def from_lock(gate: Gate, lock: Lock, history: Exchangeable, *, share: float = 1.0) -> FromHistory:
    """The rule of a lock: FAIL below its k_reject, or below gate.floor, which binds beside it.

    The p-value of a count is that of the next count which the lock predicts, by the tail of the rule that it was
    derived by: Student's t, about normal, or of one earlier total the beta-binomial one. Beside a sequential test the
    lock has a `share` of its alpha: its k_reject is then that of the prediction, its k_accept what excludes
    gate.delta by it, and neither is looser in the direction of the other error than it was derived.
    """
    predicted = predicted_by(lock)
    n, mean, alpha = lock.n, exact(lock.mean), share * lock.alpha
    alone, k_accept = lock.k_reject, lock.k_accept
    if share < 1:
        alone = min(alone, reject_below(predicted, alpha))
        if gate.delta is not None:
            k_accept = max(k_accept or 0, accept_from(predicted, n * exact(gate.delta), gate.beta))
    k_reject = max(alone, binding_floor(gate, n))
    loss = noticed_loss(predicted, k_reject, POWER)
    rule = Rule(
        method=Method.LOCKED.value,
        n=n,
        k_reject=k_reject,
        k_accept=k_accept,
        reference_accuracy=lock.mean / n,
        alpha=alpha,
        realised_alpha=count_tail(predicted, k_reject - 1),
        sigmas=float(mean - k_reject) / sqrt(binomial_variance(mean, n)),
        noticed_drop=None if loss is None else loss / n,
        power=POWER,
        notes=(*zone_notes(k_reject, k_accept), *floor_notes(gate, n), *history.notes),
        why=f"the lock of {lock.spec} ({lock.method}; {lock.why}), inputs {short(lock.inputs)}",
        used=lock.used,
        excluded=lock.excluded,
        phi=lock.phi,
        df=lock.df,
        psi=lock.psi,
    )
    test = CountTest(k_reject=alone, tail=lambda count: count_tail(predicted, count))
    guarded = healthy_accuracy(Fraction(mean), n)
    return FromHistory(rule=rule, test=test, predicted=predicted, guarded=guarded, alone=alone)


def predicted_by(lock: Lock) -> NextCount:
    """The next count as the lock predicts it, with the tail that the rule behind the lock has.

    The mean of a rule on one earlier total is that total, of as many questions: no more is needed to predict from it.
    """
    counts = None
    if lock.method == Method.BETA_BINOMIAL_PREDICTIVE.value:
        counts = predicted_counts(lock.mean, lock.n, lock.n)
    return NextCount(mean=lock.mean, sd=lock.sd, df=inf if lock.df is None else lock.df, counts=counts)
