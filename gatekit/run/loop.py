"""All questions, asked: how many at once, what is tried again, and when to give up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gatekit.errors import InfraError
from gatekit.records import spec as spec_records
from gatekit.records.answers import Completion, Failure, FailureKind
from gatekit.records.run import RETRIED
from gatekit.run.client import Client, Refusal
from gatekit.run.stopping import NeverStopping, Stopping, StopReason

# An answer that arrived is never asked for again; these mean that none did and another try may bring one.
_RETRIED = frozenset(
    {
        FailureKind.REFUSED,
        FailureKind.DISCONNECTED,
        FailureKind.TIMEOUT,
        FailureKind.RATE_LIMITED,
        FailureKind.SERVER_ERROR,
        FailureKind.NOT_JSON,
        FailureKind.BAD_SHAPE,
        FailureKind.ABORTED,
    }
)
# These will not change by asking the next question: the run is over.
_FATAL = frozenset(
    {
        FailureKind.DNS,
        FailureKind.TLS,
        FailureKind.UNAUTHORIZED,
        FailureKind.NOT_FOUND,
        FailureKind.REDIRECT,
        FailureKind.WRONG_MODEL,
    }
)
_NO_CONNECTION = frozenset({FailureKind.REFUSED, FailureKind.DISCONNECTED})
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 15.0
_WATCH_S = 0.2
_TAKEN_TOGETHER = 64  # so many questions more may be sent before a stop is known
_NOTED_GAP_S = 2.0
_NOTED_GAPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one question brought: a completion or a failure, after how many attempts and how long."""

    index: int
    result: Completion | Failure
    attempts: int
    latency_s: float | None


class Asking:
    """One pass over all request bodies.

    `on_answer` is called once per finished question, in order of completion, after the next one was sent: a server
    waits for no score and no disk. `watch` returns why the server
    is gone, or None while it lives. `stopping` says after each answer whether the rest is needed, and how many
    requests may be in flight; once it said no, `stopped` is its reason and no answer is taken any more. `hint`
    gives the next step after a failure that ends the run. `events` are the outages that were survived and, once
    `run` is over, how often which fault was answered by another attempt, whatever became of the question. `todo`
    are the places of the bodies to ask, all of them by default; `answered` were answered before.
    """

    def __init__(
        self,
        client: Client,
        bodies: Sequence[bytes],
        *,
        api: spec_records.Api,
        limits: spec_records.Client,
        expected_model: str | None,
        on_answer: Callable[[Answer], None],
        watch: Callable[[], str | None],
        stopping: Stopping | None = None,
        hint: Callable[[FailureKind], str] = lambda kind: "",
        todo: Iterable[int] | None = None,
        answered: int = 0,
    ) -> None:
        self.client = client
        self.bodies = bodies
        self.api = api
        self.limits = limits
        self.expected_model = expected_model
        self.on_answer = on_answer
        self.watch = watch
        self.stopping: Stopping = NeverStopping() if stopping is None else stopping
        self.stopped: StopReason | None = None
        self.hint = hint
        self.todo = range(len(bodies)) if todo is None else todo
        self.answered = answered
        self.events: list[str] = []
        self.end_s = 0.0
        self.last_success_s = 0.0
        self.last_failure: Failure | None = None
        self.lost_connection: Failure | None = None
        self._outage: Failure | None = None
        self._retried: Counter[str] = Counter()
        self._asked_to_wait_s = 0.0
        self._is_wide = asyncio.Event()
        self._is_over = asyncio.Event()
        self._finished: list[Answer] = []
        self._has_finished = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> InfraError | None:
        """None when every question that is needed was asked, or why the run was given up.

        Ends early when `stop` is set, and when `stopping` needs no more; what is in flight is cancelled.
        """
        self.last_success_s = time.monotonic()
        self.end_s = self.last_success_s + self.limits.deadline_s
        todo = iter(self.todo)
        tasks = [asyncio.create_task(self._worker(number, todo)) for number in range(self._width())]
        watcher, taker = asyncio.create_task(self._watch()), asyncio.create_task(self._take())
        stoppers = [asyncio.create_task(event.wait()) for event in (stop, self._is_over)]
        workers = asyncio.gather(*tasks)
        try:
            ends: set[asyncio.Future[Any]] = {workers, watcher, taker, *stoppers}
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if taker in done:
                taker.result()
            self._take_finished()
            if self.stopped is not None:
                return None
            if workers in done:
                workers.result()
                return None
            return watcher.result() if watcher in done else None
        except _GiveUpError as error:
            return error.why
        finally:
            await _cancel(*tasks, workers, watcher, taker, *stoppers)
            self.events += self._retries()

    def _retries(self) -> list[str]:
        """`retried: 131 x HTTP 500, 12 x HTTP 429 (waited 24 s for Retry-After)`, if anything was."""
        if not self._retried:
            return []
        ranked = sorted(self._retried.items(), key=lambda item: (-item[1], item[0]))
        kinds = ", ".join(f"{times} x {what}" for what, times in ranked)
        waited = f" (waited {self._asked_to_wait_s:.0f} s for Retry-After)" if self._asked_to_wait_s else ""
        return [f"{RETRIED}{kinds}{waited}"]

    def _width(self) -> int:
        return min(self.limits.concurrency, len(self.bodies))

    async def _worker(self, number: int, todo: Iterator[int]) -> None:
        if number >= self.stopping.in_flight(self.limits.concurrency):
            await self._is_wide.wait()
        for index in todo:
            await self._question(index)
            if self.stopped is not None:
                return
        self._is_wide.set()  # nothing is left to ask: who waits for a turn ends, too

    async def _question(self, index: int) -> None:
        attempts = 0
        self.stopping.dispatched(index)
        while True:
            attempts += 1
            sent_s = time.monotonic()
            result = await self.client.ask(self.api, self.bodies[index], expected_model=self.expected_model)
            now_s = time.monotonic()
            if self.client.hung_up is not None:  # no attempt, but what has another server behind it looks like this
                self.last_failure = self.lost_connection = self.client.hung_up
                self.client.hung_up = None
            if isinstance(result, Completion):
                self._succeeded(now_s)
                self._finish(index, result, attempts, now_s - sent_s)
                return
            pause_s = self._pause(result, attempts, now_s)
            if pause_s is None:
                self._finish(index, result.failure, attempts, None)
                return
            await asyncio.sleep(pause_s)
            self._count(result, pause_s)

    def _count(self, refusal: Refusal, pause_s: float) -> None:
        """A refusal that another attempt follows, after this pause."""
        kind = refusal.failure.kind.value.replace("_", " ")
        self._retried[kind if refusal.status is None else f"HTTP {refusal.status}"] += 1
        if refusal.retry_after_s is not None:
            self._asked_to_wait_s += pause_s

    def _succeeded(self, now_s: float) -> None:
        gap_s = now_s - self.last_success_s
        if self._outage is not None and gap_s > _NOTED_GAP_S and len(self.events) < _NOTED_GAPS:
            self.events.append(f"no answer for {gap_s:.1f} s at answer {self.answered}: {self._outage.detail}")
        self._outage = None
        self.last_success_s = now_s

    def _finish(self, index: int, result: Completion | Failure, attempts: int, latency_s: float | None) -> None:
        if self.stopped is not None:
            return
        self.answered += isinstance(result, Completion)
        self._finished.append(Answer(index=index, result=result, attempts=attempts, latency_s=latency_s))
        if len(self._finished) < _TAKEN_TOGETHER:
            self._has_finished.set()
        else:
            self._take_finished()

    async def _take(self) -> NoReturn:
        """Hand on what finished; what came at once in one go, which is much cheaper than one by one."""
        while True:
            await self._has_finished.wait()
            self._has_finished.clear()
            self._take_finished()

    def _take_finished(self) -> None:
        finished, self._finished = self._finished, []
        for answer in finished:
            if self.stopped is None:
                self._hand_on(answer)

    def _hand_on(self, answer: Answer) -> None:
        self.on_answer(answer)
        self.stopped = self.stopping.verdict()
        if self.stopped is not None:
            self._is_over.set()
        elif self.stopping.in_flight(self.limits.concurrency) >= self.limits.concurrency:
            self._is_wide.set()

    def _pause(self, refusal: Refusal, attempts: int, now_s: float) -> float | None:
        """Seconds until the next attempt, or None when this question is lost. Raises when the run is over."""
        failure = self.last_failure = refusal.failure
        if failure.kind in _NO_CONNECTION:
            self._outage = self.lost_connection = failure
        if failure.kind in _FATAL:
            raise _GiveUpError(self._fatal(failure))
        # While nobody can connect, waiting is not an attempt: the outage limit ends it for all questions.
        is_outage = failure.kind is FailureKind.REFUSED
        if failure.kind not in _RETRIED or (attempts >= self.limits.attempts and not is_outage):
            return None
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 10), _LONGEST_PAUSE_S)
        pause_s = max(pause_s, refusal.retry_after_s or 0.0)
        return pause_s if now_s + pause_s < self.end_s else None

    def _fatal(self, failure: Failure) -> InfraError:
        place = f"after {self.answered} of {len(self.bodies)} answers"
        code = failure.kind.value.replace("_", "-")
        return InfraError(f"{failure.detail} ({place})", reason=code, hint=self.hint(failure.kind))

    async def _watch(self) -> InfraError:
        place = f"of {len(self.bodies)} answers"
        while True:
            await asyncio.sleep(_WATCH_S)
            gone = self.watch()
            now_s = time.monotonic()
            if gone is not None:
                what = f"the server died after {self.answered} {place}: {gone}"
                return InfraError(what, reason="server-died", hint="run again; if it dies again, read its log")
            if now_s > self.end_s:
                what = f"the run's deadline of {self.limits.deadline_s:g} s passed after {self.answered} {place}"
                return InfraError(what, reason="deadline", hint="raise client.deadline_s or client.concurrency")
            if self._is_out(now_s):
                assert self.last_failure is not None
                what = f"no answer for {self.limits.outage_s:g} s, after {self.answered} {place}: "
                return InfraError(what + self.last_failure.detail, reason="server-unreachable")

    def _is_out(self, now_s: float) -> bool:
        unreachable = self.last_failure is not None and self.last_failure.kind is FailureKind.REFUSED
        return unreachable and now_s - self.last_success_s > self.limits.outage_s


class _GiveUpError(Exception):
    def __init__(self, why: InfraError) -> None:
        super().__init__(why.message)
        self.why = why


async def _cancel(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
