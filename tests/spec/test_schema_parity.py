"""The JSON Schemas are the source of truth; the dataclasses mirror them: names, types, nulls, choices, defaults."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from gatekit.records import spec as records
from gatekit.records.canonical import to_plain
from gatekit.resources import schema, schema_dir

SECTIONS = {
    "model": records.Model,
    "hw": records.Hardware,
    "engine": records.Engine,
    "protocol": records.Protocol,
    "task": records.Task,
    "gate": records.Gate,
    "history": records.History,
    "client": records.Client,
}
PLAIN = {"string", "number", "boolean", "null", "array"}
KINDS = {str: "string", int: "integer", float: "number", bool: "boolean"}
NAMES = sorted(path.relative_to(schema_dir()).as_posix().split(".")[0] for path in schema_dir().rglob("*.schema.json"))


def mirrored(cls: Any, described: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Every dataclass of a section with what the schema says about it, nested ones included."""
    yield place, cls, described
    for name, hint in get_type_hints(cls).items():
        inner = described["properties"][name]
        bare = without_null(hint)
        if get_origin(bare) is not None and issubclass(get_origin(bare), Mapping):
            bare, inner = get_args(bare)[1], inner["additionalProperties"]
        if get_origin(bare) is tuple:
            bare, inner = get_args(bare)[0], inner["items"]
        if is_dataclass(bare):
            yield from mirrored(bare, inner, f"{place}.{name}")


def without_null(hint: Any) -> Any:
    is_union = get_origin(hint) in (Union, types.UnionType)
    return next(arg for arg in get_args(hint) if arg is not type(None)) if is_union else hint


def is_nullable(hint: Any) -> bool:
    return type(None) in get_args(hint)


def kind(hint: Any) -> str:
    """The JSON type of a Python type."""
    origin = get_origin(hint)
    if origin is tuple:
        return "array"
    if is_dataclass(hint) or (origin is not None and issubclass(origin, Mapping)):
        return "object"
    return "enum" if isinstance(hint, type) and issubclass(hint, StrEnum) else KINDS[hint]


ALL = [found for section, cls in SECTIONS.items() for found in mirrored(cls, schema(section), section)]
ROWS = [
    (f"{place}.{field.name}", field, get_type_hints(cls)[field.name], described)
    for place, cls, described in ALL
    for field in fields(cls)
]


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas(name: str) -> None:
    """Every shipped schema is valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(schema(name))


def test_nested_mappings_are_seen() -> None:
    """The walk finds every dataclass of the spec."""
    names = {cls.__name__ for _, cls, _ in ALL}
    assert {"Observed", "Budget", "MeasuredUnder", "Latency", "Faults", "SplitFile", "Advisory"} | {
        cls.__name__ for cls in SECTIONS.values()
    } == names


@pytest.mark.parametrize(("place", "cls", "described"), ALL, ids=[place for place, _, _ in ALL])
def test_keys(place: str, cls: Any, described: Mapping[str, Any]) -> None:
    """Same keys; required exactly where the dataclass has no default; nothing else allowed; all described."""
    assert set(described["properties"]) == {field.name for field in fields(cls)}
    needed = {field.name for field in fields(cls) if field.default is MISSING and field.default_factory is MISSING}
    assert set(described["required"]) == needed
    assert described["additionalProperties"] is False
    assert all(value.get("description") for value in described["properties"].values())


@pytest.mark.parametrize(("place", "field", "hint", "described"), ROWS, ids=[row[0] for row in ROWS])
def test_types(place: str, field: Field[Any], hint: Any, described: Mapping[str, Any]) -> None:
    """The same type, null exactly where None is allowed, and the choices of the enum."""
    said = described["properties"][field.name]
    bare = without_null(hint)
    if "enum" in said:
        assert (None in said["enum"]) is is_nullable(hint)
        choices = {choice for choice in said["enum"] if choice is not None}
        if kind(bare) == "enum":
            assert choices == {member.value for member in bare}
        else:
            assert {type(choice) for choice in choices} == {bare}
        return
    kinds = said["type"] if isinstance(said["type"], list) else [said["type"]]
    assert ("null" in kinds) is is_nullable(hint)
    assert [one for one in kinds if one != "null"] == [kind(bare)]
    if kind(bare) == "array":
        assert said["items"]["type"] == kind(get_args(bare)[0])
    if kind(bare) == "object" and not is_dataclass(bare):
        value = get_args(bare)[1]
        if value is Any:
            assert set(said["additionalProperties"]["type"]) == PLAIN
            return
        assert said["additionalProperties"]["type"] == kind(value)
        if kind(value) == "array":
            assert said["additionalProperties"]["items"]["type"] == KINDS[get_args(value)[0]]


@pytest.mark.parametrize(("place", "field", "hint", "described"), ROWS, ids=[row[0] for row in ROWS])
def test_defaults(place: str, field: Field[Any], hint: Any, described: Mapping[str, Any]) -> None:
    """What is taken where a key is left out is what the schema says, and allowed where it is written."""
    said = described["properties"][field.name]
    if field.default is MISSING:
        assert "default" not in said
        return
    default = to_plain(field.default)
    assert list(Draft202012Validator(said).iter_errors(default)) == []
    assert (said["default"], type(said["default"])) == (default, type(default))


def test_the_spec_has_every_section() -> None:
    """The spec's schema, its dataclass and the list of sections agree."""
    names = {field.name for field in fields(records.Spec)} - {"name"}
    assert set(schema("spec")["properties"]) == set(SECTIONS) == names
    assert set(schema("spec")["required"]) == names
