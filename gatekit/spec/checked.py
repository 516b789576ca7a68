"""From a composition to the frozen Spec that it means, or every way in which it breaks schemas and rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gatekit.errors import ConfigError, Problem
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Spec
from gatekit.spec import rules, schema, texts
from gatekit.spec.composition import Composition
from gatekit.spec.reader import KeyPath
from gatekit.spec.repaired import repaired


def checked(composition: Composition) -> Spec:
    """The Spec of a composition. Raises ConfigError with every problem of the schemas and of the rules."""
    faults = schema.faults(composition.data)
    if faults:
        raise ConfigError(_broken_schemas(composition, faults))
    spec = _spec(composition)
    found = rules.problems(spec, composition)
    if found:
        raise ConfigError(found)
    return spec


def problems(composition: Composition) -> list[Problem]:
    """Every problem of a composition, but for those that its broken places bring along."""
    faults = schema.faults(composition.data)
    if faults or composition.broken or composition.notes:
        return [*composition.notes, *_broken_schemas(composition, faults)]
    return rules.problems(_spec(composition), composition)


def problems_of_section(composition: Composition, group: str) -> list[Problem]:
    """What is wrong with an option of a group whatever spec takes it; the documents are those of the option."""
    faults = [fault for fault in schema.faults(composition.data) if fault.path[:1] == (group,)]
    told = [fault for fault in faults if not is_inside(fault.path, composition.broken)]
    found = [*composition.notes, *(fault.located(composition.locate) for fault in told)]
    data = repaired(composition.data, schema.faults(composition.data))
    if data is not None:
        unsure = composition.broken | {fault.path for fault in faults if not _is_as_if_empty(fault, data)}
        found += rules.of_section(_spec(composition, data), composition, group, unsure=unsure)
    return texts.most_telling(found)


def _broken_schemas(composition: Composition, faults: Collection[schema.Fault]) -> list[Problem]:
    """The faults of the schemas, and what the rules say as far as they do not look at a faulty value."""
    told = [fault for fault in faults if not is_inside(fault.path, composition.broken)]
    found = [fault.located(composition.locate) for fault in told]
    # Without a whole section, most of what the rules miss is in there.
    is_started = not any(fault.reason == "missing-key" and len(fault.path) == 1 for fault in faults)
    data = repaired(composition.data, faults) if is_started else None
    if data is not None:
        unsure = composition.broken | {fault.path for fault in faults if not _is_as_if_empty(fault, data)}
        found += rules.problems(_spec(composition, data), composition, unsure=unsure)
    return texts.most_telling(found)


def _is_as_if_empty(fault: schema.Fault, data: Mapping[str, Any]) -> bool:
    """Whether a list or mapping is missing that says no more when it is there and empty."""
    value: Any = data
    for part in fault.path if fault.reason == "missing-key" else ():
        is_there = part in value if isinstance(value, dict) else isinstance(value, list) and int(part) < len(value)
        value = value[part] if is_there else None
    return value in ([], {})


def is_inside(path: KeyPath, places: Collection[KeyPath]) -> bool:
    """Whether the value at `path` stands at one of the places, or in one."""
    return any(path[: len(place)] == place for place in places)


def _spec(composition: Composition, data: dict[str, object] | None = None) -> Spec:
    choices = composition.choices
    name = f"{choices['model']}-{choices['hw']}-{choices['engine']}"
    return from_plain(Spec, {"name": name, **(composition.data if data is None else data)})
