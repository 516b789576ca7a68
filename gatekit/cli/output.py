"""The product on stdout: written at once, and never at the price of the verdict."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

from gatekit.errors import InfraError
from gatekit.records.secrets import without_passwords
from gatekit.report.escape import document_without_commands, escape_terminal


def put(text: str, *, as_it_is: bool = False, commands: bool = False) -> None:
    """Write `text` to stdout, with a line end if it has none, and with the passwords in its URLs masked.

    `as_it_is` is for a JSON document that is read from a record, whose data may not be others. What a CI service would
    take for a command is spelled out, unless `commands` says that it is meant.

    A reader that went away (`| head`) does not change the exit code. Raises InfraError when the text could not
    be written for another reason, such as a full disk, or because stdout was closed before the start.
    """
    if sys.stdout is None:
        raise _failed("it is closed")
    try:
        shown = text if commands else document_without_commands(text)
        print((shown if as_it_is else without_passwords(shown)).removesuffix("\n"), flush=True)
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise _failed(error.strerror) from None


@contextlib.contextmanager
def bytes_out() -> Iterator[BinaryIO]:
    """Stdout for bytes, flushed at the end; what cannot be written is as in `put`."""
    if sys.stdout is None:
        raise _failed("it is closed")
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise _failed(error.strerror) from None


def warn(text: str) -> None:
    """Write `gatekit: ` and one escaped line to stderr, passwords masked; a closed stderr is nobody to tell."""
    if sys.stderr is None:  # print would take stdout for it
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"gatekit: {escape_terminal(without_passwords(text))}", file=sys.stderr, flush=True)


def _failed(why: str | None) -> InfraError:
    hint = "give it a file, a pipe or a terminal with room"
    return InfraError(f"cannot write to stdout: {why}", reason="stdout-failed", hint=hint)


def _drop_stdout() -> None:
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
