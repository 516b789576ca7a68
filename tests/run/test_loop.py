"""All questions, asked: what is tried again, what is not, and when the run is given up."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from gatekit.errors import InfraError
from gatekit.records import spec as records
from gatekit.records.answers import Completion, Failure, FailureKind
from gatekit.run.client import Client
from gatekit.run.loop import Answer, Asking
from raw_server import RawServer, Request, Start, completion, http

LIMITS = records.Client(concurrency=8, request_timeout_s=5, deadline_s=60, attempts=3, outage_s=2)


def ask_all(
    url: str,
    n: int = 20,
    *,
    limits: records.Client = LIMITS,
    watch: Callable[[], str | None] = lambda: None,
    on_answer: Callable[[Answer], None] = lambda answer: None,
    events: list[str] | None = None,
) -> tuple[InfraError | None, dict[int, Answer]]:
    answers: dict[int, Answer] = {}

    def keep(answer: Answer) -> None:
        assert answer.index not in answers, "a question ends once"
        answers[answer.index] = answer
        on_answer(answer)

    async def run() -> InfraError | None:
        async with Client(url, api_key=None, request_timeout_s=limits.request_timeout_s) as client:
            asking = Asking(
                client,
                [f'{{"prompt": "{index}"}}'.encode() for index in range(n)],
                api=records.Api.COMPLETIONS,
                limits=limits,
                expected_model="m",
                on_answer=keep,
                watch=watch,
            )
            failure = await asking.run(asyncio.Event())
            if events is not None:
                events.extend(asking.events)
            return failure

    return asyncio.run(run()), answers


def echo(request: Request) -> bytes:
    return http(200, completion(request.data["prompt"]))


def test_answers_belong_to_their_questions(raw_server: Start) -> None:
    """Every question gets the answer to its own request, whatever the order of completion."""

    def slow_for_some(request: Request) -> bytes:
        time.sleep(0.05 * (int(request.data["prompt"]) % 3))
        return echo(request)

    failure, answers = ask_all(raw_server(slow_for_some).url)
    assert failure is None
    texts = {index: a.result.text for index, a in answers.items() if isinstance(a.result, Completion)}
    assert texts == {index: str(index) for index in range(20)}


@pytest.mark.parametrize("status", [500, 503, 429])
def test_what_may_pass_is_tried_again(raw_server: Start, status: int) -> None:
    """A first failure that is not final costs an attempt, not the question."""
    seen: Counter[str] = Counter()

    def fail_first(request: Request) -> bytes:
        seen[request.data["prompt"]] += 1
        return http(status, {}) if seen[request.data["prompt"]] == 1 else echo(request)

    failure, answers = ask_all(raw_server(fail_first).url)
    assert failure is None
    assert {(type(a.result), a.attempts) for a in answers.values()} == {(Completion, 2)}


def test_an_answered_question_is_never_asked_again(raw_server: Start) -> None:
    """A wrong or empty answer is an answer: one request each."""
    server = raw_server(lambda request: http(200, completion("", tokens=0)))
    _, answers = ask_all(server.url)
    assert len(answers) == len(server.requests) == 20


def test_a_question_that_always_fails_is_lost(raw_server: Start) -> None:
    """After the stated attempts a question is lost, and the others are not."""

    def fail_seven(request: Request) -> bytes:
        return http(500, {}) if request.data["prompt"] == "7" else echo(request)

    failure, answers = ask_all(raw_server(fail_seven).url)
    assert failure is None
    lost = {index: a for index, a in answers.items() if isinstance(a.result, Failure)}
    assert list(lost) == [7]
    assert (lost[7].attempts, lost[7].latency_s) == (3, None)


def test_a_rejected_question_is_lost_at_once(raw_server: Start) -> None:
    """HTTP 400 will not change by asking again."""
    server = raw_server(lambda request: http(400, {"error": {"message": "too long"}}))
    failure, answers = ask_all(server.url, 5)
    assert failure is None
    assert {(a.attempts, a.result.kind) for a in answers.values() if isinstance(a.result, Failure)} == {
        (1, FailureKind.REJECTED)
    }


@pytest.mark.parametrize(("status", "reason"), [(401, "unauthorized"), (404, "not-found"), (302, "redirect")])
def test_what_concerns_every_question_ends_the_run(raw_server: Start, status: int, reason: str) -> None:
    """A wrong key or route is found once, not 1,319 times."""
    server = raw_server(lambda request: http(status, {}))
    failure, answers = ask_all(server.url, 500)
    assert failure is not None
    assert failure.reason == reason
    assert len(server.requests) <= LIMITS.concurrency
    assert answers == {}


def test_retry_after_is_waited_for(raw_server: Start) -> None:
    """A 429 with Retry-After delays the next attempt by at least that long."""
    times: list[float] = []

    def limited(request: Request) -> bytes:
        times.append(time.monotonic())
        return http(429, {}, "Retry-After: 1") if len(times) == 1 else echo(request)

    failure, _ = ask_all(raw_server(limited).url, 1)
    assert failure is None
    assert times[1] - times[0] >= 1


def test_a_day_of_retry_after_is_not_slept(raw_server: Start) -> None:
    """A wait past the run's deadline loses the question at once."""
    began = time.monotonic()
    _, answers = ask_all(raw_server(lambda request: http(429, {}, "Retry-After: 86400")).url, 2)
    assert all(isinstance(answer.result, Failure) for answer in answers.values())
    assert time.monotonic() - began < 5


def test_an_outage_ends_the_run(raw_server: Start) -> None:
    """A server that is gone is waited for as long as stated, then the run is given up where it was."""
    server = raw_server(echo)

    def stop_at_ten(answer: Answer) -> None:
        if answer.index == 10:
            server.stop()

    began = time.monotonic()
    failure, answers = ask_all(server.url, 200, on_answer=stop_at_ten)
    assert failure is not None
    assert failure.reason == "server-unreachable"
    assert f"after {len(answers)} of 200 answers" in failure.message
    assert LIMITS.outage_s <= time.monotonic() - began < LIMITS.outage_s + 5


def test_a_server_that_comes_back_is_asked_on(raw_server: Start) -> None:
    """An outage shorter than stated costs time, not answers."""
    server = raw_server(echo)
    again = RawServer(echo, port=server.port)
    restarted = False

    def restart_at_ten(answer: Answer) -> None:
        nonlocal restarted
        if answer.index == 10 and not restarted:
            restarted = True
            server.stop()
            again.start()

    try:
        failure, answers = ask_all(server.url, 60, on_answer=restart_at_ten)
    finally:
        again.stop()
    assert failure is None
    assert sum(isinstance(answer.result, Completion) for answer in answers.values()) == 60


def test_a_survived_outage_is_noted(raw_server: Start) -> None:
    """More than 2 s without an answer while nobody could connect is an event, with its place and cause."""
    server = raw_server(echo)
    again = RawServer(echo, port=server.port)
    timer = threading.Timer(2.3, again.start)

    def stop_at_ten(answer: Answer) -> None:
        if answer.index == 10 and not timer.is_alive():
            server.stop()
            timer.start()

    limits = replace(LIMITS, outage_s=20)
    events: list[str] = []
    failure, answers = ask_all(server.url, 60, limits=limits, on_answer=stop_at_ten, events=events)
    timer.join()
    again.stop()
    assert (failure, len(answers)) == (None, 60)
    gap, retries = events
    assert re.match(r"no answer for [2-9]\.\d s at answer \d+: c(annot connect|onnection lost)", gap)
    assert re.match(r"retried: \d+ x (refused|disconnected)", retries)


def test_a_dead_process_is_noticed(raw_server: Start) -> None:
    """When the watched process is gone the run ends within two seconds, whatever its port does."""
    began = time.monotonic()
    failure, answers = ask_all(raw_server(lambda request: None).url, watch=lambda: "exit code 9")
    assert failure is not None
    assert (failure.reason, answers) == ("server-died", {})
    assert "exit code 9" in failure.message
    assert time.monotonic() - began < 2


def test_the_deadline_ends_the_run(raw_server: Start) -> None:
    """A run ends at its deadline even when every request hangs."""
    limits = records.Client(concurrency=8, request_timeout_s=60, deadline_s=1, attempts=3, outage_s=60)
    began = time.monotonic()
    failure, _ = ask_all(raw_server(lambda request: None).url, limits=limits)
    assert failure is not None
    assert failure.reason == "deadline"
    assert 1 <= time.monotonic() - began < 4


def test_queueing_does_not_count(raw_server: Start) -> None:
    """A request's clock starts when it is sent: forty 0.1 s answers, two at a time, pass a 1 s limit."""

    def slow(request: Request) -> bytes:
        time.sleep(0.1)
        return echo(request)

    limits = records.Client(concurrency=2, request_timeout_s=1, deadline_s=60, attempts=1, outage_s=5)
    failure, answers = ask_all(raw_server(slow).url, 40, limits=limits)
    assert failure is None
    assert all(isinstance(answer.result, Completion) for answer in answers.values())


def test_concurrency_is_a_limit(raw_server: Start) -> None:
    """Never more requests in flight than stated."""
    flying = highest = 0

    def count(request: Request) -> bytes:
        nonlocal flying, highest
        flying += 1
        highest = max(highest, flying)
        time.sleep(0.02)
        flying -= 1
        return echo(request)

    ask_all(raw_server(count).url, 60)
    assert 1 < highest <= LIMITS.concurrency


def test_a_full_disk_ends_the_run(raw_server: Start) -> None:
    """An answer that cannot be kept ends the run with its own reason instead of being lost."""

    def refuse(answer: Answer) -> None:
        raise InfraError("no space left", reason="journal-write")

    with pytest.raises(InfraError, match="no space left"):
        ask_all(raw_server(echo).url, on_answer=refuse)
