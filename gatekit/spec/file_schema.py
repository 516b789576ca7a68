"""The JSON Schema of one config file, for editors: what may stand in it, with nothing required.

A file speaks about its group, a model file (as the root file) about the whole spec. What is missing is only known once
the files are composed, so `required` is left to the sections' own schemas, from which these are made. The shipped
copies in `schemas/file` are written by `python -m gatekit.spec.file_schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gatekit.resources import schema, schema_dir

GROUPS = ("model", "hw", "engine", "protocol", "task", "gate", "history")
ROOT = "config"

_OVERRIDE = {
    "type": "object",
    "description": "`override /engine: vllm` chooses an option of another group (model files only).",
    "minProperties": 1,
    "maxProperties": 1,
    "propertyNames": {"pattern": "^override /(hw|engine|protocol|task|gate|history)$"},
    "additionalProperties": {"type": "string"},
}
_CHOICE = {
    "type": "object",
    "description": "`engine: sim` is the default option of a group.",
    "minProperties": 1,
    "maxProperties": 1,
    "propertyNames": {"enum": list(GROUPS)},
    "additionalProperties": {"type": "string"},
}
_BASE = {"type": "string", "description": "Another option of this group that this file builds on, or _self_."}


def file_schema(name: str) -> dict[str, Any]:
    """The schema of the files of a group, or of the root file `config`."""
    if name in (ROOT, "model"):
        sections = schema("spec")["properties"]
        described = {section: without_required(_without_identity(schema(section))) for section in sections}
        title = "The root config file" if name == ROOT else "A model file"
        about = "It speaks about the whole spec."
    else:
        section = without_required(schema(name))
        described, title = section["properties"], f"A file of group {name}"
        about = section["description"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"gatekit:file/{name}",
        "title": title,
        "description": about,
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {"defaults": _defaults(name), **described},
    }


def without_required(value: Any) -> Any:
    """A schema (or a part of one) whose mappings may leave out any key."""
    if isinstance(value, dict):
        # A property may be called `required`; the keyword is a list.
        return {
            key: without_required(item)
            for key, item in value.items()
            if not (key == "required" and isinstance(item, list))
        }
    return [without_required(item) for item in value] if isinstance(value, list) else value


def _without_identity(section: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in ("$schema", "$id")}


def _defaults(name: str) -> dict[str, Any]:
    items = {ROOT: [_BASE, _CHOICE], "model": [_BASE, _OVERRIDE]}.get(name, [_BASE])
    return {
        "type": ["array", "null"],
        "uniqueItems": True,
        "items": {"anyOf": items} if len(items) > 1 else items[0],
        "description": "What this file builds on, in order; the file itself comes last unless _self_ says otherwise.",
    }


def text_of(name: str) -> str:
    """The shipped file of that schema."""
    return json.dumps(file_schema(name), indent=2) + "\n"


def write(folder: Path) -> None:
    """Write every file schema into `folder`."""
    folder.mkdir(exist_ok=True)
    for name in (ROOT, *GROUPS):
        (folder / f"{name}.schema.json").write_text(text_of(name), encoding="utf-8")


if __name__ == "__main__":
    write(schema_dir() / "file")
