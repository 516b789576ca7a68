"""A bug in gatekit during one of several runs: told in one line, with the details in a file."""

from __future__ import annotations

import os
import tempfile
import traceback

from gatekit.cli.output import warn

_SHOWN_CHARACTERS = 200


def tell_bug(error: Exception) -> str:
    """What happened in one line, which is also told on stderr with the file that has the details."""
    what = (
        f"internal error: {type(error).__name__}: {str(error)[:_SHOWN_CHARACTERS]!a}; a bug in gatekit, not a verdict"
    )
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
