"""Where the shipped conf/ and schemas/ folders are: inside an installed wheel, or beside the package."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


def conf_dir() -> Path:
    """The folder of the shipped config groups."""
    return _shipped("conf")


def schema_dir() -> Path:
    """The folder of the JSON Schemas."""
    return _shipped("schemas")


def weights_file(name: str) -> Path:
    """Where the shipped file of weights of that name is, or would be."""
    return _PACKAGE / "weights" / name


@cache
def schema(name: str) -> Any:
    """The JSON Schema `schemas/<name>.schema.json` as plain data."""
    return json.loads((schema_dir() / f"{name}.schema.json").read_text(encoding="utf-8"))


def _shipped(folder: str) -> Path:
    in_wheel = _PACKAGE / "_data" / folder
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / folder
