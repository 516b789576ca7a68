"""A call in a thread of its own, and the task that waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gatekit.run.daemon_thread import in_daemon_thread


def test_a_cancellation_goes_through() -> None:
    """Who is cancelled just when the call has ended ends all the same, and does not go on for ever."""

    async def cancelled_at_the_end() -> bool:
        called = threading.Event()
        task = asyncio.create_task(in_daemon_thread(called.set, 5))
        await asyncio.sleep(0)
        called.wait(5)
        for _ in range(3):  # the result is known, and the task has not gone on yet
            if not task.done():
                await asyncio.sleep(0)
                task.cancel()
        await asyncio.wait({task})
        return task.cancelled() or task.cancelling() == 0

    assert all(asyncio.run(cancelled_at_the_end()) for _ in range(50))


def test_a_call_that_hangs() -> None:
    """The time is kept, whatever the call does."""
    over = threading.Event()

    async def hangs() -> None:
        await in_daemon_thread(lambda: over.wait(30), 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(hangs())
    over.set()
