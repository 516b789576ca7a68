"""What a server was given and what is never repeated after it: it would go into logs, records and messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from gatekit.records.secrets import MASK
from gatekit.records.spec import Spec

_SHORTEST = 8
_NUMBER = re.compile(r"[0-9.,_+-]*")


def passed_secrets(spec: Spec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that `engine.pass_env` hands on, the longest first: what they hold is not known.

    Of one with several lines each line, and what URLs make of one. Fewer than 8 characters and plain numbers are left
    out: a mask in place of `true` would hide what else is said, and an answer may be the number.
    """
    values = [environ[name] for name in spec.engine.pass_env if name in environ]
    found = {form for value in values for form in _forms(value) if _can_be_masked(form)}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


class StreamMask:
    """`***` in place of each of the values in bytes that come in pieces, wherever those are cut."""

    def __init__(self, hidden: Sequence[str]) -> None:
        values = (value.encode("utf-8", errors="surrogateescape") for value in hidden)
        self._hidden = tuple(sorted(values, key=len, reverse=True))
        self._any = re.compile(b"|".join(map(re.escape, self._hidden)))
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be let through so far: all but an end that a value may begin with."""
        if not self._hidden:
            return chunk
        data, shown = self._held + chunk, bytearray()
        while (found := self._any.search(data)) and found.start() < len(data) - self._begun(data):
            shown += data[: found.start()] + MASK.encode()
            data = data[found.end() :]
        end = len(data) - self._begun(data)
        self._held = data[end:]
        return bytes(shown + data[:end])

    def end(self) -> bytes:
        """What was held back."""
        held, self._held = self._held, b""
        return self._any.sub(MASK.encode(), held) if self._hidden else held

    def _begun(self, data: bytes) -> int:
        """How many bytes at the end are the beginning of a value, the most of all."""
        return max((_overlap(data, value) for value in self._hidden), default=0)


def _overlap(data: bytes, value: bytes) -> int:
    end = data[-(len(value) - 1) :]
    at = end.find(value[:1])
    while at >= 0:
        if value.startswith(end[at:]):
            return len(end) - at
        at = end.find(value[:1], at + 1)
    return 0


def _can_be_masked(form: str) -> bool:
    return len(form) >= _SHORTEST and _NUMBER.fullmatch(form) is None


def _forms(value: str) -> Iterator[str]:
    text = value.strip()
    yield text
    yield from (line.strip() for line in text.splitlines())
    yield quote(text, safe="", errors="surrogateescape")
