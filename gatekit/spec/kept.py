"""The spec that a run kept, with what is to be otherwise when it goes on; checked as any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gatekit.errors import ConfigError
from gatekit.records.canonical import from_plain, to_plain
from gatekit.records.spec import Spec
from gatekit.spec import rules, schema
from gatekit.spec.composition import Composition


def kept_spec(spec: Spec, overrides: Sequence[str], *, dirs: Sequence[Path]) -> Spec:
    """The spec with the values that `overrides` set, such as `client.deadline_s=100`.

    Raises ConfigError with every problem: of the overrides, and of the spec, whose file may have been changed.
    """
    data = {key: value for key, value in to_plain(spec).items() if key != "name"}
    if overrides:
        from gatekit.spec.compose import values  # brings Hydra

        for path, value in values(overrides, config_dirs=dirs):
            data = _with(data, path, value)
    engine = f"engine={spec.engine.name}"
    kept = Composition(
        data=data,
        choices={"model": spec.model.name, "hw": spec.hw.name, "engine": spec.engine.name},
        overrides=(engine, *(f"++{text.lstrip('+')}" for text in overrides)),
        documents=(),
    )
    faults = [fault.located(kept.locate) for fault in schema.faults(data)]
    if faults:
        raise ConfigError(faults)
    found: Spec = from_plain(Spec, {"name": spec.name, **data})
    problems = rules.problems(found, kept)
    if problems:
        raise ConfigError(problems)
    return found


def _with(data: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The data with `value` at `path`; what cannot hold it is replaced, and the schemas say so."""
    key, *rest = path
    inner = data.get(key)
    return {**data, key: _with(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}
