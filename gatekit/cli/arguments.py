"""Command lines without argparse's own exits: a mistake is a ConfigError, help is text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from gatekit.errors import ConfigError
from gatekit.records.secrets import masked_text
from gatekit.report.escape import escape_terminal

_MESSAGE_CHARACTERS = 300


class HelpWanted(Exception):  # noqa: N818 - a wish, not an error
    """The user asked for help; `text` is it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises instead of printing and exiting."""

    def __init__(self, prog: str, description: str = "", **more: object) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **more,  # type: ignore[arg-type]  # passed on as they come
        )

    def error(self, message: str) -> NoReturn:
        """Raise the ConfigError of a wrong command line."""
        shown = escape_terminal(masked_text(message), limit=_MESSAGE_CHARACTERS)
        raise ConfigError.one(shown, reason="bad-arguments", hint=f"see {self.prog} --help")

    def print_help(self, file: object = None) -> None:
        """Raise HelpWanted with the text."""
        raise HelpWanted(self.format_help())


class Intermixed(Parser):
    """A Parser whose positional words may stand between options; made for a subcommand."""

    _is_mixing = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]  # as argparse has it
        """As ArgumentParser.parse_known_intermixed_args, which comes back here."""
        if self._is_mixing:
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed options; positional words may stand between options."""
    return parser.parse_intermixed_args(list(arguments))
