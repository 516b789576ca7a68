"""Which GPUs the environment leaves to a process, in the order in which it would take them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gatekit.engine.gpu import Gpu

CUDA = "CUDA_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def visible_nvidia(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA shows under CUDA_VISIBLE_DEVICES.

    Entries are indices, unambiguous beginnings of UUIDs, or MIG devices; the first that is none of them ends the
    list, and a repeated one empties it. A GPU in MIG mode stands for its first MIG device, and for nothing where it
    has none. Of MIG devices CUDA shows one, and no whole GPU beside it.
    Source: CUDA Programming Guide, CUDA_VISIBLE_DEVICES; NVIDIA MIG User Guide, "CUDA device enumeration".
    """
    entries = environ.get(CUDA)
    shown = list(gpus) if entries is None else _chosen(gpus, entries)
    devices = [device for device in (_first_part(gpu) for gpu in shown) if device is not None]
    parts = [part for gpu in gpus for part in gpu.parts or ()]
    return tuple(devices[:1] if devices and devices[0] in parts else (d for d in devices if d not in parts))


def visible_amd(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that ROCR_VISIBLE_DEVICES leaves, and of those the ones that HIP shows.

    HIP reads HIP_VISIBLE_DEVICES, and where that is empty CUDA_VISIBLE_DEVICES; both empty hide nothing.
    Source: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html
    """
    rocr = environ.get(ROCR)
    left = list(gpus) if rocr is None else _chosen(gpus, rocr)
    hip = environ.get(HIP) or environ.get(CUDA)
    return tuple(_chosen(left, hip) if hip else left)


def is_order_known(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> bool:
    """Whether CUDA counts these GPUs as their driver does, or nothing is counted.

    Without CUDA_DEVICE_ORDER=PCI_BUS_ID it counts the fastest first, by a measure of its own.
    """
    entries = environ.get(CUDA)
    names_them = bool(entries) and all(entry.strip().startswith(("GPU-", "MIG-")) for entry in str(entries).split(","))
    return len({gpu.name for gpu in gpus}) <= 1 or names_them or environ.get(ORDER) == "PCI_BUS_ID"


def _chosen(gpus: Sequence[Gpu], entries: str) -> list[Gpu]:
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in entries.split(",")):
        gpu = _one(gpus, entry)
        if gpu is None:
            break
        if gpu in chosen:
            return []
        chosen.append(gpu)
    return chosen


def _one(gpus: Sequence[Gpu], entry: str) -> Gpu | None:
    if entry.startswith("GPU-"):
        return _only(gpu for gpu in gpus if _begins(gpu.uuid, entry))
    if entry.startswith("MIG-"):
        return _only(part for gpu in gpus for part in gpu.parts or () if _begins(part.uuid, entry))
    index = re.match(r"\+?([0-9]{1,9})", entry)  # what stands behind the digits is not read
    return gpus[int(index[1])] if index and int(index[1]) < len(gpus) else None


def _only(found: Iterable[Gpu]) -> Gpu | None:
    all_ = list(found)
    return all_[0] if len(all_) == 1 else None


def _begins(uuid: str | None, beginning: str) -> bool:
    return uuid is not None and uuid.casefold().startswith(beginning.casefold())


def _first_part(gpu: Gpu) -> Gpu | None:
    return gpu if gpu.parts is None else next(iter(gpu.parts), None)
