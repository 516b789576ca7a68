"""The JSON Schemas and the dataclasses say the same."""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import StrEnum
from typing import get_type_hints

import pytest
from jsonschema import Draft202012Validator

from gatekit.records import spec as records
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
NESTED = {
    ("gate", "observed"): records.Observed,
    ("gate", "budget"): records.Budget,
    ("gate", "measured_under"): records.MeasuredUnder,
    ("engine", "latency"): records.Latency,
    ("engine", "faults"): records.Faults,
}


@pytest.mark.parametrize("name", [path.name.split(".")[0] for path in schema_dir().glob("*.schema.json")])
def test_schemas_are_schemas(name: str) -> None:
    """Every shipped schema is valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("section", SECTIONS)
def test_a_schema_mirrors_its_dataclass(section: str) -> None:
    """Same keys; required exactly where the dataclass has no default; nothing else allowed; all described."""
    described, cls = schema(section), SECTIONS[section]
    assert set(described["properties"]) == {field.name for field in fields(cls)}
    needed = {field.name for field in fields(cls) if field.default is MISSING}
    assert set(described["required"]) == needed
    assert described["additionalProperties"] is False
    assert all(value.get("description") for value in described["properties"].values())


@pytest.mark.parametrize("place", NESTED, ids=".".join)
def test_a_nested_schema_mirrors_its_dataclass(place: tuple[str, str]) -> None:
    """Nested mappings have the keys of their dataclass and no others."""
    described = schema(place[0])["properties"][place[1]]
    assert set(described["properties"]) == {field.name for field in fields(NESTED[place])}
    assert described["additionalProperties"] is False


def test_choices_are_the_enums() -> None:
    """Where a field is an enum, the schema offers exactly its values."""
    for section, cls in SECTIONS.items():
        for name, hint in get_type_hints(cls).items():
            if isinstance(hint, type) and issubclass(hint, StrEnum):
                assert set(schema(section)["properties"][name]["enum"]) == {member.value for member in hint}


def test_the_spec_has_every_section() -> None:
    """The spec's schema, its dataclass and the list of sections agree."""
    names = {field.name for field in fields(records.Spec)} - {"name"}
    assert set(schema("spec")["properties"]) == set(SECTIONS) == names
