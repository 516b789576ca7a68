"""How a gate with a sequential test shares its error rates between that test and its rule."""

from __future__ import annotations

from dataclasses import replace

from gatekit.gate.alpha import nominal_alpha
from gatekit.records.spec import EarlyStop, Gate, Method
from gatekit.records.verdict import Rule

SHARE = 0.5  # of alpha and of beta, for the rule; the rest is for the sequential test


def share_of(gate: Gate) -> Gate:
    """The gate as its rule sees it beside a sequential test: its own share of alpha and beta.

    A lock brings its own alpha, and a floor has none. Raises ConfigError (`gate-needs-alpha`).
    """
    beta = SHARE * gate.beta
    if gate.method in (Method.LOCKED, Method.STATIC_FLOOR):
        return replace(gate, beta=beta)
    return replace(gate, beta=beta, alpha=SHARE * nominal_alpha(gate))


def as_decided(gate: Gate, rule: Rule) -> Gate:
    """The gate that a stored rule was made for, without its sequential test; with a share where that was split off."""
    alone = replace(gate, early_stop=EarlyStop.NONE)
    return alone if rule.early is None else share_of(alone)
