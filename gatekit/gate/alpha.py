"""The nominal false-alarm rate of a gate."""

from __future__ import annotations

from math import erfc, sqrt

from gatekit.errors import ConfigError
from gatekit.records.spec import Gate
from gatekit.stats.threshold import alpha_from_budget

_SMALLEST = 1e-200  # below it quantiles of t overflow, and no run ever is that surprising


def nominal_alpha(gate: Gate) -> float:
    """The false-alarm rate of one run: `alpha`, the normal tail beyond `sigmas`, or that of the `budget`.

    Raises ConfigError (`gate-needs-alpha`) when none of the three is set.

    >>> from gatekit.records.spec import Method
    >>> round(nominal_alpha(Gate(name="g", method=Method.AUTO, sigmas=3.0)), 5)
    0.00135
    """
    if gate.alpha is not None:
        return max(_SMALLEST, gate.alpha)
    if gate.sigmas is not None:
        return max(_SMALLEST, erfc(gate.sigmas / sqrt(2)) / 2)
    if gate.budget is not None:
        return alpha_from_budget(gate.budget.gates, gate.budget.nights)
    raise no_alpha(gate)


def no_alpha(gate: Gate) -> ConfigError:
    """The error of a gate whose method needs a false-alarm rate that is not set."""
    return ConfigError.one(
        f"gate {gate.name}: method {gate.method.value} needs a false-alarm rate",
        reason="gate-needs-alpha",
        where="gate.alpha",
        hint="set one of gate.alpha, gate.sigmas and gate.budget",
    )
