"""What the control chart says of stored series, in a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gatekit.errors import ConfigError
from gatekit.gate.drift import Baseline, baseline, drift
from gatekit.gate.exchangeable import exchangeable
from gatekit.history.past import StoredSeries, all_series
from gatekit.history.place import Place
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Gate

_TOO_FEW = 2  # two runs are no trend, whatever is predicted from the first


def series_drift(place: Place, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """For each comparability key, charted by the gate of the spec it maps to, the sentence; none where it is too
    early to tell, or no gate is on record.

    The norm is that of the series' own history as it was when its newest run was judged, so that the figure is the
    one which that run's verdict has. Raises InfraError when the index cannot be read.
    """
    found: dict[str, str] = {}
    left = dict(wanted)
    for stored in all_series(place) if left else ():
        if left.get(stored.key.key) == stored.spec_name:
            del left[stored.key.key]
            text = _sentence(stored)
            if text is not None:
                found[stored.key.key] = text
        if not left:
            break
    return found


def _norm(gate: Gate, n: int, stored: StoredSeries) -> Baseline | None:
    """The newest run is charted against the norm before it: it may be of the norm of the next run, not of its own.

    Which build it ran is no part of a verdict, so that here it is charted without one too; its answers tell whether
    it is a repeat. A total has no verdict, and is told apart by its build alone.
    """
    *before, last = stored.past.runs or (None,)
    if last is None or last.run_id != stored.newest.run_id:
        return baseline(gate, n, exchangeable(gate, stored.hardware, n, stored.past))
    found = baseline(gate, n, exchangeable(gate, stored.hardware, n, replace(stored.past, runs=tuple(before))))
    judged = last if last.outcomes is None else replace(last, build=None)
    return None if found is None else replace(found, later=(*found.later, judged))


def _sentence(stored: StoredSeries) -> str | None:
    n = stored.newest.n
    try:
        gate = None if stored.gate is None else from_plain(Gate, stored.gate)
        norm = None if gate is None else _norm(gate, n, stored)
    except (ConfigError, TypeError, ValueError):  # a gate that this version cannot use
        return None
    if norm is None:
        return None
    chart = drift(norm)
    is_early = len(chart.points) <= _TOO_FEW and not chart.is_in_alarm
    if is_early or all(point.p is None for point in chart.points):
        return None
    if chart.cusum_alarm is None:
        return chart.text
    first = chart.points[chart.cusum_alarm]
    over = f"over the limit with run {first.run_id} ({first.finished_at[:10]})"
    return f"{chart.text}; first {over}" if chart.is_in_alarm else f"{chart.text}, but it was {over}"
