"""Whether the weights are those of the earlier runs: a key names them, and only a started server has loaded them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from gatekit.errors import ConfigError, InfraError
from gatekit.history.place import Place
from gatekit.history.records_folder import read_record, record_path
from gatekit.records.past import Past
from gatekit.records.run import RunRecord, Served
from gatekit.records.served_details import changed_weights, tells_weights

_LOOKED_AT = 3
_NAMED = 3


def weights_notes(served: Served | None, past: Past, place: Place) -> Iterator[str]:
    """The warning for weights that are not those of the last comparable run, or of the first: the norm begins there.

    Of each end of the series a few records are read, the first that tells its weights counts. Records that are on
    another machine tell nothing.
    """
    if served is None or not tells_weights(served):
        return
    ids = [run.run_id for run in past.runs]
    last, first = _telling(place, ids[::-1]), _telling(place, ids)
    for run in (last, first) if last is not None and first is not None and first.run_id != last.run_id else (last,):
        changed = () if run is None else changed_weights(run.served, served)
        if run is not None and changed:
            named = ", ".join(changed[:_NAMED]) + (", ..." if len(changed) > _NAMED else "")
            what = "what differs from it is a treatment, not noise" if run is last else "the norm rests on others"
            yield f"the weights changed since run {run.run_id} ({named}): {what}"


def _telling(place: Place, run_ids: list[str]) -> RunRecord | None:
    """The first of these runs that says which weights it had, of those whose records are here."""
    for run_id in run_ids[:_LOOKED_AT]:
        with suppress(ConfigError, InfraError, OSError):
            found = read_record(record_path(place.dir, run_id))
            if found.served is not None and tells_weights(found.served):
                return found
    return None
