"""What the control chart says of stored series, in a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gatekit.errors import ConfigError
from gatekit.gate.drift import Baseline, Drift, baseline, drift
from gatekit.gate.exchangeable import exchangeable
from gatekit.gate.retrial import is_lock_of
from gatekit.history.past import StoredSeries, all_series, past_run
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path
from gatekit.history.stored_rule import read_rule
from gatekit.records.canonical import from_plain
from gatekit.records.lock import Lock
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Outcome

LockOf = Callable[[Gate, str], Lock | None]
"""The lock at hand for a gate and the name of its spec."""

_TOO_FEW = 2  # two runs are no trend, whatever is predicted from the first


def series_drift(place: Place, wanted: Mapping[str, str], lock_of: LockOf) -> Mapping[str, str]:
    """For each comparability key, charted by the gate of the spec it maps to, the sentence; none where it is too
    early to tell, or no gate is on record.

    The norm is that of the series' own history as it was when its newest run was judged, or the lock where one
    decides, so that the figure is the one which that run's verdict has. Raises InfraError when the index cannot be
    read.
    """
    found: dict[str, str] = {}
    left = dict(wanted)
    for stored in all_series(place) if left else ():
        if left.get(stored.key.key) == stored.spec_name:
            del left[stored.key.key]
            text = _sentence(place, stored, lock_of)
            if text is not None:
                found[stored.key.key] = text
        if not left:
            break
    return found


def _sentence(place: Place, stored: StoredSeries, lock_of: LockOf) -> str | None:
    try:
        gate = None if stored.gate is None else from_plain(Gate, stored.gate)
        lock = None
        if gate is not None and gate.method is Method.LOCKED:
            lock = _lock(place, stored, gate, lock_of(gate, stored.spec_name))
            if lock is None:
                return f"no chart of drift: the lock that decided run {stored.newest.run_id} is not at hand"
        norm = None if gate is None else _norm(gate, stored, lock)
    except (ConfigError, TypeError, ValueError):  # a gate that this version cannot use
        return None
    return None if norm is None else _said(stored, drift(norm))


def _lock(place: Place, stored: StoredSeries, gate: Gate, lock: Lock | None) -> Lock | None:
    """The lock at hand, if it is of this series and not another than its newest run was decided by."""
    if lock is None or (lock.key, lock.n) != (stored.key.key, stored.newest.n):
        return None
    rule = read_rule(record_path(place.dir, stored.newest.run_id))
    return lock if rule is None or is_lock_of(lock, gate, rule) else None


def _norm(gate: Gate, stored: StoredSeries, lock: Lock | None) -> Baseline | None:
    """The newest run is charted against the norm before it: it may be of the norm of the next run, not of its own.

    Which build it ran is no part of a verdict, so that here it is charted without one too; its answers tell whether
    it is a repeat. A total has no verdict, and is told apart by its build alone.
    """
    n, last = stored.newest.n, _judged(stored)
    before = tuple(run for run in stored.past.runs if last is None or run.run_id != last.run_id)
    history = exchangeable(gate, stored.hardware, n, replace(stored.past, runs=before))
    found = baseline(gate, n, history, lock)
    if found is None or last is None:
        return found
    judged = last if last.outcomes is None else replace(last, build=None)
    return replace(found, later=(*found.later, judged))


def _judged(stored: StoredSeries) -> PastRun | None:
    """The newest run if its count is an accuracy: one that is healthy, or a whole one that failed."""
    row = stored.newest
    if stored.past.runs and stored.past.runs[-1].run_id == row.run_id:
        return stored.past.runs[-1]
    return past_run(row) if _is_fail(stored) and row.measured else None


def _is_fail(stored: StoredSeries) -> bool:
    """Whether the newest run is a FAIL that nobody has set aside since; it is of no norm, and still of the series."""
    return stored.past.left_out.get(stored.newest.run_id) == Outcome.FAIL.value


def _said(stored: StoredSeries, chart: Drift) -> str | None:
    is_fail = _is_fail(stored)
    is_early = len(chart.points) <= _TOO_FEW and not chart.is_in_alarm
    if is_early or all(point.p is None for point in chart.points):
        return None
    last = chart.points[-1]
    if is_fail and chart.is_in_alarm and chart.since == len(chart.points) - 1:
        alone = f"it alone brings the CUSUM to {last.cusum:.3g}, limit {chart.cusum_limit:.3g}"
        return f"no drift, but run {last.run_id} ({last.finished_at[:10]}), the newest, is a FAIL: {alone}"
    text = chart.text
    if chart.cusum_alarm is not None:
        first = chart.points[chart.cusum_alarm]
        over = f"over the limit with run {first.run_id} ({first.finished_at[:10]})"
        text = f"{text}; first {over}" if chart.is_in_alarm else f"{text}, but it was {over}"
    if not is_fail:
        return text
    aside = "" if stored.newest.measured else ", and not on this chart: it stopped early or lost answers"
    return f"{text}; run {stored.newest.run_id}, the newest, is a FAIL{aside}"
