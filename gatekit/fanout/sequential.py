"""Several specs on this machine, one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gatekit.errors import ExitCode, GatekitError, Interrupted, fold
from gatekit.report.summary import summarise_error

Job = TypeVar("Job")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one spec ended: its exit code and its summary as plain data."""

    exit_code: ExitCode
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How the jobs ended, in order, as far as they came: `interrupted` is what stopped the one after them."""

    ended: tuple[Ended, ...]
    interrupted: Interrupted | None = None

    @property
    def exit_code(self) -> ExitCode:
        """The one exit code of all."""
        stopped = [] if self.interrupted is None else [self.interrupted.signal_code]
        return fold([*(one.exit_code for one in self.ended), *stopped])


def one_after_another(
    jobs: Sequence[Job],
    run: Callable[[Job], Ended],
    *,
    on_error: Callable[[GatekitError], None],
    on_bug: Callable[[Exception], str],
    as_known: Callable[[Exception], GatekitError | None] = lambda error: None,
) -> Series:
    """How each job ended. What is wrong with one, a bug of ours included, does not keep the next from running.

    A signal ends the series. `on_error` tells an error that has no verdict; `on_bug` tells one that nobody foresaw,
    and gives its one line, unless `as_known` says what it is.
    """
    ended: list[Ended] = []
    for job in jobs:
        try:
            ended.append(run(job))
        except Interrupted as stop:
            return Series(ended=tuple(ended), interrupted=stop)
        except KeyboardInterrupt as stop:  # outside of a run's own handling
            code = getattr(stop, "exit_code", ExitCode.INTERRUPTED)
            return Series(ended=tuple(ended), interrupted=Interrupted("interrupted", exit_code=code))
        except GatekitError as error:
            on_error(error)
            ended.append(Ended(exit_code=error.exit_code, summary=summarise_error(error, error.exit_code)))
        except Exception as error:  # the next spec is no worse for it
            known = as_known(error)
            if known is not None:
                on_error(known)
                ended.append(Ended(exit_code=known.exit_code, summary=summarise_error(known, known.exit_code)))
                continue
            bug = GatekitError(on_bug(error), reason="internal")
            ended.append(Ended(exit_code=ExitCode.INTERNAL, summary=summarise_error(bug, ExitCode.INTERNAL)))
    return Series(ended=tuple(ended))
