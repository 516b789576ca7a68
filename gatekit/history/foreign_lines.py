"""The lines of a file that came from elsewhere: a regular file, bounded in size and by line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gatekit.errors import ConfigError

_BYTE_ORDER_MARK = "\ufeff"


def foreign_lines(path: Path, *, line_limit: int, file_limit: int, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Each line with its number from 1, its line end kept.

    Raises ConfigError when the file cannot be read, is no regular file, is larger than `file_limit` bytes or has
    a longer line than `line_limit`, and naming the line when it is not UTF-8 (`errors` as in `bytes.decode`).
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise _unusable(path, f"cannot be read: {why}") from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > file_limit:
        os.close(descriptor)
        is_file = stat.S_ISREG(status.st_mode)
        why = f"has {status.st_size} bytes, more than the limit of {file_limit}" if is_file else "is not a regular file"
        raise _unusable(path, why)
    with os.fdopen(descriptor, "rb") as file:
        number = 0
        try:
            while data := file.readline(line_limit + 1):
                number += 1
                yield number, _decoded(path, number, data, line_limit, errors)
        except OSError as error:
            raise _unusable(path, f"cannot be read: {error.strerror}") from error


def _decoded(path: Path, number: int, data: bytes, line_limit: int, errors: str) -> str:
    where = f"{path}:{number}"
    if len(data) > line_limit:
        raise ConfigError.one(f"the line is longer than {line_limit} bytes", where=where, reason="bad-import")
    try:
        text = data.decode("utf-8", errors=errors)
    except UnicodeDecodeError as error:
        raise ConfigError.one(f"not UTF-8 at byte {error.start}", where=where, reason="bad-import") from error
    return text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError.one(f"{path} {why}", reason="bad-import-file", hint="name a file of gatekit history export")
