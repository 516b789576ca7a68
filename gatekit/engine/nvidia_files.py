"""NVIDIA's GPUs by name alone, from the files of its kernel driver: what is left where its library cannot be asked."""

from __future__ import annotations

import re
from pathlib import Path

from gatekit.engine.driver_file import line, lines
from gatekit.engine.gpu import Gpu, Reading
from gatekit.report.escape import escape_terminal

_NAME_CHARACTERS = 80


def read(root: Path) -> Reading:
    """Name and UUID of each GPU, ordered by PCI address, and the driver's version; no memory and no process."""
    gpus: list[Gpu] = []
    for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")):
        fields = dict(text.split(":", 1) for text in lines(path) if ":" in text)
        if name := escape_terminal(fields.get("Model", "").strip(), limit=_NAME_CHARACTERS):
            uuid = escape_terminal(fields.get("GPU UUID", "").strip(), limit=_NAME_CHARACTERS)
            gpus.append(Gpu(index=len(gpus), name=name, uuid=uuid or None))
    return Reading(gpus=tuple(gpus), driver=version(root))


def version(root: Path) -> str | None:
    """The version of the kernel driver, None where it is not loaded."""
    text = line(root / "proc/driver/nvidia/version") or ""
    found = re.search(r"Kernel Module\b.*?\s([0-9]{2,4}(?:\.[0-9]{1,4}){1,3})(?=\s|$)", text)
    return found[1] if found else None
