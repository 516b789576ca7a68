"""A faulty config made whole, so that the rules can look at the rest of it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from gatekit.spec.described import described, resolved
from gatekit.spec.schema import Fault, faults

_EMPTY: Mapping[str, Any] = {"string": "x", "boolean": False, "array": [], "null": None}


def repaired(data: Mapping[str, Any], found: Iterable[Fault]) -> dict[str, Any] | None:
    """The data without unknown keys, and with any valid value where one is missing or wrong; None where that fails.

    What stands at a repaired place means nothing.
    """
    whole: dict[str, Any] = copy.deepcopy(dict(data))
    for fault in sorted(found, key=lambda fault: len(fault.path)):
        _repair(whole, fault)
    return None if faults(whole) else whole


def _repair(whole: dict[str, Any], fault: Fault) -> None:
    parent: Any = whole
    for part in fault.path[:-1]:
        is_there = part in parent if isinstance(parent, dict) else isinstance(parent, list) and len(parent) > int(part)
        parent = parent[part] if is_there else None
    if not fault.path or not isinstance(parent, (dict, list)):
        return
    last: Any = fault.path[-1]
    if fault.at_key and isinstance(parent, dict):
        parent.pop(last, None)
    elif not fault.at_key and (isinstance(parent, dict) or last < len(parent)):
        # A list that was replaced already has no such item any more.
        parent[last] = _any_value(described(fault.path))


def _any_value(about: Mapping[str, Any]) -> Any:
    """A value that the schema accepts, null where it may be."""
    kinds = about.get("type", "null")
    kind = "null" if "null" in kinds else kinds
    if "enum" in about:
        return about["enum"][0]
    if kind == "object":
        needed = about.get("required", ())
        return {key: _any_value(resolved(about["properties"][key])) for key in needed}
    if kind in ("integer", "number"):
        low = about.get("minimum", about.get("exclusiveMinimum", 0))
        return max(low, 1) if about.get("maximum", about.get("exclusiveMaximum", 2)) > 1 else 0.5
    return _EMPTY[kind]
