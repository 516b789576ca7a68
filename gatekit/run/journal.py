"""Every answer on disk before it counts: a file of lines, one writer, and what an earlier writer left in it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import open_regular, storage_error, sync_folder
from gatekit.records.answers import Observation
from gatekit.run.journal_lines import BrokenLineError, Done, Header, Kept, Reading, ServerSeen, header_of, line_of
from gatekit.run.kept_text import refuse_more

MAX_JOURNAL_BYTES = 512 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
SYNC_EVERY_S = 0.1
_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Journal:
    """`<run>/journal.jsonl`, held by this process alone for as long as it is open.

    `kept` is what an earlier process left in it, None where there is nothing. Every line is one write, so that a
    killed process loses none; `sync` brings them to the disk, so that a machine that stops loses none either.
    `written` and `synced` count lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: Kept | None = None
        self.written = 0
        self.synced = 0
        self._answers = 0
        self._answers_size = 0
        self._file = -1
        self._fault: InfraError | None = None

    def __enter__(self) -> Self:
        """Raises ConfigError where another process has it open, InfraError where it cannot be used."""
        try:
            self._file = open_regular(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
        except OSError as error:
            raise storage_error("make", self.path, error) from error
        try:
            self._lock()
            self.kept = _read(self._file, self.path)
        except BaseException:
            self._close()
            raise
        if self.kept is not None:
            self._answers, self._answers_size = len(self.kept.answers), self.kept.answers_size
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def begin(self, header: Header) -> None:
        """Write the header, or cut off the half line at the end of what is kept. Raises InfraError."""
        size = 0 if self.kept is None else self.kept.size
        try:
            if os.fstat(self._file).st_size != size:
                os.ftruncate(self._file, size)
            if self.kept is None:
                self._write(line_of("header", header))
                sync_folder(self.path.parent)
        except OSError as error:
            raise storage_error("write", self.path, error) from error
        self.sync()

    def discard(self, *, is_copy: bool = False) -> None:
        """Remove the file of a run that came to nothing, so that nobody takes it for one to go on with; also a copy
        of what another run kept, to which nothing was added."""
        if self.kept is None or (is_copy and not self.written):
            self.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # a server's log may be there
                self.path.parent.rmdir()

    def answer(self, observation: Observation) -> None:
        """Write one answer. Raises InfraError when the disk does not take it, or it is more than a run may have."""
        line = line_of("answer", observation)
        refuse_more(self._answers_size + len(line), self._answers)
        self._write(line)
        self._answers += 1
        self._answers_size += len(line)

    def server(self, seen: ServerSeen) -> None:
        """Write who answers from here on."""
        self._write(line_of("server", seen))

    def doubt(self, why: str) -> None:
        """Write that a connection was lost, so that nobody knows who answers from here on."""
        self._write(line_of("doubt", why))

    def confirmed(self, doubts: int) -> None:
        """Write that the server is the same after so many of the doubts that are open, the oldest first."""
        self._write(line_of("confirmed", doubts))

    def event(self, text: str) -> None:
        """Write what else is worth keeping."""
        self._write(line_of("event", text))

    def end(self, why: str) -> None:
        """Write how this part ends, if the disk takes it: nothing depends on it."""
        self._last("end", why)

    def spoil(self, why: str) -> None:
        """Write that these answers are not to be used: they are of two servers."""
        self._last("spoiled", why)

    def done(self, done: Done) -> None:
        """Write that only the verdict is left, if the disk takes it; without it the server is started once more."""
        self._last("done", done)

    def sync(self) -> None:
        """Everything that was written is on the disk now. Raises InfraError where it may not be."""
        if self._fault is not None:
            raise self._fault
        count = self.written
        try:
            os.fsync(self._file)
        except OSError as error:
            self._fault = self._failed(error)
            raise self._fault from error
        self.synced = count

    async def sync_often(self, on_synced: Callable[[], None]) -> None:
        """Until it is cancelled: what was written is on the disk a moment later, and `on_synced` is told.

        One sync at a time serves all answers that came meanwhile. One that fails makes the next write fail.
        """
        while True:
            if self.synced < self.written:
                try:
                    await asyncio.to_thread(self.sync)
                except InfraError:
                    return
                on_synced()
            await asyncio.sleep(SYNC_EVERY_S)

    def _last(self, kind: str, value: object) -> None:
        with contextlib.suppress(InfraError):
            self._write(line_of(kind, value))
            self.sync()

    def _write(self, line: bytes) -> None:
        if self._fault is not None:
            raise self._fault
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self._fault = self._failed(error)  # half a line may stand there: nothing may follow it
            raise self._fault from None
        self.written += 1

    def _failed(self, error: OSError) -> InfraError:
        why = "no space left" if error.errno == errno.ENOSPC else error.strerror
        return InfraError(f"cannot write {self.path}: {why}", reason="journal-write")

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = f"another gatekit is writing {self.path}"
            hint = "wait until it ends, or choose another --run-id"
            raise ConfigError.one(what, reason="run-is-running", hint=hint) from None
        except OSError as error:
            # Without locks a new run may begin; what somebody may be writing is not touched.
            if error.errno not in _NO_LOCKS or os.fstat(self._file).st_size:
                raise storage_error("lock", self.path, error) from error

    def _close(self) -> None:
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):  # what a late write lost is in the record
                os.close(descriptor)


def read_journal(path: Path) -> Kept | None:
    """What the journal at `path` holds, None where it holds nothing yet; no lock is taken.

    Raises FileNotFoundError where there is none, and InfraError where it cannot be read.
    """
    try:
        descriptor = open_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error
    try:
        return _read(descriptor, path)
    finally:
        os.close(descriptor)


def _read(descriptor: int, path: Path) -> Kept | None:
    """All whole lines. A last one that is not whole, or not JSON, was being written when its writer was killed."""
    size, number = os.fstat(descriptor).st_size, 1
    if size > MAX_JOURNAL_BYTES:
        _refuse(path, f"{size} bytes, more than the limit of {MAX_JOURNAL_BYTES}")
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            first = file.readline(MAX_LINE_BYTES + 1)
            if _is_torn(first, is_last=len(first) >= size):
                return None
            reading, end = Reading(header_of(first), len(first)), len(first)
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=2):
                if len(line) > MAX_LINE_BYTES:
                    _refuse(path, f"line {number} is too long")
                if _is_torn(line, is_last=end + len(line) >= size):
                    break
                reading.add(line)
                refuse_more(reading.answers_size, reading.answered)
                end += len(line)
    except BrokenLineError as error:
        _refuse(path, f"line {number}: {error}")
    except OSError as error:
        raise storage_error("read", path, error) from error
    return reading.kept(end)


def _is_torn(line: bytes, *, is_last: bool) -> bool:
    """Whether only a part of the line reached the disk; of what was not written, zeros may stand there."""
    return is_last and (not line.endswith(b"\n") or b"\0" in line)


def _refuse(path: Path, why: str) -> NoReturn:
    raise InfraError(
        f"the journal {path} is broken: {why}",
        reason="journal-broken",
        hint="run again under another run id; its whole lines can still be read",
    )
