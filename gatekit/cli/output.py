"""The product on stdout: written at once, and never at the price of the verdict."""

from __future__ import annotations

import contextlib
import os
import sys

from gatekit.report.escape import escape_terminal


def put(text: str) -> None:
    """Write `text` to stdout, with a line end if it has none.

    A reader that went away (`| head`) or a full disk behind stdout does not change the exit code: what cannot
    be written is dropped, and a failure other than a closed pipe is named on stderr.
    """
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        warn(f"cannot write to stdout: {error.strerror}")


def warn(text: str) -> None:
    """Write `gatekit: ` and one escaped line to stderr; a closed stderr is nobody to tell."""
    with contextlib.suppress(OSError, ValueError):
        print(f"gatekit: {escape_terminal(text)}", file=sys.stderr, flush=True)


def _drop_stdout() -> None:
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
