"""How a scalar that YAML 1.1 and 1.2 read differently is written so that both read what was meant."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from decimal import Decimal, InvalidOperation

_TRUTHS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_BASES = re.compile(r"([-+]?)0([xob])([0-9a-fA-F_]+)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]{1,6}(:[0-5]?[0-9]){1,3}(\.[0-9]{1,9})?")
_DECIMAL = re.compile(r"[-+]?[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?")
_MOST_DIGITS = 18
_MOST_CHARACTERS = 40
_NAMES = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}


def hint_for(text: str, wanted: Collection[str]) -> str:
    """The hint for an ambiguous scalar at a place where these types are wanted; none known: it may be a text.

    >>> hint_for("4_096", {"integer"}), hint_for("on", {"boolean"}), hint_for("1e-3", {"number", "null"})
    ('write 4096', 'write true', 'write 0.001')
    >>> hint_for("on", {"string"}), hint_for("on", {"integer"})
    ('quote this value', 'expected a whole number')
    """
    if "boolean" in wanted and text.lower() in _TRUTHS:
        return f"write {_TRUTHS[text.lower()]}"
    number = _number(text) if {"integer", "number"}.intersection(wanted) else None
    if number is not None and (number == number.to_integral_value() or "number" in wanted):
        return f"write {_plain(number)}"
    if not wanted or "string" in wanted:
        return "quote this value"
    named = [name for kind, name in _NAMES.items() if kind in wanted]
    return f"expected {' or '.join(named)}" if named else ""


def _number(text: str) -> Decimal | None:
    """The number that somebody means who writes this; None for what is none."""
    if len(text) > _MOST_CHARACTERS:
        return None
    based = _BASES.fullmatch(text)
    try:
        if based:
            return Decimal(int(f"{based[1]}{based[3]}", {"x": 16, "o": 8, "b": 2}[based[2]]))
        if _SEXAGESIMAL.fullmatch(text):
            return _from_sixties(text)
        found = Decimal(text.replace("_", "")) if _DECIMAL.fullmatch(text) else None
    except (ValueError, InvalidOperation):
        return None
    is_sane = found is not None and math.isfinite(found) and abs(found.adjusted()) <= _MOST_DIGITS
    return found if is_sane else None


def _from_sixties(text: str) -> Decimal:
    """`1:30` is 90, as YAML 1.1 reads it."""
    total = Decimal(0)
    for part in text.lstrip("-+").split(":"):
        total = total * 60 + Decimal(part)
    return -total if text.startswith("-") else total


def _plain(number: Decimal) -> str:
    text = format(number.normalize(), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
