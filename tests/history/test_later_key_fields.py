"""Fields that keys have only where they say something, in records that nobody vouches for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gatekit.gate.comparability import comparability
from gatekit.history.record_form import record_contradiction


def test_a_record_cannot_hide_a_later_field(make_record: Callable[..., Any]) -> None:
    """A record whose key leaves out what its spec says, or says what its spec leaves out, contradicts itself."""
    record = make_record()
    real = comparability(record.spec, record.dataset, "1")
    assert record_contradiction(replace(record, comparability=real)) is None
    streams = replace(record.spec, protocol=replace(record.spec.protocol, stream=True))
    told = comparability(streams, record.dataset, "1")
    for spec, key in ((streams, real), (record.spec, told)):
        why = record_contradiction(replace(record, spec=spec, comparability=key))
        assert why == "comparability.fields.protocol.stream is not what its spec and questions give"
