"""How long the first piece of streamed answers took."""

from __future__ import annotations

import math
from collections.abc import Iterable

from gatekit.records.answers import Observation

_SHARES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


def first_tokens(observations: Iterable[Observation]) -> dict[str, float | int] | None:
    """The number of streamed answers, and their times to the first piece in seconds at some ranks; None of no stream.

    A rank is the smallest time that so large a share of the answers did not exceed: always one that was measured.
    """
    times = sorted(seen.first_token_s for seen in observations if seen.first_token_s is not None)
    if not times:
        return None
    ranks = {name: times[max(math.ceil(share * len(times)), 1) - 1] for name, share in _SHARES.items()}
    return {"n": len(times), **ranks, "max": times[-1]}
