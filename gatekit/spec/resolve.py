"""The room's front: from command-line overrides to validated, frozen Specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.spec import compose
from gatekit.spec.checked import checked

CONF_PATH_VARIABLE = "GATEKIT_CONF_PATH"


def config_dirs(extra: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The config folders, strongest first: `--config-dir`s, `GATEKIT_CONF_PATH` (colon-separated), ours.

    Raises ConfigError for a folder that does not exist.
    """
    named = [*extra, *filter(None, environ.get(CONF_PATH_VARIABLE, "").split(":"))]
    for name in named:
        if not Path(name).is_dir():
            raise ConfigError.one(f"config folder {name!r} does not exist", reason="no-config-dir")
    return (*map(Path, named), conf_dir())


def resolve(overrides: Sequence[str], *, dirs: Sequence[Path]) -> Spec:
    """The one Spec that `overrides` ask for. Raises ConfigError with every problem at once."""
    return checked(compose.compose(overrides, config_dirs=dirs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One spec of a sweep, and the overrides by which it differs from the others."""

    label: str
    spec: Spec


def resolve_many(overrides: Sequence[str], *, dirs: Sequence[Path]) -> tuple[Swept, ...]:
    """Every spec of a sweep, in the sweep's order. Raises ConfigError with the problems of all of them."""
    swept: list[Swept] = []
    found: list[Problem] = []
    batches = compose.sweep(overrides, config_dirs=dirs)
    shared = set.intersection(*map(set, batches)) if len(batches) > 1 else set()
    for batch in batches:
        try:
            spec = resolve(batch, dirs=dirs)
        except ConfigError as error:
            found.extend(error.problems)
        else:
            swept.append(Swept(label=" ".join(o for o in batch if o not in shared) or spec.name, spec=spec))
    if found:
        raise ConfigError(list(dict.fromkeys(found)))
    return tuple(swept)
