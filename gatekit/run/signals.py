"""SIGINT, SIGTERM and SIGHUP inside the event loop: the first one drains, the second one ends the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(asyncio.Event):
    """Set by the first signal, which it remembers."""

    signal: signal.Signals | None = None


class StoppedError(Exception):
    """A signal came before the awaited thing did."""


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """An event that a signal sets. After the first one the handlers are as they were before the block."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    # A signal that is ignored (nohup, a background job) stays ignored.
    previous = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}

    def restore() -> None:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def first(number: signal.Signals) -> None:
        stop.signal = number
        stop.set()
        restore()

    for number in previous:
        loop.add_signal_handler(number, first, number)
    try:
        yield stop
    finally:
        restore()


async def unless_stopped(waiting: Awaitable[T], stop: Stop) -> T:
    """The awaited value. Raises StoppedError when a signal came first."""
    task = asyncio.ensure_future(waiting)
    stopper = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopper}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise StoppedError
    finally:
        task.cancel()
        stopper.cancel()
        await asyncio.gather(task, stopper, return_exceptions=True)
