"""From the history of one series to its lock, and what is to be said of the one in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit import __version__
from gatekit.gate.exchangeable import exchangeable
from gatekit.gate.lock_change import compare
from gatekit.gate.locked import key_differences, predicted_by
from gatekit.gate.matrix_prior import Pooled, Spread, prior_from, spread_of
from gatekit.gate.reasons import too_short
from gatekit.gate.recompute import derived_gate, recompute
from gatekit.gate.rung import Shortage
from gatekit.gate.wording import short
from gatekit.records.lock import Lock, Prior
from gatekit.records.past import Past, PastRun
from gatekit.records.run import Comparability
from gatekit.records.spec import Gate
from gatekit.report.thresholds import State, Threshold
from gatekit.spec.locks import LockFile, look, render
from gatekit.stats.next_count import count_tail

_NAMED_FIELDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What a lock follows from. `command` derives and writes it; `is_retired` says that its spec moved on."""

    spec: str
    gate: Gate
    hw: str
    key: Comparability
    past: Past
    path: Path
    command: str
    is_retired: bool = False

    @property
    def n(self) -> int:
        """Questions of a run."""
        return int(self.key.fields["n"])


def spread(series: Series) -> Spread | None:
    """What the series adds to the prior of its matrix; one that its spec has left adds as much."""
    return spread_of(exchangeable(derived_gate(series.gate), series.hw, series.n, series.past))


def derive(series: Series, pooled: Pooled, *, as_of: str | None) -> Threshold:
    """The threshold of a series against the lock in its place. Raises ConfigError for an impossible gate."""
    there = look(series.path, series.spec, series.command)
    prior = prior_from(series.gate, pooled)
    lock = _recomputed(series, series.past, prior, as_of)
    if isinstance(lock, Lock) and there.lock is not None and not is_same(there.lock, lock):
        unrepeated = _recomputed(series, _without_repeats(series.past, there.lock.used), prior, as_of)
        if isinstance(unrepeated, Lock) and is_same(there.lock, unrepeated):
            lock = replace(unrepeated, excluded=lock.excluded)
    found = Threshold(
        spec=series.spec,
        path=str(series.path),
        key=series.key.key,
        state=State.RETIRED,
        lock=None,
        excluded=dict(series.past.excluded),
        changes=series.past.changes,
        command=series.command,
    )
    if isinstance(lock, Shortage):
        shortage = too_short(replace(lock, excluded={}), derived_gate(series.gate)).text
        found = replace(found, shortage=shortage, excluded=dict(lock.excluded))
    else:
        found = _with_lock(found, lock)
    return found if series.is_retired else _judged(found, there, series.key)


def carried(old: Lock | None, new: Lock) -> Lock:
    """The new lock with the reason of the old one for being loose, where its counts are the same."""
    if old is None or (old.key, old.k_reject, old.k_accept) != (new.key, new.k_reject, new.k_accept):
        return new
    return replace(new, looser_because=old.looser_because)


def is_same(old: Lock, new: Lock) -> bool:
    """Whether a lock still says what history says; that another gatekit derived it is no difference."""
    if old.gatekit_version != new.gatekit_version:
        old = replace(old, gatekit_version=new.gatekit_version, inputs=new.inputs)
    return not compare(old, new).changed


def _recomputed(series: Series, past: Past, prior: Prior, as_of: str | None) -> Lock | Shortage:
    return recompute(
        series.gate, series.hw, series.spec, series.key, series.n, past, prior, as_of=as_of, version=__version__
    )


def _without_repeats(past: Past, used: Sequence[str]) -> Past:
    """The history without runs that only repeat, build and answers, one that the lock rests on.

    The newest run of a build speaks for it, so that a repeat would else put another name for the same numbers.
    """
    rests = {_told(run) for run in past.runs if run.run_id in used}
    return replace(past, runs=tuple(run for run in past.runs if run.run_id in used or _told(run) not in rests))


def _told(run: PastRun) -> tuple[str | None, str, int, int, bytes | None]:
    return run.build, run.hardware, run.n, run.correct, run.outcomes


def _with_lock(found: Threshold, lock: Lock) -> Threshold:
    realised = count_tail(predicted_by(lock), lock.k_reject - 1)
    return replace(found, lock=lock, realised_alpha=realised, excluded=dict(lock.excluded))


def _judged(found: Threshold, there: LockFile, key: Comparability) -> Threshold:
    """The threshold with what is to be said of the lock that stands in its place."""
    state, remark = _state(found, there, key)
    found = replace(found, state=state, remark=remark, old=there.lock)
    if found.lock is None:
        return found
    lock = carried(there.lock, found.lock)
    if state is State.CURRENT:
        return replace(found, lock=lock)
    old_text = "" if there.lock is None else render(there.lock)
    return replace(found, lock=lock, old_text=old_text, new_text=render(lock))


def _state(found: Threshold, there: LockFile, key: Comparability) -> tuple[State, str]:
    if there.flaw is not None:
        return State.BROKEN, f"{there.flaw.where}: {there.flaw.what}"
    if there.lock is None:
        return (State.SHORT, "") if found.lock is None else (State.MISSING, "")
    if there.lock.key != found.key:
        return State.OTHER_KEY, _difference(there.lock, key)
    if found.lock is None:
        return State.SHORT_WITH_LOCK, ""
    return (State.CURRENT if is_same(there.lock, found.lock) else State.STALE), ""


def _difference(old: Lock, key: Comparability) -> str:
    differences = key_differences(old.fields, key)
    said = [f"{one.field}: {short(one.locked)} -> {short(one.now)}" for one in differences[:_NAMED_FIELDS]]
    more = len(differences) - len(said)
    return ", ".join(said + ([f"{more} more"] if more else []))
