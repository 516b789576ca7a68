"""The product on stdout: written at once, and never at the price of the verdict."""

from __future__ import annotations

import contextlib
import os
import sys

from gatekit.errors import InfraError
from gatekit.report.escape import escape_terminal


def put(text: str) -> None:
    """Write `text` to stdout, with a line end if it has none.

    A reader that went away (`| head`) does not change the exit code. Raises InfraError when the text could not
    be written for another reason, such as a full disk.
    """
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise InfraError(f"cannot write to stdout: {error.strerror}", reason="stdout-failed") from None


def warn(text: str) -> None:
    """Write `gatekit: ` and one escaped line to stderr; a closed stderr is nobody to tell."""
    with contextlib.suppress(OSError, ValueError):
        print(f"gatekit: {escape_terminal(text)}", file=sys.stderr, flush=True)


def _drop_stdout() -> None:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
