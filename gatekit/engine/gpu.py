"""A GPU as a driver describes it, and what a driver said of all of them."""

from __future__ import annotations

from dataclasses import dataclass


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
