"""From a composition to the frozen Spec that it means, or every way in which it breaks schemas and rules."""

from __future__ import annotations

from gatekit.errors import ConfigError
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Spec
from gatekit.spec import rules, schema
from gatekit.spec.composition import Composition


def checked(composition: Composition) -> Spec:
    """The Spec of a composition. Raises ConfigError with every problem of the schemas, or else of the rules."""
    found = schema.problems(composition)
    if found:
        raise ConfigError(found)
    choices = composition.choices
    name = f"{choices['model']}-{choices['hw']}-{choices['engine']}"
    spec = from_plain(Spec, {"name": name, **composition.data})
    found = rules.problems(spec, composition)
    if found:
        raise ConfigError(found)
    return spec
