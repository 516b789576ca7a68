"""The front of GPU reading: what a server started here would see of one vendor's GPUs, and their memory in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.engine import nvidia_files, nvml, rocm
from gatekit.engine.gpu import Gpu, Reading
from gatekit.engine.visible_gpus import is_order_known, visible_amd, visible_nvidia

_ROOT = Path("/")
VENDORS = ("nvidia", "amd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The GPUs that the environment leaves, in the order in which a server takes them, beside all there are.

    `is_order_known` is False where that order is a guess. `driver`, `unread` and `fault` are those of the reading.
    """

    gpus: tuple[Gpu, ...] = ()
    installed: tuple[Gpu, ...] = ()
    is_order_known: bool = True
    driver: str | None = None
    unread: str | None = None
    fault: str | None = None


def seen(vendor: str, environ: Mapping[str, str], root: Path = _ROOT) -> Seen:
    """What a server with the environment `environ` would see of the GPUs of `vendor`, nvidia or amd.

    NVIDIA's library speaks of this machine alone: under any other `root` only the driver's files are read.
    """
    if vendor == "amd":
        reading, is_known = rocm.read(root), True
        shown = visible_amd(reading.gpus, environ)
    else:
        reading = _nvidia(root)
        shown, is_known = visible_nvidia(reading.gpus, environ), is_order_known(reading.gpus, environ)
    return Seen(
        gpus=shown,
        installed=reading.gpus,
        is_order_known=is_known,
        driver=reading.driver,
        unread=reading.unread,
        fault=reading.fault,
    )


def memory_in_use(environ: Mapping[str, str], root: Path = _ROOT) -> dict[str, int] | None:
    """The MiB in use of each GPU that a server with this environment would see, whoever holds them; {} without GPUs.

    A GPU is named by its UUID, or else by vendor and number. None where the memory of one of them is not known, or a
    driver is in trouble.
    """
    used: dict[str, int] = {}
    for vendor in VENDORS:
        found = seen(vendor, environ, root)
        if found.fault is not None:
            return None
        for gpu in found.gpus:
            if gpu.used_mib is None:
                return None
            used[gpu.uuid or f"{vendor} {gpu.index}"] = gpu.used_mib
    return used


def _nvidia(root: Path) -> Reading:
    reading = nvml.read() if root == _ROOT else Reading(unread="NVIDIA's management library was not asked")
    if reading.unread is None:
        return reading
    return replace(nvidia_files.read(root), unread=reading.unread)
