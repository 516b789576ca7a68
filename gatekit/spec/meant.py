"""What somebody meant who wrote a key into the wrong section, or a value of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gatekit.resources import schema
from gatekit.spec.composition import is_private
from gatekit.spec.reader import KeyPath

_MOST_OWNERS = 2
_MOST_CHARACTERS = 60
_ARGUMENTS = frozenset({"args", "command", "server_args"})
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


def section_of(key: str, path: KeyPath) -> str:
    """Which section knows a key that stands in the mapping at `path`, as a hint; nothing where none or many do."""
    sections = schema("spec")["properties"]
    if path and key in sections and path[0] in sections:
        return f"{key} is a section of its own: a model file sets it beside {path[0]}, not inside"
    owners = [section for section in sections if (section,) != path and key in schema(section)["properties"]]
    if not owners or len(owners) > _MOST_OWNERS:
        return ""
    if path and path[0] not in sections:
        return f"this is a key of {owners[0]}: a row sets it by `set: {{{owners[0]}.{key}: ...}}`"
    return f"this is a key of {' and of '.join(owners)}: write it there, as {owners[0]}.{key}"


def in_wanted_type(wanted: Sequence[str], value: Any, path: KeyPath) -> str:
    """How the value at `path` is written so that it has a type that is wanted; nothing where nobody can tell."""
    text = "" if is_private(path) else str(value).lower() if isinstance(value, bool) else str(value)
    is_plain = 0 < len(text) <= _MOST_CHARACTERS and text.isprintable()
    if "array" in wanted and isinstance(value, str):
        if _ARGUMENTS.intersection(path):
            return "write it as a list, one item per argument: it is never passed to a shell"
        return f"write it as a list: [{text}]" if is_plain else "write it as a list"
    if "string" in wanted and isinstance(value, (bool, int, float)):
        return f'quote it: "{text}"' if is_plain else "quote it"
    if "integer" in wanted and isinstance(value, float) and value.is_integer():
        return f"write {value:.0f}"
    is_number = {"integer", "number"}.intersection(wanted) and isinstance(value, str) and _NUMBER.fullmatch(value)
    return "write it without quotes" if is_number or ("boolean" in wanted and value in ("true", "false")) else ""
