"""Which fault, if any, strikes a request to the bundled answer server."""

from __future__ import annotations

from enum import StrEnum

from gatekit.engine.chance import uniform
from gatekit.records.spec import Faults


class Fault(StrEnum):
    """What can go wrong with one request, in order of precedence."""

    HTTP_500 = "http_500"
    DROP = "drop"
    HANG = "hang"
    TRUNCATE = "truncate"
    EMPTY = "empty"
    MALFORMED = "malformed"


_STICKS_TO_THE_QUESTION = frozenset({Fault.HANG, Fault.TRUNCATE, Fault.EMPTY})


def draw(faults: Faults, *, seed: int, text: str, attempt: int) -> Fault | None:
    """The fault of this attempt at this question; hang, truncate and empty strike every attempt alike."""
    for fault in Fault:
        share: float = getattr(faults, fault.value)
        occasion = "every" if fault in _STICKS_TO_THE_QUESTION else attempt
        if share > 0 and uniform(seed, fault.value, text, occasion) < share:
            return fault
    return None
