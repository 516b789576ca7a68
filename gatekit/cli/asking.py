"""Questions on a terminal: numbered choices with a default, and nothing at all where nobody is there to answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from gatekit.errors import ConfigError
from gatekit.report.escape import escape_terminal

_TRIES = 5


def somebody_is_there(environ: Mapping[str, str]) -> bool:
    """Whether questions may be asked: input and output are a terminal, and this is no CI."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not environ.get("CI")


def ask(question: str, default: str) -> str:
    """One line of text; an empty one is the default."""
    return _line(f"{question} [{escape_terminal(default)}]: ") or default


def choose(question: str, choices: Sequence[str], default: str) -> str:
    """One of the choices, by number or by name. Raises ConfigError after five answers that are none."""
    print(question)
    for number, choice in enumerate(choices, start=1):
        print(f"  {number}) {choice}{'  (default)' if choice == default else ''}")
    for _ in range(_TRIES):
        answer = _line(f"1-{len(choices)} [{default}]: ") or default
        if answer in choices:
            return answer
        if answer.isascii() and answer.isdigit() and len(answer) < 6 and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        print(f"{escape_terminal(answer, 60)} is none of them")
    raise ConfigError.one(f"no answer to {question!r}", reason="no-answer", hint="give it as an option: see --help")


def _line(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        raise ConfigError.one("the input ended before every question was answered", reason="no-answer") from None
