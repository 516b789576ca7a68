"""What the control chart says of stored series, in a sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from gatekit.errors import ConfigError
from gatekit.gate.drift import baseline, drift
from gatekit.gate.exchangeable import exchangeable
from gatekit.history.past import StoredSeries, all_series
from gatekit.history.place import Place
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Gate


def series_drift(place: Place, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """For each comparability key, charted by the gate of the spec it maps to, the sentence; none where it is too
    early to tell, or no gate is on record.

    The norm is that of the series' own history. Raises InfraError when the index cannot be read.
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


def _sentence(stored: StoredSeries) -> str | None:
    n = stored.newest.n
    try:
        gate = None if stored.gate is None else from_plain(Gate, stored.gate)
        norm = None if gate is None else baseline(gate, n, exchangeable(gate, stored.hardware, n, stored.past))
    except (ConfigError, TypeError, ValueError):  # a gate that this version cannot use
        return None
    if norm is None:
        return None
    chart = drift(norm)
    if all(point.p is None for point in chart.points):
        return None
    if chart.cusum_alarm is None:
        return chart.text
    first = chart.points[chart.cusum_alarm]
    over = f"over the limit with run {first.run_id} ({first.finished_at[:10]})"
    return f"{chart.text}; first {over}" if chart.is_in_alarm else f"{chart.text}, but it was {over}"
