"""Locks derived from earlier runs made by hand."""

from __future__ import annotations

from dataclasses import replace

from gatekit.gate.prior import own_prior
from gatekit.gate.recompute import recompute
from gatekit.gate.rung import Shortage
from gatekit.records.lock import Lock
from gatekit.records.past import Past
from gatekit.records.run import Comparability
from gatekit.records.spec import Gate, Method

KEY = Comparability(
    key="sha256:" + "a" * 64,
    fields={"model": "m", "n": 200, "protocol.api": "chat", "question_ids": "sha256:" + "b" * 64},
)
AUTO = Gate(name="auto", method=Method.AUTO, alpha=0.01)


def lock_of(past: Past, n: int, gate: Gate = AUTO) -> Lock:
    """The lock of this history under KEY."""
    found = recompute(gate, "b200", "spec", KEY, n, past, own_prior(gate), as_of="2026-11-30", version="1")
    assert not isinstance(found, Shortage)
    return found


def locked(past: Past, n: int, gate: Gate = AUTO) -> Past:
    """The history with its own lock beside it."""
    return replace(past, key=KEY, lock=lock_of(past, n, gate))
