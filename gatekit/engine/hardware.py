"""Whether this machine's GPUs are the ones that a spec asks for, and free; what they are, for the record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gatekit.engine.gpu import Gpu
from gatekit.engine.gpus import VENDORS, Seen, seen
from gatekit.engine.visible_gpus import CUDA, HIP, ORDER, ROCR
from gatekit.errors import InfraError
from gatekit.records.spec import Hardware
from gatekit.report.escape import escape_terminal

# Below the capacity on the box there is what ECC and the driver keep: an H200 of 141 GB shows 140.4 GiB.
MEMORY_TOLERANCE = 0.03
_MIB_PER_GIB = 1024
_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD"}
_HIDING = {"nvidia": (CUDA,), "amd": (ROCR, HIP, CUDA)}
_CONTAINER = "NVIDIA_VISIBLE_DEVICES"
_SHOWN_CHARACTERS = 60
_SHOWN_HOLDERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """What this machine does not have, a stable reason, and what to do about it where that is more than another one."""

    what: str
    reason: str
    hint: str = ""


def check_hardware(
    hw: Hardware, environ: Mapping[str, str], *, ways_on: str = "", root: Path = Path("/")
) -> dict[str, str]:
    """What a server with the environment `environ` gets of the GPUs under `root`, as details of a record.

    Raises InfraError, with `ways_on` behind its hint, where they are not those that `hw` asks for. Nothing is read
    for a `hw` without a vendor.
    """
    if hw.vendor not in VENDORS:
        return {}
    found = seen(hw.vendor, environ, root)
    if lack := missing(hw, found, environ):
        raise InfraError(lack.what, reason=lack.reason, hint=", or ".join(filter(None, (lack.hint, ways_on))))
    return facts(hw, found)


def missing(hw: Hardware, found: Seen, environ: Mapping[str, str]) -> Lack | None:
    """Why the found GPUs are not those of `hw`; None where the ones that a server takes first are.

    A name matches as whole words, so that L4 is not found in L40S nor B200 in GB200. A GPU has the memory asked for
    where at most 3 % of it are missing. What the driver does not say is not held against a GPU.
    """
    if found.fault is not None:
        what = f"hw={hw.name} asks for {_wanted(hw)}; {found.fault}"
        return Lack(what=what, reason="gpu-driver", hint="mend the driver, or reboot, until nvidia-smi lists the GPUs")
    fitting = [gpu for gpu in found.gpus if _fits(hw, gpu)]
    if len(fitting) < _count(hw):
        return Lack(what=_too_few(hw, found, environ), reason="hardware-missing")
    taken = found.gpus[: _count(hw)]
    if not all(_fits(hw, gpu) for gpu in (taken if found.is_order_known else found.installed)):
        return _mixed(hw, found, fitting)
    return _occupied(hw, found, fitting)


def facts(hw: Hardware, found: Seen) -> dict[str, str]:
    """The GPUs that a server takes first, the driver's version, and that memory was not checked, if so."""
    details = {f"gpu.{place}": _described(gpu) for place, gpu in enumerate(found.gpus[: _count(hw)])}
    if found.driver is not None:
        details["driver"] = found.driver
    unread = found.unread or "the driver does not say"
    if any(gpu.memory_mib is None for gpu in found.gpus[: _count(hw)]):
        details["gpu.memory"] = f"not checked: {unread}"
    elif any(gpu.used_mib is None for gpu in found.gpus[: _count(hw)]):
        details["gpu.memory"] = f"in use: not checked: {unread}"
    return details


def _count(hw: Hardware) -> int:
    return max(hw.count, 1)


def _fits(hw: Hardware, gpu: Gpu) -> bool:
    if gpu.fault is not None or not _matches(hw.gpu, gpu.name):
        return False
    if None not in (hw.architecture, gpu.architecture) and hw.architecture != gpu.architecture:
        return False
    if hw.memory_gib is None or gpu.memory_mib is None:
        return True
    return gpu.memory_mib >= hw.memory_gib * _MIB_PER_GIB * (1 - MEMORY_TOLERANCE)


def _matches(wanted: str | None, name: str) -> bool:
    if wanted is None:
        return True
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", name, re.IGNORECASE) is not None


def _wanted(hw: Hardware) -> str:
    vendor = _VENDOR_NAMES[hw.vendor]
    gpu = hw.gpu or " ".join(filter(None, (hw.architecture, "GPU")))
    name = gpu if gpu.casefold().startswith(hw.vendor) else f"{vendor} {gpu}"
    memory = "" if hw.memory_gib is None else f" of {hw.memory_gib:g} GiB"
    return f"{_count(hw)} {escape_terminal(name, limit=_SHOWN_CHARACTERS)}{memory}"


def _too_few(hw: Hardware, found: Seen, environ: Mapping[str, str]) -> str:
    kinds = [_kind(gpu) for gpu in found.gpus]
    has = ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
    what = f"hw={hw.name} asks for {_wanted(hw)}; this machine has {has or f'no {_VENDOR_NAMES[hw.vendor]} GPU'}"
    if not found.gpus and not found.installed and found.unread is not None:
        what += f" ({found.unread})"
    hiding = [name for name in _HIDING[hw.vendor] if name in environ]
    if hiding and len(found.installed) > len(found.gpus):
        shown = ", ".join(f"{name}={escape_terminal(environ[name], limit=_SHOWN_CHARACTERS)!r}" for name in hiding)
        what += f" that is visible with {shown}, of {len(found.installed)} in all"
    elif not found.installed and hw.vendor == "nvidia" and environ.get(_CONTAINER, "all") != "all":
        value = escape_terminal(environ[_CONTAINER], limit=_SHOWN_CHARACTERS)
        what += f"; {_CONTAINER}={value!r} is what the container was given"
    return what


def _kind(gpu: Gpu) -> str:
    traits = [] if gpu.memory_mib is None else [f"{gpu.memory_mib / _MIB_PER_GIB:.1f} GiB"]
    traits += [] if gpu.fault is None else [gpu.fault]
    return f"{gpu.name} ({', '.join(traits)})" if traits else gpu.name


def _mixed(hw: Hardware, found: Seen, fitting: Sequence[Gpu]) -> Lack:
    """Enough GPUs fit, but a server may take others: it takes the first that it sees."""
    names = ", ".join(dict.fromkeys(_kind(gpu) for gpu in found.installed))
    order = "the first visible ones are not all such" if found.is_order_known else "CUDA counts by speed"
    what = f"hw={hw.name} asks for {_wanted(hw)}; this machine has {names}, and {order}"
    return Lack(what=what, reason="gpu-order", hint=_choice(hw, fitting) or f"set {ORDER}=PCI_BUS_ID")


def _choice(hw: Hardware, gpus: Sequence[Gpu]) -> str:
    """How to have a server take the first of these GPUs; nothing where they have no UUID or are too few."""
    uuids = [gpu.uuid for gpu in gpus[: _count(hw)] if gpu.uuid is not None]
    variable = CUDA if hw.vendor == "nvidia" else ROCR
    return f"set {variable}={','.join(uuids)}" if len(uuids) == _count(hw) else ""


def _occupied(hw: Hardware, found: Seen, fitting: Sequence[Gpu]) -> Lack | None:
    """The first GPU that a server takes and that holds more of somebody else than it may."""
    gpu = next((gpu for gpu in found.gpus[: _count(hw)] if not _is_free(hw, gpu)), None)
    if gpu is None:
        return None
    named = sorted(gpu.holders, key=lambda holder: -(holder.memory_mib or 0))
    who = ", ".join(
        f"pid {holder.pid}" + ("" if holder.memory_mib is None else f" {holder.memory_mib} MiB")
        for holder in named[:_SHOWN_HOLDERS]
    )
    who += f" and {len(named) - _SHOWN_HOLDERS} more" if len(named) > _SHOWN_HOLDERS else ""
    what = (
        f"hw={hw.name}: GPU {gpu.index}, {gpu.name}, has {gpu.used_mib} of {gpu.memory_mib} MiB in use: "
        f"{who or 'its driver names no process here'}"
    )
    choice = _choice(hw, [other for other in fitting if _is_free(hw, other)])
    share = f"lower hw.free_memory_share (now {hw.free_memory_share:g})"
    hint = ", ".join(filter(None, ("end what holds it", choice, share)))
    return Lack(what=what, reason="gpu-memory-in-use", hint=hint)


def _is_free(hw: Hardware, gpu: Gpu) -> bool:
    if gpu.memory_mib is None or gpu.used_mib is None:
        return True
    return gpu.memory_mib - gpu.used_mib >= gpu.memory_mib * hw.free_memory_share


def _described(gpu: Gpu) -> str:
    memory = None if gpu.memory_mib is None else f"{gpu.memory_mib} MiB"
    power = None if gpu.power_limit_w is None else f"{gpu.power_limit_w} W"
    return ", ".join(filter(None, (gpu.name, memory, gpu.architecture, power, gpu.uuid)))
