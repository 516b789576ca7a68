"""What nobody foresaw: a machine that gives no more is told as such, a bug in one line with its details in a file."""

from __future__ import annotations

import errno
import os
import tempfile
import traceback

from gatekit.cli.output import warn
from gatekit.errors import InfraError

_SHOWN_CHARACTERS = 200
_MOST_CAUSES = 20
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
# What Python and its loader of libraries say in other exceptions where the system said no to them.
_NO_MORE = (
    "can't start new thread",
    "failed to map segment",
    "cannot allocate memory",
    "cannot apply additional memory",
)


def machine_fault(error: BaseException) -> InfraError | None:
    """The error as the machine's, where it, or what it came from, is a lack of memory, threads, processes or files."""
    for one in _and_causes(error):
        if _is_exhaustion(one):
            what = f"the machine gave no more of what gatekit needs: {type(one).__name__}: {_told(one)}"
            hint = "raise this process's limits (ulimit -a, the container's) or free memory, and run again"
            return InfraError(what, reason="machine-exhausted", hint=f"{hint}; an unfinished run goes on with --resume")
    return None


def tell_bug(error: Exception) -> str:
    """What happened in one line, which is also told on stderr with the file that has the details."""
    what = f"internal error: {type(error).__name__}: {_told(error)}; a bug in gatekit, not a verdict"
    details = ""
    try:
        handle, path = tempfile.mkstemp(prefix="gatekit-crash-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
        details = f"; details in {path}"
    except OSError:  # a full disk keeps no details
        pass
    warn(f"{what}{details} [internal]")
    return what


def _told(error: BaseException) -> str:
    return f"{str(error)[:_SHOWN_CHARACTERS]!a}"


def _and_causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found and len(found) < _MOST_CAUSES:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def _is_exhaustion(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _EXHAUSTED
    return isinstance(error, RuntimeError | ImportError | OSError) and any(
        words in str(error).lower() for words in _NO_MORE
    )
