"""SIGINT, SIGTERM and SIGHUP inside the event loop: the first one drains, the second one stops at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

DRAIN_S = 3.0
"""How long answers that are in flight are waited for after the first signal."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(asyncio.Event):
    """Set by the first signal, which it remembers. `at_once` is set by the second one, or DRAIN_S after the first."""

    signal: signal.Signals | None = None
    is_hasty = False

    def __init__(self) -> None:
        super().__init__()
        self.at_once = asyncio.Event()


class StoppedError(Exception):
    """A signal came before the awaited thing did."""


@contextmanager
def stop_on_signals(on_first: Callable[[signal.Signals], None] = lambda number: None) -> Iterator[Stop]:
    """The events that signals set; `on_first` is told of the first one.

    After the second one the handlers are as they were before the block.
    """
    stop = Stop()
    loop = asyncio.get_running_loop()
    handlers = {number: signal.getsignal(number) for number in STOPPING}
    # Signals belong to the main thread: a run in another one is stopped by whoever started it. One that is ignored
    # (nohup, a background job) stays ignored.
    is_main = threading.current_thread() is threading.main_thread()
    previous = {number: handler for number, handler in handlers.items() if is_main and handler != signal.SIG_IGN}

    def restore() -> None:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def came(number: signal.Signals) -> None:
        if stop.signal is None:
            stop.signal = number
            stop.set()
            loop.call_later(DRAIN_S, stop.at_once.set)
            on_first(number)
        else:
            stop.is_hasty = True
            stop.at_once.set()
            restore()

    for number in previous:
        loop.add_signal_handler(number, came, number)
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
