"""From the history of one series to its lock, and what is to be said of the one in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit import __version__
from gatekit.errors import ConfigError
from gatekit.gate.exchangeable import Exchangeable
from gatekit.gate.lock_change import WITH_REASON, compare
from gatekit.gate.locked import key_differences, predicted_by
from gatekit.gate.matrix_prior import Pooled, Spread, prior_from, spread_of
from gatekit.gate.prior import own_prior
from gatekit.gate.reasons import too_short
from gatekit.gate.recompute import derived_gate, lock_of_norm, norm_of
from gatekit.gate.rung import Shortage
from gatekit.gate.wording import short
from gatekit.history.intact import Indexed, check_records
from gatekit.records.lock import Lock, Prior
from gatekit.records.past import Past
from gatekit.records.run import Comparability
from gatekit.records.spec import Gate
from gatekit.report.thresholds import State, Threshold
from gatekit.spec.locks import NEWER, LockFile, look, render
from gatekit.stats.next_count import count_tail

_NAMED_FIELDS = 3
_UNWRITTEN = frozenset({State.CURRENT, State.RETIRED})
UNCONFIRMED = "no series of the history give the prior that makes it so loose"
_PRIOR_ALONE = "by its pooled prior alone, for which --check lets it stand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What a lock follows from: the norm of the series, and what sets the model's other series apart.

    `command` derives and writes it; `is_retired` says that its spec moved on. In the history `checked_in` the record
    files behind a lock that is to be written are looked at too.
    """

    spec: str
    gate: Gate
    hw: str
    key: Comparability
    history: Exchangeable
    changes: tuple[str, ...]
    path: Path
    command: str
    is_retired: bool = False
    checked_in: Indexed | None = None

    @property
    def n(self) -> int:
        """Questions of a run."""
        return int(self.key.fields["n"])


def series_of(
    spec: str,
    gate: Gate,
    hw: str,
    key: Comparability,
    past: Past,
    *,
    path: Path,
    command: str,
    checked_in: Indexed | None,
) -> Series:
    """The series of a spec from all that it holds."""
    return Series(
        spec=spec,
        gate=gate,
        hw=hw,
        key=key,
        history=norm_of(gate, hw, int(key.fields["n"]), past),
        changes=past.changes,
        path=path,
        command=command,
        checked_in=checked_in,
    )


def spread(series: Series) -> Spread | None:
    """What the series adds to the prior of its matrix; one that its spec has left adds as much."""
    return spread_of(series.history)


def derive(series: Series, pooled: Pooled, *, as_of: str | None, is_check: bool = False) -> Threshold:
    """The threshold of a series against the lock in its place.

    The prior is the pooled one, which depends on what else was selected. A check therefore first derives the lock
    under the prior that the lock in place names: one that is the same under it is current.
    Raises ConfigError for an impossible gate, InfraError where a record behind a lock to be written was changed.
    """
    there = look(series.path, series.spec, series.command)
    prior = prior_from(series.gate, pooled)
    named = _named_prior(series, there, prior)
    if is_check and named is not None:
        found = _derived(series, there, named, as_of=as_of)
        if found.state is State.CURRENT:
            return _confirmed(
                found, [_derived(series, there, one, as_of=as_of) for one in (prior, own_prior(series.gate))]
            )
    found = _derived(series, there, prior, as_of=as_of)
    if found.state is State.STALE and named is not None and not is_check:
        is_alone = _derived(series, there, named, as_of=as_of).state is State.CURRENT
        found = replace(found, remark=_PRIOR_ALONE) if is_alone else found
    if series.checked_in is not None and found.lock is not None and found.state not in _UNWRITTEN:
        check_records(series.checked_in, found.lock.used)
    return found


def _confirmed(found: Threshold, others: Sequence[Threshold]) -> Threshold:
    """A current lock; stale where it is looser by more than a standard deviation than what the pooled series and the
    gate alone give: a prior may name any numbers, and these nothing confirms."""
    assert found.lock is not None
    reached = [one.lock.k_reject - one.lock.sd for one in others if one.lock is not None]
    if not reached or found.lock.k_reject >= min(reached):
        return found
    return replace(found, state=State.STALE, remark=UNCONFIRMED)


def _named_prior(series: Series, there: LockFile, pooled: Prior) -> Prior | None:
    """The prior that the lock in place of the same series names; None where it is the pooled one anyway."""
    if series.is_retired or there.lock is None or there.flaw is not None or there.lock.key != series.key.key:
        return None
    named = there.lock.prior if there.lock.prior.series else own_prior(series.gate)
    return None if named == pooled else named


def _derived(series: Series, there: LockFile, prior: Prior, *, as_of: str | None) -> Threshold:
    lock = lock_of_norm(
        series.gate,
        series.hw,
        series.spec,
        series.key,
        series.n,
        series.history,
        prior,
        as_of=as_of,
        version=__version__,
    )
    found = Threshold(
        spec=series.spec,
        path=str(series.path),
        key=series.key.key,
        state=State.RETIRED,
        lock=None,
        excluded=dict(series.history.excluded),
        changes=series.changes,
        command=series.command,
        has_runs=bool(series.history.runs or series.history.excluded or series.changes),
    )
    if isinstance(lock, Shortage):
        shortage = too_short(replace(lock, excluded={}), derived_gate(series.gate)).text
        found = replace(found, shortage=shortage, excluded=dict(lock.excluded))
    else:
        _refuse_vacuous(lock)
        found = _with_lock(found, lock)
    return found if series.is_retired else _judged(found, there, series.key)


def _refuse_vacuous(lock: Lock) -> None:
    if lock.k_reject < 1:
        what = f"{lock.spec}: no lock is made, as no run could FAIL by a norm of {lock.mean:.1f} right of {lock.n}"
        hint = "`gatekit history quarantine RUN --reason ...` sets a broken run aside; more builds narrow the norm"
        raise ConfigError.one(what, reason="lock-never-fails", hint=hint)


def difference(old: Lock, key: Comparability) -> str:
    """The fields in which the series of a lock differs from this key, with both values."""
    differences = key_differences(old.fields, key)
    said = [f"{one.field}: {short(one.locked)} -> {short(one.now)}" for one in differences[:_NAMED_FIELDS]]
    more = len(differences) - len(said)
    return ", ".join(said + ([f"{more} more"] if more else []))


def carried(old: Lock | None, new: Lock) -> Lock:
    """The new lock with the reason of the old one for being loose, where its counts are the same."""
    if old is None or (old.key, old.k_reject, old.k_accept) != (new.key, new.k_reject, new.k_accept):
        return new
    return replace(new, looser_because=old.looser_because)


def needs_reason(there: LockFile, lock: Lock) -> bool:
    """Whether a reason must be given for `lock` in the place of what stands there: it is looser than that, or that
    does not verify, so that nobody can say."""
    if there.flaw is not None:
        return there.flaw.reason != NEWER
    return there.lock is not None and compare(there.lock, lock).needs_reason


def is_same(old: Lock, new: Lock) -> bool:
    """Whether a lock still says what history says; that another gatekit derived it is no difference."""
    if old.gatekit_version != new.gatekit_version:
        old = replace(old, gatekit_version=new.gatekit_version, inputs=new.inputs)
    return not compare(old, new).changed


def _with_lock(found: Threshold, lock: Lock) -> Threshold:
    realised = count_tail(predicted_by(lock), lock.k_reject - 1)
    return replace(found, lock=lock, realised_alpha=realised, excluded=dict(lock.excluded))


def _judged(found: Threshold, there: LockFile, key: Comparability) -> Threshold:
    """The threshold with what is to be said of the lock that stands in its place."""
    state, remark = _state(found, there, key)
    found = replace(found, state=state, remark=remark, old=there.lock)
    if found.lock is None:
        return found
    lock = carried(None if there.flaw is not None else there.lock, found.lock)
    if state is State.CURRENT:
        return replace(found, lock=lock)
    old_text = "" if there.lock is None else render(there.lock)
    if needs_reason(there, lock):
        found = replace(found, is_loosened=True, command=f"{found.command} {WITH_REASON}")
    return replace(found, lock=lock, old_text=old_text, new_text=render(lock))


def _state(found: Threshold, there: LockFile, key: Comparability) -> tuple[State, str]:
    if there.flaw is not None:
        return State.BROKEN, f"{there.flaw.where}: {there.flaw.what}"
    if there.lock is None:
        return (State.SHORT, "") if found.lock is None else (State.MISSING, "")
    if there.lock.key != found.key:
        return State.OTHER_KEY, difference(there.lock, key)
    if found.lock is None:
        return State.SHORT_WITH_LOCK, ""
    return (State.CURRENT if is_same(there.lock, found.lock) else State.STALE), ""
