"""The room's front: from command-line overrides to validated, frozen Specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.spec.composition import shown_override
from gatekit.spec.folders import usable
from gatekit.spec.library import Library

CONF_PATH_VARIABLE = "GATEKIT_CONF_PATH"


def config_dirs(extra: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The config folders, strongest first: `--config-dir`s, `GATEKIT_CONF_PATH` (colon-separated), ours.

    A folder that is named twice counts where it stands first; empty entries of the variable name none.
    Raises ConfigError with a line for each folder that does not exist or cannot be read.
    """
    named = [("--config-dir", name) for name in extra]
    named += [(CONF_PATH_VARIABLE, name) for name in environ.get(CONF_PATH_VARIABLE, "").split(":") if name]
    return usable([*named, ("the shipped configs", str(conf_dir()))])


def resolve(overrides: Sequence[str], *, dirs: Sequence[Path]) -> Spec:
    """The one Spec that `overrides` ask for. Raises ConfigError with every problem at once."""
    return Library(dirs).resolve(overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One spec of a sweep, and the overrides by which it differs from the others."""

    label: str
    spec: Spec


def resolve_many(overrides: Sequence[str], *, dirs: Sequence[Path]) -> tuple[Swept, ...]:
    """Every spec of a sweep, in the sweep's order. Raises ConfigError with the problems of all of them."""
    from gatekit.spec.compose import sweep  # brings Hydra

    library = Library(dirs)
    swept: list[Swept] = []
    found: list[Problem] = []
    batches = sweep(overrides, config_dirs=dirs)
    shared = set.intersection(*map(set, batches)) if len(batches) > 1 else set()
    for batch in batches:
        try:
            spec = library.resolve(batch)
        except ConfigError as error:
            found.extend(error.problems)
        else:
            label = " ".join(shown_override(o) for o in batch if o not in shared)
            swept.append(Swept(label=label or spec.name, spec=spec))
    if found:
        raise ConfigError(list(dict.fromkeys(found)))
    return tuple(swept)
