"""A GPU as a driver describes it, and what a driver said of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds memory of a GPU; how much is None where the driver does not say."""

    pid: int
    memory_mib: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU, or one MIG device of a GPU. What the driver does not say is None.

    `index` counts as the driver does. `parts` are the MIG devices of a GPU in MIG mode, and None for any other.
    `fault` says why it cannot be used.
    """

    index: int
    name: str
    uuid: str | None = None
    architecture: str | None = None
    memory_mib: int | None = None
    used_mib: int | None = None
    power_limit_w: int | None = None
    holders: tuple[Holder, ...] = ()
    parts: tuple[Gpu, ...] | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one vendor's driver said: all GPUs that it has, in its order, and its version.

    `unread` says why its library could not be asked, so that there are names at most. `fault` says why no GPU of
    this vendor can be used.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    unread: str | None = None
    fault: str | None = None


def reading_of(plain: Mapping[str, Any]) -> Reading:
    """The reading of which `dataclasses.asdict` made `plain`. Raises KeyError or TypeError for anything else."""
    return replace(Reading(**plain), gpus=tuple(map(_gpu_of, plain["gpus"])))


def _gpu_of(plain: Mapping[str, Any]) -> Gpu:
    parts = plain["parts"]
    holders = tuple(Holder(**holder) for holder in plain["holders"])
    return replace(Gpu(**plain), holders=holders, parts=None if parts is None else tuple(map(_gpu_of, parts)))
