"""Which GPUs this machine has, and whether they are the ones a spec asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.records.spec import Hardware

_MOST_BYTES = 65536
_GFX_PRODUCTS = {
    "gfx908": "MI100",
    "gfx90a": "MI210/MI250/MI250X",
    "gfx942": "MI300A/MI300X/MI325X",
    "gfx950": "MI350X/MI355X",
}
_VENDOR_NAMES = {"nvidia": "NVIDIA", "amd": "AMD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The names of the GPUs that a server started here would see."""

    nvidia: tuple[str, ...] = ()
    amd: tuple[str, ...] = ()


def probe(root: Path = Path("/"), *, environ: Mapping[str, str] | None = None) -> Found:
    """The GPUs that the kernel drivers report under `root`, less those hidden by *_VISIBLE_DEVICES.

    NVIDIA names are the driver's own; AMD ones are made of the gfx target and the products that have it.
    """
    variables = environ or {}
    nvidia = _visible(_nvidia(root), variables.get("CUDA_VISIBLE_DEVICES"))
    amd = _visible(_amd(root), variables.get("ROCR_VISIBLE_DEVICES"))
    amd = _visible(amd, variables.get("HIP_VISIBLE_DEVICES"))
    return Found(nvidia=tuple(name for name, _ in nvidia), amd=tuple(name for name, _ in amd))


def missing(hw: Hardware, found: Found) -> str | None:
    """One sentence why the found GPUs are not those of `hw`; None when they are or none are needed.

    A name matches as whole words, so that L4 is not found in L40S nor B200 in GB200. A vendor other than
    nvidia and amd cannot be probed and is not refused.
    """
    names = {"nvidia": found.nvidia, "amd": found.amd}.get(hw.vendor)
    if names is None:
        return None
    count = max(hw.count, 1)
    if sum(_matches(hw.gpu, name) for name in names) >= count:
        return None
    vendor = _VENDOR_NAMES[hw.vendor]
    wanted = hw.gpu or "GPU"
    wanted = wanted if wanted.casefold().startswith(hw.vendor) else f"{vendor} {wanted}"
    has = ", ".join(f"{names.count(name)} x {name}" for name in sorted(set(names)))
    return f"hw={hw.name} asks for {count} {wanted}; this machine has {has or f'no {vendor} GPU'}"


def _matches(wanted: str | None, name: str) -> bool:
    if wanted is None:
        return True
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", name, re.IGNORECASE) is not None


def _nvidia(root: Path) -> list[tuple[str, str]]:
    gpus = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        fields = dict(line.split(":", 1) for line in _lines(path) if ":" in line)
        if model := fields.get("Model", "").strip():
            gpus.append((model, fields.get("GPU UUID", "").strip()))
    return gpus


def _amd(root: Path) -> list[tuple[str, str]]:
    nodes = root.glob("sys/class/kfd/kfd/topology/nodes/*/properties")
    gpus = []
    for path in sorted(nodes, key=lambda path: path.parent.name.zfill(9)):
        fields = dict(line.split(maxsplit=1) for line in _lines(path) if " " in line.strip())
        if fields.get("simd_count", "0").strip() not in ("", "0"):
            gpus.append((_amd_name(fields.get("gfx_target_version", "")), ""))
    return gpus


def _amd_name(version: str) -> str:
    """The name behind a gfx target version such as 90402 (major 9, minor 4, stepping 2 in hex)."""
    if not re.fullmatch(r"[0-9]{5,6}", version.strip()):
        return "AMD GPU"
    number = int(version)
    gfx = f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"
    return f"AMD {_GFX_PRODUCTS[gfx]} ({gfx})" if gfx in _GFX_PRODUCTS else f"AMD {gfx}"


def _visible(gpus: list[tuple[str, str]], variable: str | None) -> list[tuple[str, str]]:
    """The (name, uuid) pairs that the variable leaves: by index or UUID, up to the first that is neither."""
    if variable is None:
        return gpus
    visible: list[tuple[str, str]] = []
    for entry in (part.strip() for part in variable.split(",")):
        if re.fullmatch(r"[0-9]{1,4}", entry):
            chosen = gpus[int(entry) : int(entry) + 1]
        else:
            chosen = [gpu for gpu in gpus if entry.startswith("GPU-") and gpu[1].startswith(entry)]
        if not chosen:
            break
        visible += chosen[:1]
    return visible


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
