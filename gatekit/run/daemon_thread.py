"""A call that may hang, as on a network mount that is away, without its caller or the process hanging with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T], timeout_s: float) -> T:
    """What the call returns, or raises. Raises TimeoutError after `timeout_s`: its thread is left behind then.

    A thread of the loop's own pool would be waited for when the loop closes.
    """
    future: Future[T] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=True, name="a call that may hang").start()
    async with asyncio.timeout(timeout_s):  # wait_for of Python 3.11 may swallow a cancellation
        return await asyncio.wrap_future(future)
