"""The loop under a stopping rule: what is sent, what is taken, what is left."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from gatekit.errors import InfraError
from gatekit.records import spec as records
from gatekit.records.answers import Status
from gatekit.records.verdict import Outcome
from gatekit.run.client import Client
from gatekit.run.loop import Answer, Asking
from gatekit.run.stopping import StopReason
from raw_server import Request, Start, completion, http

N = 300
LIMITS = records.Client(concurrency=64, request_timeout_s=20, deadline_s=60, attempts=2, outage_s=2)


@dataclass
class StopAt:
    """Stops after `at` answers; `first` requests in flight until `wide_at` answers came."""

    notes: tuple[str, ...] = ()

    at: int = N + 1
    first: int = 64
    wide_at: int = 0
    sent: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)

    def in_flight(self, limit: int) -> int:
        return limit if len(self.taken) >= self.wide_at else min(limit, self.first)

    def dispatched(self, index: int) -> None:
        self.sent.append(index)

    def answered(self, index: int, status: Status) -> None:
        self.taken.append(index)

    def verdict(self) -> StopReason | None:
        enough = len(self.taken) >= self.at
        return StopReason(outcome=Outcome.FAIL, rule="test", text="enough") if enough else None

    def suffices(self, statuses: Sequence[Status | None]) -> bool:
        return False


def ask(url: str, stopping: StopAt, n: int = N) -> tuple[InfraError | None, Asking]:
    async def run() -> tuple[InfraError | None, Asking]:
        async with Client(url, api_key=None, request_timeout_s=LIMITS.request_timeout_s) as client:
            asking = Asking(
                client,
                [f'{{"prompt": "{index}"}}'.encode() for index in range(n)],
                api=records.Api.COMPLETIONS,
                limits=LIMITS,
                expected_model="m",
                on_answer=take,
                watch=lambda: None,
                stopping=stopping,
            )
            return await asking.run(asyncio.Event()), asking

    def take(answer: Answer) -> None:
        stopping.answered(answer.index, Status.WRONG)

    return asyncio.run(run())


def echo(request: Request) -> bytes:
    time.sleep(0.05)
    return http(200, completion(request.data["prompt"]))


def test_after_the_stop_nothing_is_sent_or_taken(raw_server: Start) -> None:
    """The answer that decides is the last one taken; no failure is reported."""
    server, stopping = raw_server(echo), StopAt(at=70)
    failure, asking = ask(server.url, stopping)
    assert failure is None
    assert asking.stopped is not None
    assert len(stopping.taken) == 70
    assert len(stopping.sent) <= 70 + 64 + 64  # what was in flight, and what is taken together
    assert len(server.requests) <= len(stopping.sent)


def test_what_is_in_flight_is_cancelled(raw_server: Start) -> None:
    """Requests that hang do not hold up a run that needs no more."""
    server = raw_server(lambda request: echo(request) if int(request.data["prompt"]) < 10 else None)
    began = time.monotonic()
    failure, asking = ask(server.url, StopAt(at=10))
    assert (failure, asking.answered) == (None, 10)
    assert time.monotonic() - began < 5


def test_the_first_block_is_all_that_is_sent_before_an_answer(raw_server: Start) -> None:
    """Until the rule opens the ramp no more than the first block is in flight; then the limit is reached."""
    flying = 0
    seen: list[int] = []
    lock = threading.Lock()

    def count(request: Request) -> bytes:
        nonlocal flying
        with lock:
            flying += 1
            seen.append(flying)
        time.sleep(0.1)
        with lock:
            flying -= 1
        return http(200, completion("x"))

    stopping = StopAt(first=8, wide_at=40)
    ask(raw_server(count).url, stopping)
    assert max(seen[:40]) <= 8
    assert 8 < max(seen) <= 64
    assert sorted(stopping.taken) == list(range(N))


def test_a_ramp_that_never_opens_still_ends(raw_server: Start) -> None:
    """Workers that wait for their turn end with the last question."""
    stopping = StopAt(first=4, wide_at=10_000)
    failure, asking = ask(raw_server(lambda request: http(200, completion("x"))).url, stopping, n=100)
    assert (failure, asking.answered, asking.stopped) == (None, 100, None)


def test_every_question_is_sent_once(raw_server: Start) -> None:
    """A second attempt is not a second question."""
    stopping = StopAt()
    ask(raw_server(lambda request: http(500, {})).url, stopping, n=20)
    assert sorted(stopping.sent) == list(range(20))
