"""What distinguishes the runs of a model under other comparability keys, in sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gatekit.records.canonical import Plain

_NAMED_FIELDS = 3
_SHOWN_CHARACTERS = 40
_SHOWN_DIGEST = 15  # `sha256:` and eight digits
_DATE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Runs under one key: how many, and when the first and the last of them were finished."""

    runs: int
    first: str
    last: str


def differing(then: Mapping[str, Plain], now: Mapping[str, Plain]) -> tuple[str, ...]:
    """The names of the key fields that differ, sorted."""
    return tuple(sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name)))


def named(names: tuple[str, ...]) -> str:
    """The first few of the names, on one line.

    >>> named(("a", "b", "c", "d")), named(())
    ('a, b, c, ...', 'key')
    """
    return ", ".join([*names[:_NAMED_FIELDS], *["..."] * (len(names) > _NAMED_FIELDS)]) or "key"


def change(then: Mapping[str, Plain], now: Mapping[str, Plain], *, other: Span, own: Span | None) -> str:
    """One sentence about the runs under another key. `own` are those under this one, None before the first.

    >>> change({"n": 50}, {"n": 1319}, other=Span(runs=1, first="2026-08-01T0", last="2026-08-02T0"), own=None)
    'n: 50 -> 1319 after 2026-08-02; 1 earlier run is not comparable'
    """
    names = differing(then, now)
    shown = [f"{name}: {_shown(then.get(name))} -> {_shown(now.get(name))}" for name in names[:_NAMED_FIELDS]]
    fields = ", ".join([*shown, *["..."] * (len(names) > _NAMED_FIELDS)]) or "another key"
    if own is None:
        return f"{fields} after {other.last[:_DATE]}; {_not_comparable(other.runs, 'earlier run')}"
    if other.last <= own.first:
        return f"{fields} on {own.first[:_DATE]}; {_not_comparable(other.runs, 'earlier run')}"
    when = f" from {other.first[:_DATE]} to {other.last[:_DATE]}"
    return f"{fields}; {_not_comparable(other.runs, 'run', when)}"


def key_fields(text: str) -> Mapping[str, Plain]:
    """The fields of a comparability key from their JSON."""
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _not_comparable(number: int, what: str, when: str = "") -> str:
    return f"{number} {what}{when} is not comparable" if number == 1 else f"{number} {what}s{when} are not comparable"


def _shown(value: Plain) -> str:
    if isinstance(value, str):
        length = _SHOWN_DIGEST if value.startswith("sha256:") else _SHOWN_CHARACTERS
        return value if len(value) <= length else f"{value[:length]}..."
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
