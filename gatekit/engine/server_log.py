"""A server's output: capped on disk, its two ends in memory, harmless on a terminal."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from gatekit.engine.handed_secrets import StreamMask
from gatekit.history.durable_files import open_regular
from gatekit.report.escape import without_commands

CAP_BYTES = 16 * 2**20
_TAIL_BYTES = 32 * 2**10
_HEAD_BYTES = 8 * 2**10
_LONGEST_LINE = 500


class ServerLog:
    """Bytes of a server's output in a file of at most `CAP_BYTES`, readable by its owner alone.

    Output beyond the cap is counted, not kept, except for the last 32 KiB: those are in memory, and at
    `close` they follow the note that says where the log was cut. Memory use does not depend on line lengths. In place
    of each of the texts `hidden` stands `***`, on disk and in memory.
    """

    def __init__(self, path: Path, *, hidden: Sequence[str] = ()) -> None:
        descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)
        self.path = path
        self._mask = StreamMask(hidden)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._lock = Lock()
        self._room = CAP_BYTES - _TAIL_BYTES - 256
        self._dropped = 0
        self._received = 0
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Keeps the next bytes of output. A full disk drops them: it must not block the server."""
        with self._lock:
            self._received += len(chunk)
            self._keep(self._mask.feed(chunk))

    @property
    def received(self) -> int:
        """How many bytes of output there were, kept or not."""
        return self._received

    def head(self) -> str:
        """The first 8 KiB of output."""
        with self._lock:
            return self._head.decode("utf-8", errors="replace")

    def tail(self, lines: int = 20) -> str:
        """The last lines of output, each cut to 500 characters, control characters escaped."""
        with self._lock:
            text = self._tail.decode("utf-8", errors="replace")
        last = [line.rstrip() for line in text.replace("\r", "\n").split("\n") if line.strip()][-lines:]
        return "\n".join(printable(line[:_LONGEST_LINE]) for line in last)

    def close(self) -> None:
        """Ends the file, with a note and the last output when it was cut."""
        with self._lock:
            if self._file.closed:
                return
            self._keep(self._mask.end())
            if self._dropped:
                note = f"\n[gatekit: log cut here, {self._dropped} bytes left out; the last of them follow]\n"
                self._write(note.encode() + self._tail[-self._dropped :])
            self._file.close()

    def _keep(self, shown: bytes) -> None:
        self._head += shown[: _HEAD_BYTES - len(self._head)]
        self._tail += shown
        del self._tail[:-_TAIL_BYTES]
        kept = shown[: self._room]
        self._room -= len(kept)
        self._dropped += len(shown) - len(kept)
        self._write(kept)

    def _write(self, data: bytes | bytearray) -> None:
        if not data or self._file.closed:
            return
        try:
            self._file.write(data)
        except OSError:
            self._room = 0


def printable(text: str) -> str:
    r"""The text with tabs as spaces and every control, format and surrogate character escaped, and no CI's command.

    >>> printable("a\x1b[31m\u202e")
    'a\\x1b[31m\\u202e'
    """
    return without_commands("".join(map(_escaped, text.expandtabs(4))))


def _escaped(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return character.encode("unicode_escape").decode("ascii")
    return character
