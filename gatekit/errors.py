"""Exit codes, their precedence, and the one tree of errors a user can meet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import ClassVar

from gatekit.service_keys import without_keys

MOST_LINES_SHOWN = 100
MOST_CHARACTERS_SHOWN = 64 * 1024
# For programs: a bound that no tree of configs reaches unless it is made to.
MOST_LINES_KEPT = 10_000
MOST_CHARACTERS_KEPT = 4000
_MOST_CHARACTERS_OF_A_TEXT = 1000


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

    def lines(self, *, most: int = MOST_LINES_SHOWN) -> list[str]:
        """One line per problem, ready to print after `gatekit: `; at most so many, then how many more there are."""
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
        """`file:line:column: what; hint [id]`, long texts without their middle."""
        place = f"{shortened(self.where)}: " if self.where else ""
        tail = f"; {shortened(self.hint)}" if self.hint else ""
        return f"{place}{shortened(self.what)}{tail} [{self.reason}]"


def shortened(text: str, most: int = _MOST_CHARACTERS_OF_A_TEXT) -> str:
    """The text, of a longer one its beginning and end, so that a value stays bounded and a place keeps its line.

    >>> shortened("a" * 9 + ":4:7", most=10)
    'aaaa...4:7'
    """
    if len(text) <= most:
        return text
    size = (most - len("...")) // 2
    head, tail = text[: most - len("...") - size], text[-size:]
    return f"{_without_open_url(head)}...{_without_rest_of_url(tail) if '://' in text else tail}"


def _without_open_url(head: str) -> str:
    """Without what follows the scheme in a URL at the end: half a password is not known for one any more."""
    start = max((found.end() for found in re.finditer(r"\s", head)), default=0)
    scheme, sign, _ = head[start:].partition("://")
    return head[:start] + scheme + sign if sign else head


def _without_rest_of_url(tail: str) -> str:
    """Without what may be the end of a password."""
    word = re.match(r"\S*", tail)
    return tail[word.group().rfind("@") + 1 :] if word else tail


def problem_lines(problems: Sequence[Problem], *, most: int = MOST_LINES_SHOWN) -> list[str]:
    """One line per problem; of very many the first ones, and how many more there are."""
    return first_lines([problem.line() for problem in problems], most=most)


def first_lines(lines: Sequence[str], *, most: int = MOST_LINES_SHOWN, noun: str = "mistakes") -> list[str]:
    """The lines; of over `most`, or of too many characters, the first ones and how many more there are.

    >>> first_lines(["a", "b", "c"], most=2), first_lines(["a", "b"], most=2)
    (['a', 'b', 'and 1 more mistake'], ['a', 'b'])
    """
    bound = MOST_CHARACTERS_SHOWN * max(1, most // MOST_LINES_SHOWN)
    sizes = accumulate(map(len, lines[:most]))
    kept = max(1, sum(size <= bound for size in sizes))
    left = len(lines) - kept
    return [*lines[:kept], f"and {left:,} more {noun if left > 1 else noun[:-1]}"] if left > 0 else [*lines]


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

    def lines(self, *, most: int = MOST_LINES_SHOWN) -> list[str]:
        """One line per problem, in the order they stand in the input; at most so many, then how many more."""
        return problem_lines(self.problems, most=most)


class InfraError(GatekitError):
    """Server, network, dataset, storage or machine failed: no valid measurement. Exit 3."""

    exit_code = ExitCode.INFRA


class Interrupted(GatekitError):  # noqa: N818 - a signal is not an error of anybody
    """SIGINT (130), or SIGTERM and SIGHUP (143), after what is known was kept."""

    def __init__(self, message: str, *, exit_code: ExitCode, hint: str = "") -> None:
        super().__init__(message, reason="interrupted", hint=hint)
        self.signal_code = exit_code
