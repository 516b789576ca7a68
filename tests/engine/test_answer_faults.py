"""The faults of the bundled server."""

from __future__ import annotations

import pytest

from gatekit.engine.faults import Fault, draw
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Faults

TEXTS = [f"question {i}" for i in range(2000)]


@pytest.mark.parametrize("fault", Fault)
def test_shares(fault: Fault) -> None:
    """A fault of share p strikes p of the first attempts, and nothing strikes without a share."""
    faults = from_plain(Faults, {fault.value: 0.1})
    struck = [draw(faults, seed=1, text=text, attempt=0) for text in TEXTS]
    assert set(struck) == {fault, None}
    assert sum(f is not None for f in struck) == pytest.approx(200, abs=45)
    assert all(draw(Faults(), seed=1, text=text, attempt=0) is None for text in TEXTS)


@pytest.mark.parametrize("fault", Fault)
def test_what_sticks_to_a_question(fault: Fault) -> None:
    """Hang, truncate and empty strike every attempt at a question alike; the others are drawn anew."""
    faults = from_plain(Faults, {fault.value: 0.3})
    first, second = ([draw(faults, seed=1, text=t, attempt=a) for t in TEXTS] for a in (0, 1))
    assert (first == second) == (fault in (Fault.HANG, Fault.TRUNCATE, Fault.EMPTY))
