"""Every answer on disk before it counts: one JSON line each, in order of completion."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from gatekit.errors import InfraError
from gatekit.history.durable_files import open_regular, storage_error
from gatekit.records.answers import Observation
from gatekit.records.canonical import canonical_json, to_plain


class Journal:
    """Appends observations to `<run>/journal.jsonl`, one write each, so that a killed process loses none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def __enter__(self) -> Self:
        try:
            self._file = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise storage_error("make", self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # what a late write lost is in the record
            os.close(self._file)

    def append(self, observation: Observation) -> None:
        """Write one observation. Raises InfraError when the disk does not take it."""
        line = canonical_json(to_plain(observation)) + b"\n"
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            why = "no space left" if error.errno == errno.ENOSPC else error.strerror
            raise InfraError(f"cannot write {self.path}: {why}", reason="journal-write") from None
