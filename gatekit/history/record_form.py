"""Whether plain data is a run record: every value of the type, and within the bounds, that all readers rely on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gatekit.gate.comparability import comparability, is_later
from gatekit.gate.verdict_check import outcome_flaw
from gatekit.history.score_check import NO_READERS, Readers, score_flaw
from gatekit.records.answers import Observation
from gatekit.records.canonical import Plain
from gatekit.records.moment import is_moment
from gatekit.records.run import RunRecord, contradiction, record_from_plain
from gatekit.resources import schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_SECTIONS = ("model", "hw", "engine", "protocol", "task", "gate", "history", "client")
_PATHS = (("task", "path"), ("engine", "answers"), ("gate", "locks"), ("history", "dir"))
_SHOWN_CHARACTERS = 120


def checked_record(plain: Plain) -> RunRecord:
    """The record behind plain data that nobody vouches for.

    Raises ValueError, naming the first value that is not what it should be, or saying that the digest is another.
    """
    try:
        flaw = _schema_flaw(plain)
        record = None if flaw else record_from_plain(plain)
    except (TypeError, AttributeError, LookupError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    flaw = flaw or (None if record is None else next(_flaws(record), None))
    if record is None or flaw is not None:
        raise ValueError(flaw)
    return record


def record_contradiction(record: RunRecord, readers: Readers = NO_READERS) -> str | None:
    """What a record says against itself; None where it is of one piece. No field of its comparability key may be
    another than its spec and its questions give: runs of one key are counted together without another look. Its
    answers are scored as their texts are read, by its extractor among `readers`, and its outcome is one that can
    follow from their counts."""
    why = contradiction(record) or score_flaw(record, readers) or outcome_flaw(record.verdict, record.counts)
    if why is not None:
        return why
    said = record.comparability.fields
    given = comparability(record.spec, record.dataset, str(said.get("extractor_version"))).fields
    later = filter(is_later, given.keys() | said.keys())
    names = (*(name for name in given if name in said), *sorted(later))
    other = next((name for name in names if said.get(name) != given.get(name)), None)
    return None if other is None else f"comparability.fields.{other} is not what its spec and questions give"


def section_flaw(name: str, plain: Plain) -> str | None:
    """What is wrong with a section of a spec, by its schema; None for one that a config could have."""
    return _first_flaw(_section_validator(name), plain)


def _schema_flaw(plain: Plain) -> str | None:
    """By the schemas. The questions, which are nearly all of a record, are left to typed checks that cost a tenth."""
    if isinstance(plain, Mapping):
        dataset = plain.get("dataset")
        if isinstance(dataset, Mapping) and isinstance(dataset.get("question_ids"), list):
            plain = {**plain, "dataset": {**dataset, "question_ids": []}}
        if isinstance(plain.get("observations"), list):
            plain = {**plain, "observations": []}
    return _first_flaw(_validator(), plain)


def _first_flaw(validator: Draft202012Validator, plain: Plain) -> str | None:
    flaw = next(validator.iter_errors(plain), None)
    if flaw is None:
        return None
    path, what = ".".join(map(str, flaw.absolute_path)), flaw.message
    if len(what) > _SHOWN_CHARACTERS:  # it begins with the value, and the cause would be cut off
        what = f"is not what {flaw.validator} {str(flaw.validator_value)[:_SHOWN_CHARACTERS]} asks for"
    return f"{path}: {what}" if path else what


def _flaws(record: RunRecord) -> Iterator[str]:
    yield from (
        f"{name}: no moment of UTC such as 2026-11-30T03:15:00Z"
        for name in ("started_at", "finished_at")
        if not is_moment(getattr(record, name))
    )
    for section, name in _PATHS:
        path = getattr(getattr(record.spec, section), name)
        if path is not None and not _is_path(path):
            yield f"spec.{section}.{name}: no file can have this name"
    highest = schema("record")["$defs"]["dataset"]["properties"]["question_ids"]["items"]["maximum"]
    yield from _out_of_bounds("dataset.question_ids.{}", record.dataset.question_ids, highest)
    yield from _answer_flaws(record.observations)


@cache
def answer_bounds() -> Mapping[str, float]:
    """The highest value of each number of an answer, by its name; the lowest is 0."""
    properties = schema("record")["$defs"]["observation"]["properties"]
    return {name: about["maximum"] for name, about in properties.items() if "maximum" in about}


def _answer_flaws(observations: Sequence[Observation]) -> Iterator[str]:
    for name, highest in answer_bounds().items():
        values = [getattr(seen, name) for seen in observations]
        yield from _out_of_bounds(f"observations.{{}}.{name}", values, highest)


def _out_of_bounds(where: str, values: Sequence[float | None], highest: float) -> Iterator[str]:
    for number, value in enumerate(values):
        if value is not None and not 0 <= value <= highest:
            yield f"{where.format(number)}: not between 0 and {highest}"


def _is_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeError:
        return False


@cache
def _validator() -> Draft202012Validator:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    sections = {name: _bare(schema(name)) for name in _SECTIONS}
    resources = [(f"gatekit:{name}", DRAFT202012.create_resource(contents)) for name, contents in sections.items()]
    registry: Registry[Plain] = Registry().with_resources(resources)
    record = _bare(schema("record"))
    spec = record["$defs"]["spec"]
    properties = {**spec["properties"], **{name: {"$ref": f"gatekit:{name}"} for name in _SECTIONS}}
    strict = {**spec, "properties": properties, "additionalProperties": False}
    return _strict({**record, "$defs": {**record["$defs"], "spec": strict}}, registry)


@cache
def _section_validator(name: str) -> Draft202012Validator:
    return _strict(_bare(schema(name)))


def _bare(contents: Plain) -> dict[str, Plain]:
    # A schema that names its dialect would be checked by the dialect's own class instead of the strict one.
    return {key: value for key, value in contents.items() if key != "$schema"}


def _strict(contents: Plain, registry: Plain = None) -> Draft202012Validator:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # JSON Schema takes 1000.0 for an integer; Python does not count with it.
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    strict = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]  # stubs
    more = {} if registry is None else {"registry": registry}
    made: Draft202012Validator = strict(contents, **more)
    return made
