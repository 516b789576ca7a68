"""From a JSON Schema's complaints to one plain line each, at the place where the value was written."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from gatekit.errors import Problem
from gatekit.resources import schema
from gatekit.spec.composition import Composition, is_private
from gatekit.spec.reader import KeyPath

SECTIONS = ("model", "hw", "engine", "protocol", "task", "gate", "history", "client")

_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


def problems(composition: Composition) -> list[Problem]:
    """Every way in which a composed config breaks the schemas, in the order of the sections."""
    errors = sorted(_validator().iter_errors(composition.data), key=_section_order)
    found = [problem for error in errors for problem in _explain(error, composition)]
    return [*_not_finite(composition.data, (), composition), *found]


def _not_finite(value: Any, path: KeyPath, composition: Composition) -> Iterator[Problem]:
    # NaN is neither below a minimum nor above a maximum, so no schema refuses it.
    if isinstance(value, float) and not math.isfinite(value):
        what = f"{'.'.join(map(str, path))}: {value} is not a finite number"
        yield Problem(where=composition.locate(path), what=what, reason="not-finite")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _not_finite(item, (*path, key), composition)


@cache
def _validator() -> Any:
    # A schema that names its dialect would be checked by the dialect's own class instead of the strict one.
    bare = {name: {key: value for key, value in schema(name).items() if key != "$schema"} for name in SECTIONS}
    resources = [(f"gatekit:{name}", DRAFT202012.create_resource(contents)) for name, contents in bare.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    # JSON Schema takes 1000.0 for an integer; Python does not count with it.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]  # stubs
    return strict(schema("spec"), registry=registry)


def _section_order(error: ValidationError) -> tuple[int, str]:
    section = str(next(iter(error.absolute_path), ""))
    order = SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)
    return order, ".".join(map(str, error.absolute_path))


def _explain(error: ValidationError, composition: Composition) -> Iterator[Problem]:
    path: KeyPath = tuple(error.absolute_path)
    name = ".".join(map(str, path))
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error, path, composition)
    elif error.validator == "required":
        yield from _missing_keys(error, path, composition)
    elif error.validator == "propertyNames":
        yield from _bad_names(error, path, composition)
    else:
        what, reason, hint = _bad_value(error)
        yield Problem(where=composition.locate(path), what=f"{name}: {what}", reason=reason, hint=hint)


def _unknown_keys(error: ValidationError, path: KeyPath, composition: Composition) -> Iterator[Problem]:
    known = list(_schema_of(error).get("properties", ()))
    instance: Mapping[str, Any] = error.instance  # type: ignore[assignment]  # only a mapping has keys
    for key in sorted(set(instance) - set(known)):
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        where = composition.locate((*path, key), key=True)
        prefix = f"{'.'.join(map(str, path))}: " if path else ""
        yield Problem(where=where, what=f"{prefix}unknown key {key!r}", reason="unknown-key", hint=hint)


def _missing_keys(error: ValidationError, path: KeyPath, composition: Composition) -> Iterator[Problem]:
    # jsonschema reports each missing key as an error of its own.
    key = error.message.split("'")[1]
    described: Mapping[str, Any] = _schema_of(error).get("properties", {}).get(key, {})
    missing = [(path, key, described)]
    if not path and key in SECTIONS:
        section = schema(key)
        missing += [((key,), inner, section["properties"][inner]) for inner in section["required"]]
    for place, name, about in missing:
        what = f"{'.'.join(map(str, place)) or 'spec'}: missing key {name!r}"
        hint = about.get("description", "")
        yield Problem(where=composition.locate(path), what=what, reason="missing-key", hint=hint)


def _bad_names(error: ValidationError, path: KeyPath, composition: Composition) -> Iterator[Problem]:
    key = str(error.instance)
    known = _schema_of(error).get("enum", [])
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else (f"known: {', '.join(known)}" if known else "")
    where = composition.locate((*path, key), key=True)
    yield Problem(where=where, what=f"{'.'.join(map(str, path))}: bad name {key!r}", reason="unknown-key", hint=hint)


def _bad_value(error: ValidationError) -> tuple[str, str, str]:
    private = is_private(tuple(error.absolute_path))
    value = "a value" if private else _shown(error.instance)
    if error.validator == "type":
        return _wrong_type(error, value)
    if error.validator == "enum":
        known = [item for item in _schema_of(error)["enum"] if item is not None]
        near = difflib.get_close_matches(str(error.instance), known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
        return f"{value} is not a choice", "unknown-choice", hint
    if error.validator in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return _out_of_range(error, value)
    if error.validator == "pattern":
        return f"{value} does not look right", "bad-form", _schema_of(error).get("description", "")
    what = f"{value} breaks {error.validator}" if private else f"{value}: {error.message[:120]}"
    return what, "bad-value", _schema_of(error).get("description", "")


def _wrong_type(error: ValidationError, value: str) -> tuple[str, str, str]:
    kinds = _schema_of(error)["type"]
    wanted: list[str] = kinds if isinstance(kinds, list) else [kinds]
    names = " or ".join(_TYPES[kind] for kind in wanted)
    hint = ""
    if "array" in wanted and isinstance(error.instance, str):
        hint = "write it as a list, one item per argument: it is never passed to a shell"
    elif "integer" in wanted and isinstance(error.instance, float) and error.instance.is_integer():
        hint = f"write {error.instance:.0f}"
    elif "object" in wanted:
        hint = _schema_of(error).get("description", "")
    return f"expected {names}, got {value}", "wrong-type", hint


def _out_of_range(error: ValidationError, value: str) -> tuple[str, str, str]:
    limits = _schema_of(error)
    low = limits.get("minimum", limits.get("exclusiveMinimum"))
    high = limits.get("maximum", limits.get("exclusiveMaximum"))
    hint = "at least {0}" if high is None else "at most {1}" if low is None else "between {0} and {1}"
    text = hint.format(low, high)
    if (low, high) == (0, 1):
        text = "fractions between 0 and 1"
        if isinstance(error.instance, (int, float)) and 2 <= error.instance <= 100:
            text += f"; did you mean {error.instance / 100:.2f}?"
    return f"{value} is out of range", "out-of-range", text


def _schema_of(error: ValidationError) -> Mapping[str, Any]:
    assert isinstance(error.schema, Mapping), "only a schema with keywords can be broken"
    return error.schema


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."
