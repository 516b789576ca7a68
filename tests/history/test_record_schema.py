"""schemas/record.schema.json and the dataclasses say the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from enum import StrEnum
from typing import Any, get_args, get_type_hints

import pytest
from jsonschema import Draft202012Validator

from gatekit.records.answers import Counts, Failure, FailureKind, Observation, Status
from gatekit.records.canonical import canonical_json
from gatekit.records.run import (
    RECORD_FORMAT,
    Comparability,
    Dataset,
    RunRecord,
    Served,
    record_to_plain,
)
from gatekit.records.spec import Spec
from gatekit.records.verdict import Churn, Early, Interval, Outcome, Rule, Verdict
from gatekit.resources import schema

SCHEMA = schema("record")
MIRRORED = [Observation, Failure, Counts, Verdict, Churn, Rule, Early, Interval, Dataset, Served, Comparability]


def _definition(cls: type) -> Any:
    return SCHEMA if cls is RunRecord else SCHEMA["$defs"][cls.__name__.lower()]


def _accepts(value: object) -> bool:
    return Draft202012Validator(SCHEMA).is_valid(json.loads(canonical_json(value)))


def test_schema_is_a_schema() -> None:
    """The file is valid JSON Schema 2020-12."""
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("status", list(Status))
def test_real_record_is_accepted(make_record: Callable[..., RunRecord], status: Status) -> None:
    """What record_to_plain gives is valid, with a server or without, whatever became of the questions."""
    record = make_record(statuses=(status,) * 3)
    assert _accepts(record_to_plain(record))
    bare = replace(record.verdict, rule=None, interval=None)
    assert _accepts(record_to_plain(replace(record, served=None, verdict=bare)))


@pytest.mark.parametrize("cls", [RunRecord, *MIRRORED])
def test_properties_are_the_fields(cls: type) -> None:
    """Every dataclass field is a property, required unless it came later than the format, and there is no other."""
    definition = _definition(cls)
    names = [field.name for field in fields(cls)] + ["digest"] * (cls is RunRecord)
    assert sorted(definition["properties"]) == sorted(names)
    later: dict[type, set[str]] = {
        RunRecord: {"previous", "supersedes", "rescored_at"},
        Rule: {"early"},
        Observation: {"first_token_s", "repeat"},
    }
    since = later.get(cls, set())
    assert sorted(definition["required"]) == sorted(set(names) - since)
    assert definition["additionalProperties"] is False


@pytest.mark.parametrize("cls", [RunRecord, *MIRRORED])
def test_null_is_allowed_where_unknown_is(cls: type) -> None:
    """A property may be null if and only if its field may be None."""
    properties = _definition(cls)["properties"]
    for name, hint in get_type_hints(cls).items():
        checker = Draft202012Validator({**properties[name], "$defs": SCHEMA["$defs"]})
        assert checker.is_valid(None) == (type(None) in get_args(hint)), name


@pytest.mark.parametrize(
    ("definition", "name", "enum"),
    [
        ("observation", "status", Status),
        ("failure", "kind", FailureKind),
        ("verdict", "outcome", Outcome),
    ],
)
def test_enums_are_the_same(definition: str, name: str, enum: type[StrEnum]) -> None:
    """A closed set of words is the same set in the schema and in Python."""
    assert SCHEMA["$defs"][definition]["properties"][name]["enum"] == [member.value for member in enum]


def test_format_and_spec_parts_are_the_same() -> None:
    """The layout version and the parts of the spec are those of the dataclasses."""
    assert SCHEMA["properties"]["format"]["const"] == RECORD_FORMAT
    assert sorted(SCHEMA["$defs"]["spec"]["required"]) == sorted(field.name for field in fields(Spec))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("extra",), 1),
        (("run_id",), "../x"),
        (("run_id",), "x\n"),
        (("finished_at",), "yesterday"),
        (("counts", "n"), -1),
        (("counts", "extra"), 1),
        (("verdict", "outcome"), "GREEN"),
        (("verdict", "rule", "power"), 90),
        (("verdict", "interval", "low"), -0.1),
        (("observations", 0, "status"), "right"),
        (("observations", 0, "extra"), None),
        (("observations", 0, "latency_s"), "fast"),
        (("spec", "name"), 7),
        (("spec", "model"), "org/tiny"),
        (("digest",), "sha256:0"),
    ],
)
def test_wrong_record_is_refused(
    make_record: Callable[..., RunRecord], path: tuple[str | int, ...], value: object
) -> None:
    """A single wrong, unknown or out-of-range value makes a record invalid."""
    plain = record_to_plain(make_record())
    place = plain
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert not _accepts(plain)
