"""Several specs on this machine, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gatekit.errors import ExitCode, GatekitError, Interrupted
from gatekit.records.spec import Spec
from gatekit.report.summary import summarise_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one spec ended: its exit code and its summary as plain data."""

    exit_code: ExitCode
    summary: dict[str, Any]


def one_after_another(
    specs: Sequence[Spec], run: Callable[[Spec], Ended], *, on_error: Callable[[GatekitError], None]
) -> list[Ended]:
    """How each spec ended, in order. What is wrong with one does not keep the next from running.

    Raises Interrupted as soon as a run is interrupted.
    """
    ended: list[Ended] = []
    for spec in specs:
        try:
            ended.append(run(spec))
        except Interrupted:
            raise
        except GatekitError as error:
            on_error(error)
            ended.append(Ended(exit_code=error.exit_code, summary=summarise_error(error, error.exit_code)))
    return ended
