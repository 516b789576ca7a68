"""Many texts that begin alike, as prompts with the same worked examples do, held without their common beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import overload


class Alike(Sequence[bytes]):
    """The texts in order, all of them `times` over; put together when they are asked for."""

    def __init__(self, texts: Iterable[bytes], *, times: int = 1) -> None:
        self._start: bytes | None = None
        self._ends: list[bytes] = []
        self._times = times
        for text in texts:
            self._append(text)

    def __len__(self) -> int:
        return len(self._ends) * self._times

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        return (self._start or b"") + self._ends[range(len(self))[index] % len(self._ends)]

    def _append(self, text: bytes) -> None:
        if self._start is None:
            self._start = text
        if not text.startswith(self._start):
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._start, text, strict=False)))
            rest = self._start[shared:]
            self._ends = [rest + end for end in self._ends]
            self._start = text[:shared]
        self._ends.append(text[len(self._start) :])
