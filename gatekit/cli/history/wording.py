"""How many of something, in words, and the option that asks for a document instead."""

from __future__ import annotations

import argparse


def number(count: int, what: str) -> str:
    """A count with its noun.

    >>> number(1, "run"), number(2, "run"), number(2, "series")
    ('1 run', '2 runs', '2 series')
    """
    return f"{count} {what}" if count == 1 or what.endswith("s") else f"{count} {what}s"


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let a command give its result to a program."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
