"""What a gate assumes about the spread of its counts before its own history speaks."""

from __future__ import annotations

from gatekit.records.lock import Prior
from gatekit.records.spec import Gate


def own_prior(gate: Gate) -> Prior:
    """The prior of a gate alone: `phi0` on `nu0`, and no more scatter than flips explain (1) on `nu_psi`.

    >>> from gatekit.records.spec import Method
    >>> own_prior(Gate(name="g", method=Method.AUTO))
    Prior(phi0=0.2, nu0=4.0, psi0=1.0, nu_psi=8.0, series=0)
    """
    return Prior(phi0=gate.phi0, nu0=gate.nu0, psi0=1.0, nu_psi=gate.nu_psi, series=0)
