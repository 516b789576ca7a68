"""Exit codes, their precedence, and the one tree of errors a user can meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from gatekit.service_keys import without_keys


class ExitCode(IntEnum):
    """The frozen process interface: 1 means a measured regression and nothing else ever does."""

    PASS = 0
    FAIL = 1
    CONFIG = 2
    INFRA = 3
    INCONCLUSIVE = 4
    INTERNAL = 70
    INTERRUPTED = 130
    TERMINATED = 143


_PRECEDENCE = (
    ExitCode.TERMINATED,
    ExitCode.INTERRUPTED,
    ExitCode.INTERNAL,
    ExitCode.CONFIG,
    ExitCode.FAIL,
    ExitCode.INFRA,
    ExitCode.INCONCLUSIVE,
    ExitCode.PASS,
)


def fold(codes: Iterable[ExitCode]) -> ExitCode:
    """The one exit code of several specs: 143, 130, 70 > 2 > 1 > 3 > 4 > 0; of none at all: 2.

    >>> fold([ExitCode.PASS, ExitCode.INFRA, ExitCode.FAIL]).name
    'FAIL'
    >>> fold([]).name
    'CONFIG'
    """
    return min(codes, key=_PRECEDENCE.index, default=ExitCode.CONFIG)


class GatekitError(Exception):
    """Something the user can act on: what happened and where, a stable reason code, and the next step."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.hint = hint

    def lines(self) -> list[str]:
        """One line per problem, ready to print after `gatekit: `."""
        tail = f"; {self.hint}" if self.hint else ""
        return [f"{self.message}{tail} [{self.reason}]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in the user's input: where it stands, what is wrong, its stable id, what to do.

    What looks like the key of a service is masked in all its texts.
    """

    where: str
    what: str
    reason: str
    hint: str = ""

    def __post_init__(self) -> None:
        for name in ("where", "what", "hint"):
            object.__setattr__(self, name, without_keys(getattr(self, name)))

    def line(self) -> str:
        """`file:line:column: what; hint [id]`."""
        place = f"{self.where}: " if self.where else ""
        tail = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.what}{tail} [{self.reason}]"


class ConfigError(GatekitError):
    """The user's input is wrong; found before any server starts or request is sent. Exit 2."""

    exit_code = ExitCode.CONFIG

    def __init__(self, problems: Sequence[Problem]) -> None:
        if not problems:
            raise ValueError("a ConfigError names at least one problem")
        super().__init__(problems[0].what, reason=problems[0].reason, hint=problems[0].hint)
        self.problems = tuple(problems)

    @classmethod
    def one(cls, what: str, *, reason: str, where: str = "", hint: str = "") -> ConfigError:
        """A ConfigError with a single problem."""
        return cls([Problem(where=where, what=what, reason=reason, hint=hint)])

    def lines(self) -> list[str]:
        """One line per problem, in the order they stand in the input."""
        return [problem.line() for problem in self.problems]


class InfraError(GatekitError):
    """Server, network, dataset, storage or machine failed: no valid measurement. Exit 3."""

    exit_code = ExitCode.INFRA


class Interrupted(GatekitError):  # noqa: N818 - a signal is not an error of anybody
    """SIGINT (130), or SIGTERM and SIGHUP (143), after what is known was kept."""

    def __init__(self, message: str, *, exit_code: ExitCode, hint: str = "") -> None:
        super().__init__(message, reason="interrupted", hint=hint)
        self.signal_code = exit_code
