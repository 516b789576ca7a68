"""Numbers on a command line: finite, in range, and refused in one sentence."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable

_SHOWN_CHARACTERS = 40
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers from low to high."""

    def parse(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN_CHARACTERS]!r} is not a whole number from {low} to {high}")

    return parse


def inside(low: float, high: float) -> Callable[[str], float]:
    """A parser of numbers strictly between low and high."""
    return _number(lambda value: low < value < high, f"a number between {low:g} and {high:g}, both excluded")


def within(low: float, high: float) -> Callable[[str], float]:
    """A parser of numbers from low to high, both allowed."""
    return _number(lambda value: low <= value <= high, f"a number from {low:g} to {high:g}")


def _number(holds: Callable[[float], bool], what: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text) if len(text) <= _SHOWN_CHARACTERS and _NUMBER.fullmatch(text) else math.nan
        if holds(value):
            return value
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN_CHARACTERS]!r} is not {what}")

    return parse


def measured(text: str) -> tuple[int, int]:
    """`C/N` as (right answers, questions). Raises ArgumentTypeError unless 0 <= C <= N and N >= 1."""
    found = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text, re.ASCII)
    if found and int(found[1]) <= int(found[2]) and int(found[2]) >= 1:
        return int(found[1]), int(found[2])
    raise argparse.ArgumentTypeError(f"{text[:_SHOWN_CHARACTERS]!r} is not C/N, as in 1187/1319")
