"""NVIDIA's GPUs as its management library (NVML) reports them, through the bindings that NVIDIA publishes.

The bindings are the package nvidia-ml-py (extra `gpu`), which loads libnvidia-ml.so.1 of the installed driver. They are
used by a process of their own (`nvml_child`): a library in trouble ends or stops its process, and an exit code of this
one is a verdict.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gatekit.engine.gpu import Gpu, Holder, Reading, reading_of
from gatekit.report.escape import escape_terminal

INSTALL = "pip install 'gatekit[gpu]'"
_TIMEOUT_S = 30.0
_AFTER_KILL_S = 1.0
_MOST_GPUS = 1024
_MOST_PARTS = 64
_TRIES = 3
_MIB = 1 << 20
_TEXT_CHARACTERS = 100
# Other packages install a module of this name too; these are what only NVIDIA's own of this decade has.
_BINDINGS = "pynvml"
_NOT_FOUND = "libnvidia-ml.so.1 is not found: no NVIDIA driver is installed, or this container lacks it"
# A library that is not there is looked for once: most machines have none, and a process takes a tenth of a second.
_absent: list[Reading] = []
_held_by_driver: list[subprocess.Popen[bytes]] = []
_NEEDED = ("nvmlInitWithFlags", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlMemory_v2", "nvmlDeviceGetMigMode")


def read(timeout_s: float = _TIMEOUT_S) -> Reading:
    """Every GPU of this machine, those in trouble too, and the driver's version.

    A driver in trouble can block its callers, or end them, so that no answer within `timeout_s` is a fault.
    """
    if importlib.util.find_spec(_BINDINGS) is None:
        return Reading(unread=f"NVIDIA's management library was not asked: {INSTALL}")
    if _absent:
        return _absent[0]
    try:
        child = _child()
    except OSError as error:
        return Reading(fault=f"NVIDIA's driver was not asked, for want of a process: {error.strerror}")
    try:
        answer, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _leave_alone(child)
        return Reading(fault=f"NVIDIA's driver did not answer within {timeout_s:g} s")
    try:
        reading = reading_of(json.loads(answer))
    except (ValueError, TypeError, KeyError):
        ending = _ending(child.returncode)
        return Reading(fault=f"NVIDIA's management library ended the process that asked it, {ending}")
    if reading.unread == _NOT_FOUND:
        _absent.append(reading)
    return reading


def read_here() -> Reading:
    """The same, asked in this very process, for as long as it takes."""
    try:
        nvml = importlib.import_module(_BINDINGS)
    except ImportError:
        return Reading(unread=f"NVIDIA's management library was not asked: {INSTALL}")
    if not all(hasattr(nvml, name) for name in _NEEDED):
        foreign = f"the module {_BINDINGS} is not that of nvidia-ml-py"
        return Reading(unread=f"{foreign}: pip uninstall pynvml nvidia-ml-py3, then {INSTALL} --force-reinstall")
    return _read(nvml)


def _child() -> subprocess.Popen[bytes]:
    """A process of this Python that looks for modules where this one does."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        (sys.executable, "-P", "-m", "gatekit.engine.nvml_child"),
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _leave_alone(child: subprocess.Popen[bytes]) -> None:
    """Kills it; one that a driver holds in the kernel dies when that lets it go, and is not waited for."""
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_AFTER_KILL_S)
        return
    _held_by_driver.append(child)


def _ending(code: int) -> str:
    return f"with exit code {code}" if code >= 0 else f"by signal {-code}"


def _read(nvml: Any) -> Reading:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _not_started(nvml, error)
    try:
        driver = _known(nvml, nvml.nvmlSystemGetDriverVersion)
        count = min(nvml.nvmlDeviceGetCount(), _MOST_GPUS)
        gpus = tuple(_gpu(nvml, index) for index in range(count))
        return Reading(gpus=gpus, driver=None if driver is None else _safe(driver))
    except nvml.NVMLError as error:
        return Reading(fault=f"NVIDIA's driver does not list its GPUs: {_why(error)}")
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _not_started(nvml: Any, error: Any) -> Reading:
    code = error.value
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return Reading(unread=_NOT_FOUND)
    if code == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return Reading(unread="NVIDIA's kernel driver is not loaded")
    if code in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_GPU_NOT_FOUND):
        return Reading()
    if code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return Reading(fault="NVIDIA's kernel driver and its libraries are of different versions (as after an update)")
    if code == nvml.NVML_ERROR_NO_PERMISSION:
        return Reading(fault="this user has no permission to use NVIDIA's driver (/dev/nvidiactl)")
    return Reading(fault=f"NVIDIA's management library does not start: {_why(error)}")


def _gpu(nvml: Any, index: int) -> Gpu:
    """The GPU at that place; one that gives no handle, or that is lost while it is asked, has a fault."""
    name = "NVIDIA GPU"
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _safe(nvml.nvmlDeviceGetName(handle))
        mig = _known(nvml, nvml.nvmlDeviceGetMigMode, handle)
        parts = _parts(nvml, handle) if mig is not None and mig[0] else None
        return replace(_described(nvml, handle, index, name), parts=parts)
    except nvml.NVMLError as error:
        return Gpu(index=index, name=name, fault=_why(error))


def _described(nvml: Any, handle: Any, index: int, name: str) -> Gpu:
    total, used = _memory(nvml, handle)
    uuid = _known(nvml, nvml.nvmlDeviceGetUUID, handle)
    capability = _known(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    milliwatts = _known(nvml, nvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    return Gpu(
        index=index,
        name=name,
        uuid=None if uuid is None else _safe(uuid),
        architecture=None if capability is None else _architecture(*capability),
        memory_mib=total,
        used_mib=used,
        power_limit_w=None if milliwatts is None else milliwatts // 1000,
        holders=_holders(nvml, handle),
    )


def _parts(nvml: Any, handle: Any) -> tuple[Gpu, ...]:
    parts = []
    most = _known(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0
    for index in range(min(most, _MOST_PARTS)):
        part = _known(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if part is not None:
            name = _known(nvml, nvml.nvmlDeviceGetName, part)
            parts.append(_described(nvml, part, index, "NVIDIA MIG device" if name is None else _safe(name)))
    return tuple(parts)


def _memory(nvml: Any, handle: Any) -> tuple[int | None, int | None]:
    """Total and used MiB. Only the second version keeps apart what the driver has reserved for itself."""
    found = _known(nvml, nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if found is None:
        found = _known(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    return (None, None) if found is None else (found.total // _MIB, found.used // _MIB)


def _holders(nvml: Any, handle: Any) -> tuple[Holder, ...]:
    ask = nvml.nvmlDeviceGetComputeRunningProcesses_v3
    for _ in range(_TRIES):
        try:
            return tuple(_holder(process) for process in ask(handle))
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_FUNCTION_NOT_FOUND:  # a driver before 510
                ask = nvml.nvmlDeviceGetComputeRunningProcesses_v2
            elif error.value != nvml.NVML_ERROR_INSUFFICIENT_SIZE:  # else more processes came since it was counted
                break
    return ()


def _holder(process: Any) -> Holder:
    used = process.usedGpuMemory
    return Holder(pid=process.pid, memory_mib=None if used is None else used // _MIB)


def _known(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """What NVML answers; None where this GPU or driver cannot say. A GPU that is gone raises."""
    try:
        return ask(*arguments)
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED):
            raise
        return None


def _architecture(major: int, minor: int) -> str | None:
    """The name of a compute capability's architecture; None for one that is not known here.

    Source: https://developer.nvidia.com/cuda-gpus
    """
    if (major, minor) == (7, 5):
        return "turing"
    if (major, minor) == (8, 9):
        return "ada"
    names = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 11: "blackwell", 12: "blackwell"}
    return names.get(major)


def _safe(text: str) -> str:
    return escape_terminal(text, limit=_TEXT_CHARACTERS)


def _why(error: Exception) -> str:
    return _safe(str(error).rstrip("."))
