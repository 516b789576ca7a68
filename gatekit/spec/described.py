"""What the schemas say about the value at a key path, whether it stands in a spec or in a file of one group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gatekit.resources import schema

_MODEL = "model"
_MATRIX = "matrix"


def described(path: tuple[str | int, ...]) -> Mapping[str, Any]:
    """What the schemas say about the value at `path` of a spec; {} where they say nothing."""
    return _within(schema("spec"), path)


def resolved(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the section's schema that it refers to."""
    reference = str(about.get("$ref", ""))
    return schema(reference.removeprefix("gatekit:")) if reference.startswith("gatekit:") else about


def wanted_at(group: str | None, path: tuple[str | int, ...]) -> frozenset[str]:
    """The types that the value at `path` of a file of that group may have; none where no schema tells.

    >>> sorted(wanted_at("gate", ("floor",))), sorted(wanted_at("matrix", ("rows", 0, "set", "task.n")))
    (['null', 'number'], ['integer', 'null'])
    """
    if group is None:
        return frozenset()
    if group == _MATRIX:
        is_set = path[2:3] == ("set",) and len(path) > 3
        about = described((*str(path[3]).split("."), *path[4:])) if is_set else _within(schema(_MATRIX), path)
    else:
        about = described(path if group in ("", _MODEL) else (group, *path))
    kinds = about.get("type", "string" if "enum" in about else ())
    return frozenset([kinds] if isinstance(kinds, str) else kinds)


def _within(whole: Mapping[str, Any], path: tuple[str | int, ...]) -> Mapping[str, Any]:
    found = whole
    for part in path:
        inner = found.get("properties", {}).get(part, found.get("additionalProperties"))
        inner = found.get("items", {}) if isinstance(part, int) else inner
        found = _of(whole, inner) if isinstance(inner, dict) else {}
    return found


def _of(whole: Mapping[str, Any], about: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(about.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        found: Mapping[str, Any] = whole["$defs"][reference.removeprefix("#/$defs/")]
        return found
    return resolved(about)
