"""A faulty config made whole, so that the rules can look at the rest of it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from gatekit.resources import schema
from gatekit.spec.reader import KeyPath
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
        parent[last] = _any_value(_described(fault.path))


def _described(path: KeyPath) -> Mapping[str, Any]:
    """What the schemas say about the value at `path`; {} where they say nothing."""
    found: Mapping[str, Any] = schema("spec")
    for part in path:
        inner = found.get("properties", {}).get(part, found.get("additionalProperties"))
        inner = found.get("items", {}) if isinstance(part, int) else inner
        found = _resolved(inner) if isinstance(inner, dict) else {}
    return found


def _resolved(described: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = described.get("$ref")
    return described if reference is None else schema(reference.removeprefix("gatekit:"))


def _any_value(described: Mapping[str, Any]) -> Any:
    """A value that the schema accepts, null where it may be."""
    kinds = described.get("type", "null")
    kind = "null" if "null" in kinds else kinds
    if "enum" in described:
        return described["enum"][0]
    if kind == "object":
        needed = described.get("required", ())
        return {key: _any_value(_resolved(described["properties"][key])) for key in needed}
    if kind in ("integer", "number"):
        low = described.get("minimum", described.get("exclusiveMinimum", 0))
        return max(low, 1) if described.get("maximum", described.get("exclusiveMaximum", 2)) > 1 else 0.5
    return _EMPTY[kind]
