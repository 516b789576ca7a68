"""One timer for many deadlines behaves as one timer for each."""

from __future__ import annotations

import asyncio

import pytest

from gatekit.run.deadline import Deadlines


async def _outlasted(deadlines: Deadlines, seconds: float) -> bool:
    try:
        with deadlines.begin():
            await asyncio.sleep(seconds)
    except TimeoutError:
        return True
    return False


def test_each_block_ends_at_its_own_deadline() -> None:
    """A block that takes longer is a TimeoutError, one beside it that takes less is none, whichever ends first."""

    async def run() -> list[bool]:
        deadlines = Deadlines(0.2)
        return await asyncio.gather(*(_outlasted(deadlines, seconds) for seconds in (60, 0.0, 60, 0.01, 60)))

    assert asyncio.run(run()) == [True, False, True, False, True]


def test_a_later_deadline_is_watched_after_the_first_one() -> None:
    """What begins while another is open has its own end, and what begins when none is open any more, too."""

    async def run() -> list[bool]:
        deadlines = Deadlines(0.1)
        first = asyncio.create_task(_outlasted(deadlines, 60))
        await asyncio.sleep(0.05)
        both = [await _outlasted(deadlines, 60), await first]
        return [*both, await _outlasted(deadlines, 0.0), await _outlasted(deadlines, 60)]

    assert asyncio.run(run()) == [True, True, False, True]


def test_a_cancellation_from_outside_is_none_of_a_deadline() -> None:
    """Who cancels a request sees it cancelled, also at the moment of its deadline."""

    async def run() -> None:
        task = asyncio.create_task(_outlasted(Deadlines(60), 60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
