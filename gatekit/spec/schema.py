"""From a JSON Schema's complaints to one plain line each, at the place where the value was written."""

from __future__ import annotations

import difflib
import math
import re
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Protocol

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from gatekit.errors import Problem
from gatekit.resources import schema
from gatekit.service_keys import without_keys
from gatekit.spec.composition import Composition, is_private
from gatekit.spec.file_schema import without_required
from gatekit.spec.meant import in_wanted_type, section_of
from gatekit.spec.reader import KeyPath, references

# Looking for the word that was meant takes a third of a millisecond, and a file holds thousands of words.
MOST_SUGGESTIONS = 20
# What other harnesses call it.
_OTHER_WORDS = {
    "threshold": "floor",
    "accuracy_threshold": "floor",
    "limit": "n",
    "num_questions": "n",
    "num_shots": "shots",
    "num_fewshot": "shots",
    "context_length": "max_model_len",
    "tp_size": "tensor_parallel_size",
    "dp_size": "data_parallel_size",
    "num_threads": "concurrency",
}

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?) ?%")
_HARMLESS_CHARACTERS = 6
_THRESHOLDS = frozenset({("gate", "floor"), ("gate", "tolerance")})

SECTIONS = ("model", "hw", "engine", "protocol", "task", "gate", "history", "client")

# Of two complaints about one value, the first of these is told.
_TELLING = (
    "missing-key",
    "unknown-key",
    "not-finite",
    "wrong-type",
    "unknown-choice",
    "out-of-range",
    "bad-value",
    "bad-form",
)

_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way in which data breaks a schema: at the value (with `at_key`: the key) of `path`."""

    path: KeyPath
    what: str
    reason: str
    hint: str = ""
    at_key: bool = False
    place: KeyPath | None = None

    def located(self, locate: Locate) -> Problem:
        """The fault as a problem, at the place that `locate` finds."""
        where = locate(self.path if self.place is None else self.place, key=self.at_key)
        return Problem(where=where, what=self.what, reason=self.reason, hint=self.hint)


class Locate(Protocol):
    """Where the value (with `key`: the key) of a path was written."""

    def __call__(self, path: KeyPath, *, key: bool = False) -> str:
        """An override, or `file:line:column`."""


def problems(composition: Composition) -> list[Problem]:
    """Every way in which a composed config breaks the schemas, in the order of the sections."""
    return [fault.located(composition.locate) for fault in faults(composition.data)]


def faults(data: Mapping[str, Any]) -> list[Fault]:
    """Every way in which a composed config breaks the schemas, in the order of the sections."""
    return _faults(_validator(complete=True), data)


def faults_of_file(data: Mapping[str, Any]) -> list[Fault]:
    """Every way in which what stands in one file cannot be right, whatever it is composed with.

    The data is placed where the file speaks: under its group's name, but for a model file. Nothing is missing in a
    part of a spec, and a reference may become anything.
    """
    found = _faults(_validator(complete=False), data)
    return [fault for fault in found if not _is_reference(data, fault.path)]


def _faults(validator: Any, data: Mapping[str, Any]) -> list[Fault]:
    errors = sorted(validator.iter_errors(data), key=_section_order)
    return _one_each([*_not_finite(data, ()), *_explained(errors)])


def _one_each(found: Sequence[Fault]) -> list[Fault]:
    """Of the complaints about one value the most telling one, in the order of the first."""
    by_place: dict[tuple[KeyPath, bool], Fault] = {}
    for fault in found:
        told = by_place.setdefault((fault.path, fault.at_key), fault)
        if _TELLING.index(fault.reason) < _TELLING.index(told.reason):
            by_place[fault.path, fault.at_key] = fault
    return list(by_place.values())


def _is_reference(data: Any, path: KeyPath) -> bool:
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        else:
            data = data[part] if isinstance(data, list) and isinstance(part, int) else None
    return isinstance(data, str) and bool(references(data))


def faults_by(name: str, data: Mapping[str, Any]) -> list[Fault]:
    """Every way in which data breaks `schemas/<name>.schema.json` by itself, in its order; names of keys aside."""
    in_order = sorted(
        _validator_of(name).iter_errors(data), key=lambda error: [str(step).zfill(9) for step in error.path]
    )
    named = (error for error in in_order if "propertyNames" not in error.absolute_schema_path)
    return _one_each([*_explained(named)])


@cache
def _validator_of(name: str) -> Any:
    return _strict({key: value for key, value in schema(name).items() if key != "$schema"})


def _not_finite(value: Any, path: KeyPath) -> Iterator[Fault]:
    # NaN is neither below a minimum nor above a maximum, so no schema refuses it.
    if isinstance(value, float) and not math.isfinite(value):
        yield Fault(path=path, what=f"{dotted(path)}: {value} is not a finite number", reason="not-finite")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _not_finite(item, (*path, key))


def dotted(path: KeyPath) -> str:
    """A key path as it is typed."""
    return ".".join(map(str, path))


@cache
def _validator(*, complete: bool) -> Any:
    # A schema that names its dialect would be checked by the dialect's own class instead of the strict one.
    bare = {name: {key: value for key, value in schema(name).items() if key != "$schema"} for name in SECTIONS}
    if not complete:
        bare = {name: without_required(section) for name, section in bare.items()}
    resources = [(f"gatekit:{name}", DRAFT202012.create_resource(contents)) for name, contents in bare.items()]
    registry: Registry[Any] = Registry().with_resources(resources)
    whole = {key: value for key, value in schema("spec").items() if key != "$schema"}
    return _strict(whole if complete else without_required(whole), registry=registry)


def _strict(contents: Any, **more: Any) -> Any:
    # JSON Schema takes 1000.0 for an integer; Python does not count with it.
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]  # stubs
    return strict(contents, **more)


def _section_order(error: ValidationError) -> tuple[int, str]:
    section = str(next(iter(error.absolute_path), ""))
    order = SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)
    return order, dotted(tuple(error.absolute_path))


def _explained(errors: Iterable[ValidationError]) -> Iterator[Fault]:
    for number, error in enumerate(errors):
        yield from _explain(error, suggests=number < MOST_SUGGESTIONS)


def _explain(error: ValidationError, *, suggests: bool) -> Iterator[Fault]:
    path: KeyPath = tuple(error.absolute_path)
    if error.validator == "uniqueItems" and not _has_twins(error.instance):
        return
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error, path, suggests=suggests)
    elif error.validator == "required":
        yield from _missing_keys(error, path)
    elif error.validator == "propertyNames":
        yield _bad_name(error, path, suggests=suggests)
    else:
        what, reason, hint = _bad_value(error, suggests=suggests)
        yield Fault(path=path, what=f"{dotted(path)}: {what}", reason=reason, hint=hint)


def _has_twins(items: Any) -> bool:
    """Whether an item that can be read stands twice: None stands for one that cannot, which is told there."""
    readable = [repr(item) for item in items if item is not None]
    return len(set(readable)) < len(readable)


def _near(word: str, known: Iterable[str], *, suggests: bool) -> list[str]:
    if not suggests:
        return []
    words = list(known)
    same = [one for one in words if one.lower() == word.lower()]
    return same[:1] or difflib.get_close_matches(word, words, n=1, cutoff=0.6)


def _unknown_keys(error: ValidationError, path: KeyPath, *, suggests: bool) -> Iterator[Fault]:
    known = list(_schema_of(error).get("properties", ()))
    instance: Mapping[str, Any] = error.instance  # type: ignore[assignment]  # only a mapping has keys
    for number, key in enumerate(sorted(set(instance) - set(known))):
        words = {word: word for word in known} | {word: key for word, key in _OTHER_WORDS.items() if key in known}
        near = _near(key, words, suggests=suggests and number < MOST_SUGGESTIONS)
        listed = f"did you mean {words[near[0]]!r}?" if near else f"known keys: {', '.join(known)}"
        hint = section_of(key, path) or listed
        prefix = f"{dotted(path)}: " if path else ""
        what = f"{prefix}unknown key {key!r}"
        yield Fault(path=(*path, key), what=what, reason="unknown-key", hint=hint, at_key=True)


def _missing_keys(error: ValidationError, path: KeyPath) -> Iterator[Fault]:
    # jsonschema reports each missing key as an error of its own.
    key = error.message.split("'")[1]
    described: Mapping[str, Any] = _schema_of(error).get("properties", {}).get(key, {})
    missing = [(path, key, described)]
    if not path and key in SECTIONS:
        section = schema(key)
        missing += [((key,), inner, section["properties"][inner]) for inner in section["required"]]
    for inside, name, about in missing:
        what = f"{dotted(inside) or 'spec'}: missing key {name!r}"
        may_be_empty = about.get("type") == "object" and not about.get("required")
        hint = f"add `{name}: {{}}`" if may_be_empty else about.get("description", "")
        yield Fault(path=(*inside, name), place=path, what=what, reason="missing-key", hint=hint)


def _bad_name(error: ValidationError, path: KeyPath, *, suggests: bool) -> Fault:
    key = str(error.instance)
    known = _schema_of(error).get("enum", [])
    near = _near(key, known, suggests=suggests)
    hint = f"did you mean {near[0]!r}?" if near else (f"known: {', '.join(known)}" if known else "")
    what = f"{dotted(path)}: bad name {key!r}"
    return Fault(path=(*path, key), what=what, reason="unknown-key", hint=hint, at_key=True)


def _bad_value(error: ValidationError, *, suggests: bool) -> tuple[str, str, str]:
    private = is_private(tuple(error.absolute_path)) and not _is_harmless(error.instance)
    value = "a value" if private else _shown(error.instance)
    if error.validator == "type":
        return _wrong_type(error, value)
    if error.validator == "enum":
        known = [item for item in _schema_of(error)["enum"] if item is not None]
        near = _near(str(error.instance), known, suggests=suggests)
        hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known)}"
        return f"{value} is not a choice", "unknown-choice", hint
    if error.validator in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        return _out_of_range(error, value)
    if error.validator == "pattern":
        hint = _in_lower_case(error) or _schema_of(error).get("description", "")
        return f"{value} does not look right", "bad-form", hint
    what = f"{value} breaks {error.validator}" if private else f"{value}: {error.message[:120]}"
    return what, "bad-value", _schema_of(error).get("description", "")


def _wrong_type(error: ValidationError, value: str) -> tuple[str, str, str]:
    kinds = _schema_of(error)["type"]
    wanted: list[str] = kinds if isinstance(kinds, list) else [kinds]
    names = " or ".join(_TYPES[kind] for kind in wanted)
    hint = _out_of_percent(error) or in_wanted_type(wanted, error.instance, tuple(error.absolute_path))
    if not hint and "object" in wanted:
        hint = _schema_of(error).get("description", "")
    return f"expected {names}, got {value}", "wrong-type", hint


def _is_harmless(value: Any) -> bool:
    """Whether a value is too little to be a secret that somebody put into the wrong place."""
    return isinstance(value, (bool, int, float)) and len(str(value)) <= _HARMLESS_CHARACTERS


def _in_lower_case(error: ValidationError) -> str:
    """The value in lower case, where that would be right; nothing where it would not, or may be a secret."""
    text = str(error.instance)
    pattern = str(error.validator_value)
    is_meant = text.lower() != text and re.search(pattern, text.lower()) is not None
    return f"write {text.lower()}" if is_meant and not is_private(tuple(error.absolute_path)) else ""


def _limits(about: Mapping[str, Any]) -> tuple[Any, Any]:
    return (
        about.get("minimum", about.get("exclusiveMinimum")),
        about.get("maximum", about.get("exclusiveMaximum")),
    )


def _as_fractions(path: KeyPath) -> str:
    return "thresholds are fractions between 0 and 1" if path in _THRESHOLDS else "fractions between 0 and 1"


def _out_of_percent(error: ValidationError) -> str:
    """What a percentage is as a fraction, where one is wanted; nothing elsewhere."""
    found = _PERCENT.fullmatch(error.instance) if isinstance(error.instance, str) else None
    if found is None or _limits(_schema_of(error)) != (0, 1):
        return ""
    share = Decimal(found[1]) / 100
    meant = f"; did you mean {_decimals(share)}?" if share <= 1 else ""
    return _as_fractions(tuple(error.absolute_path)) + meant


def _decimals(share: Decimal) -> str:
    """At least two decimals, as a threshold is written."""
    text = format(share.normalize(), "f")
    return text if len(text.partition(".")[2]) > 1 else f"{share:.2f}"


def _out_of_range(error: ValidationError, value: str) -> tuple[str, str, str]:
    low, high = _limits(_schema_of(error))
    hint = "at least {0}" if high is None else "at most {1}" if low is None else "between {0} and {1}"
    text = hint.format(low, high)
    if (low, high) == (0, 1):
        text = _as_fractions(tuple(error.absolute_path))
        if isinstance(error.instance, (int, float)) and 2 <= error.instance <= 100:
            text += f"; did you mean {error.instance / 100:.2f}?"
    if tuple(error.absolute_path) == ("client", "concurrency"):
        text += (
            f", and fewer than the {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} files that a process may open here"
        )
    return f"{value} is out of range", "out-of-range", text


def _schema_of(error: ValidationError) -> Mapping[str, Any]:
    assert isinstance(error.schema, Mapping), "only a schema with keywords can be broken"
    return error.schema


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    text = without_keys(repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= 80 else text[:77] + "..."
