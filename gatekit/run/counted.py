"""Of which questions a server's own counts are: not always of those of the run."""

from __future__ import annotations

from dataclasses import replace

from gatekit.records.run import Served
from gatekit.records.served_details import EFFECTIVE, METRICS_OF
from gatekit.records.spec import EngineKind, Spec


def with_scope(server: Served | None, spec: Spec, *, is_resumed: bool) -> Served | None:
    """The server with what its metrics are of, where it told some and they are not those of the whole run.

    What the servers of earlier parts of a resumed run counted went with them.
    """
    if server is None or not any(EFFECTIVE + name in server.details for name in spec.engine.metrics or {}):
        return server
    if spec.engine.kind is EngineKind.ATTACH:
        scope = "all that this server answered since its start, to whomever"
    elif is_resumed:
        scope = "the last part of this run alone: its parts before had servers of their own"
    else:
        return server
    return replace(server, details={**server.details, METRICS_OF: scope})
