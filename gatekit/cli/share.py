"""Shares on a command line: one typed in percent is refused with the share that was meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable

_PERCENT = 100


def share(parse: Callable[[str], float]) -> Callable[[str], float]:
    """A parser of numbers that adds, where a hundredth of what it refuses would be accepted, which one that is."""

    def parse_share(text: str) -> float:
        try:
            return parse(text)
        except argparse.ArgumentTypeError as error:
            meant = _hundredth(text, parse)
            if meant is None:
                raise
            raise argparse.ArgumentTypeError(f"{error}: {meant:g} is {text.rstrip('%')} percent") from None

    return parse_share


def _hundredth(text: str, parse: Callable[[str], float]) -> float | None:
    try:
        value = float(text.rstrip("%")) / _PERCENT
        return parse(f"{value:.12g}")
    except (ValueError, argparse.ArgumentTypeError):
        return None
