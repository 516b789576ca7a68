"""How a launched server is held, so that nothing of it outlives its run: as well as this machine allows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from gatekit.engine import lifeline
from gatekit.errors import InfraError
from gatekit.records.spec import Containment

_PROBE_TIMEOUT_S = 20.0


def containment(wanted: Containment) -> Containment:
    """The containment that holds: `wanted` itself, or for `auto` a PID namespace where one can be made.

    Raises InfraError where a PID namespace is asked for and this machine allows none.
    """
    if wanted is Containment.SUBREAPER:
        return wanted
    if can_make_pid_namespace():
        return Containment.PID_NAMESPACE
    if wanted is Containment.PID_NAMESPACE:
        raise InfraError(
            "engine.containment asks for a PID namespace, and this machine allows none to this user",
            reason="containment-missing",
            hint="set engine.containment=auto, or allow user namespaces; a container needs CAP_SYS_ADMIN",
        )
    return Containment.SUBREAPER


@cache
def can_make_pid_namespace() -> bool:
    """Whether the lifeline can put a server into a PID namespace with a /proc of its own; tried once, for real."""
    try:
        probe = subprocess.run(  # noqa: S603 - this very Python and a file of ours
            (sys.executable, "-I", "-S", lifeline.__file__, lifeline.PROBE),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def tethered(argv: Sequence[str], held: Containment = Containment.SUBREAPER) -> tuple[str, ...]:
    """The argv that runs `argv` as one that dies with its starter; to be started with `lifeline`."""
    options = (lifeline.PID_NAMESPACE,) if held is Containment.PID_NAMESPACE else ()
    return (sys.executable, "-I", "-S", lifeline.__file__, *options, "--", *argv)
