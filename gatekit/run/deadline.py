"""The deadlines of many requests that may each take equally long: one timer for all of them."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Deadlines:
    """Makes deadlines of `limit_s`. As these end in the order in which they began, only the first one needs a timer:
    what `asyncio.timeout` costs, a timer for each, would be a tenth of a request."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._open: dict[Deadline, None] = {}  # in order of their beginning
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """A deadline that begins when it is entered."""
        return Deadline(self)

    def add(self, deadline: Deadline) -> None:
        """Watch it."""
        self._open[deadline] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(deadline.end_s, self._expire)

    def remove(self, deadline: Deadline) -> None:
        """Watch it no more; without any other there is no timer either."""
        self._open.pop(deadline, None)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        now_s = loop.time()
        while self._open and (first := next(iter(self._open))).end_s <= now_s:
            del self._open[first]
            first.expire()
        if self._open:
            self._timer = loop.call_at(next(iter(self._open)).end_s, self._expire)


class Deadline:
    """Cancels the block at its end, and makes TimeoutError of that; any other cancellation goes through."""

    __slots__ = ("_cancelling", "_deadlines", "_is_expired", "_task", "end_s")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._is_expired = False
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        assert self._task is not None, "a deadline is for a task"
        self._cancelling = self._task.cancelling()
        self.end_s = asyncio.get_running_loop().time() + self._deadlines.limit_s
        self._deadlines.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.remove(self)
        if self._is_expired and self._task is not None:
            is_ours = self._task.uncancel() <= self._cancelling
            if is_ours and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def expire(self) -> None:
        """Its time is over."""
        self._is_expired = True
        if self._task is not None:
            self._task.cancel()
