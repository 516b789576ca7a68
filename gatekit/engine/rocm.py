"""AMD's GPUs as its kernel driver (amdgpu with amdkfd) shows them in /sys.

The files are the kernel's own interface, which AMD's libraries (amdsmi, librocm_smi64) read too: nothing has to be
installed, and nothing can be of another version than the driver.
"""

from __future__ import annotations

import re
from pathlib import Path

from gatekit.engine.driver_file import line, lines, natural, number
from gatekit.engine.gpu import Gpu, Holder, Reading
from gatekit.report.escape import escape_terminal

_MIB = 1 << 20
_NAME_CHARACTERS = 80
_PRODUCTS = {
    "gfx908": "MI100",
    "gfx90a": "MI210/MI250/MI250X",
    "gfx942": "MI300A/MI300X/MI325X",
    "gfx950": "MI350X/MI355X",
}
_ARCHITECTURES = (
    ("gfx908", "cdna"),
    ("gfx90a", "cdna2"),
    ("gfx94", "cdna3"),
    ("gfx95", "cdna4"),
    ("gfx103", "rdna2"),
    ("gfx11", "rdna3"),
    ("gfx12", "rdna4"),
)
_VRAM_HEAPS = ("1", "2")  # frame buffer, visible to the host or not (HSA_HEAPTYPE_FRAME_BUFFER_*)


def read(root: Path) -> Reading:
    """Every topology node with SIMDs, in the order of the nodes, which is that of the runtime."""
    gpus: list[Gpu] = []
    nodes = root.glob("sys/class/kfd/kfd/topology/nodes/*/properties")
    for path in sorted(nodes, key=lambda path: path.parent.name.zfill(9)):
        fields = _fields(path)
        if fields.get("simd_count", "0") not in ("", "0"):
            gpus.append(_gpu(root, path.parent, fields, len(gpus)))
    return Reading(gpus=tuple(gpus), driver=_driver(root) if gpus else None)


def _gpu(root: Path, node: Path, fields: dict[str, str], index: int) -> Gpu:
    target = _target(fields.get("gfx_target_version", ""))
    device = root / f"sys/class/drm/renderD{natural(fields.get('drm_render_minor')) or 0}/device"
    total = number(device / "mem_info_vram_total")
    used = number(device / "mem_info_vram_used")
    total = _banks(node) if total is None else total
    unique = natural(fields.get("unique_id"))
    product = line(device / "product_name")
    return Gpu(
        index=index,
        name=_name(target) if product is None else _product(product),
        uuid=f"GPU-{unique:016x}" if unique else None,
        architecture=next((name for start, name in _ARCHITECTURES if (target or "").startswith(start)), None),
        memory_mib=None if total is None else total // _MIB,
        used_mib=None if used is None else used // _MIB,
        power_limit_w=_power_limit(device),
        holders=_holders(root, number(node / "gpu_id")),
    )


def _driver(root: Path) -> str | None:
    """The version of an amdgpu that was built apart from the kernel; else the kernel's own."""
    apart = line(root / "sys/module/amdgpu/version")
    kernel = line(root / "proc/sys/kernel/osrelease")
    text = f"amdgpu {apart}" if apart else None if kernel is None else f"Linux {kernel}"
    return None if text is None else escape_terminal(text, limit=_NAME_CHARACTERS)


def _banks(node: Path) -> int | None:
    """The bytes of the node's own memory banks; None where there are none."""
    banks = [_fields(path) for path in sorted(node.glob("mem_banks/*/properties"))]
    sizes = [natural(bank.get("size_in_bytes")) for bank in banks if bank.get("heap_type") in _VRAM_HEAPS]
    return sum(size for size in sizes if size is not None) or None


def _power_limit(device: Path) -> int | None:
    microwatts = next((number(path) for path in sorted(device.glob("hwmon/hwmon*/power1_cap"))), None)
    return microwatts // 1_000_000 if microwatts else None


def _holders(root: Path, gpu_id: int | None) -> tuple[Holder, ...]:
    """The processes that the compute driver knows, by the bytes they hold of this GPU."""
    holders = []
    for path in sorted(root.glob(f"sys/class/kfd/kfd/proc/*/vram_{gpu_id}")):
        pid, held = natural(path.parent.name), number(path)
        if pid and held:
            holders.append(Holder(pid=pid, memory_mib=held // _MIB))
    return tuple(holders)


def _target(version: str) -> str | None:
    """The gfx target of a version such as 90402 (major 9, minor 4, stepping 2 in hex)."""
    if not re.fullmatch(r"[0-9]{5,6}", version):
        return None
    number_ = int(version)
    return f"gfx{number_ // 10000}{number_ // 100 % 100:x}{number_ % 100:x}"


def _name(target: str | None) -> str:
    """What a target's products are called, where the board does not say which one it is."""
    if target is None:
        return "AMD GPU"
    return f"AMD {_PRODUCTS[target]} ({target})" if target in _PRODUCTS else f"AMD {target}"


def _product(text: str) -> str:
    name = escape_terminal(text, limit=_NAME_CHARACTERS)
    return name if name.casefold().startswith("amd") else f"AMD {name}"


def _fields(path: Path) -> dict[str, str]:
    return {
        key: value.strip() for key, value in (text.split(maxsplit=1) for text in lines(path) if " " in text.strip())
    }
