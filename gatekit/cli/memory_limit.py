"""Whether the memory that this process may have is enough for its libraries: some of them leave with exit code 1, a
measured regression, or never return, where it is not."""

from __future__ import annotations

import mmap
import os
import resource
from collections.abc import Mapping

from gatekit.errors import InfraError

_BASE_MIB = 224
_PER_THREAD_MIB = 80  # OpenBLAS's buffers and stacks, once in NumPy and once in SciPy
_MOST_THREADS = 64
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)


def refuse_little_memory(environ: Mapping[str, str]) -> None:
    """Raise InfraError where a limit of this process (ulimit -v, -d) leaves less than the libraries take.

    Nothing is asked where there is no limit.
    """
    if all(resource.getrlimit(limit)[0] == resource.RLIM_INFINITY for limit in _LIMITS):
        return
    needed_mib = _BASE_MIB + _PER_THREAD_MIB * _threads(environ)
    try:
        mmap.mmap(-1, needed_mib * 2**20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, MemoryError):
        what = f"this process may not have the {needed_mib} MiB of memory that its libraries reserve"
        hint = "raise its limit (ulimit -v, ulimit -d), or lower their threads: OPENBLAS_NUM_THREADS=1"
        raise InfraError(what, reason="machine-exhausted", hint=hint) from None


def _threads(environ: Mapping[str, str]) -> int:
    named = environ.get("OPENBLAS_NUM_THREADS", "")
    is_number = named.isascii() and named.isdecimal() and 0 < len(named) < len("1000")
    return max(1, min(int(named) if is_number else len(os.sched_getaffinity(0)), _MOST_THREADS))
