"""Servers that hang up on a connection although they promised to keep it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Ran, attached, here
from fault_server import question_of
from raw_server import Request, Start, http
from right_answers import asked, right

STREAM = "protocol.stream=true"


def gated(folder: Path, url: str, *more: str) -> Ran:
    return here(folder, *attached(url, "client.attempts=1", *more), "--json")


def streamed(request: Request) -> bytes:
    """The right answer as a stream of one piece."""
    body = right(request).partition(b"\r\n\r\n")[2].decode()
    return http(200, f"data: {json.dumps(json.loads(body))}\n\ndata: [DONE]\n\n", content_type="text/event-stream")


def hanging_up(request: Request) -> bytes | Iterator[bytes]:
    """Closes behind each answer, without having said so."""
    if request.method != "POST":
        return right(request)
    return iter([streamed(request) if b'"stream"' in request.body else right(request)])


@pytest.mark.parametrize("more", [(), (STREAM,)])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_behind_each_answer(raw_server: Start, tmp_path: Path, more: tuple[str, ...], concurrency: int) -> None:
    """With one attempt a question nothing is lost, nothing is asked twice and nothing counts as retried."""
    server = raw_server(hanging_up)
    ran = gated(tmp_path, server.url, *more, f"client.concurrency={concurrency}")
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)
    assert ran.data["retried"] is None
    assert asked(server) == 40


def test_without_a_byte_of_the_answer(raw_server: Start, tmp_path: Path) -> None:
    """A kept connection that ends instead of an answer is no attempt; the question is asked once more, no more."""
    struck: list[int] = []
    lock = threading.Lock()

    def handle(request: Request) -> bytes | Iterator[bytes]:
        number = question_of(request)
        with lock:
            if number is not None and number % 10 == 5 and number not in struck:
                struck.append(number)
                return iter([])
        return right(request)

    server = raw_server(handle)
    ran = gated(tmp_path, server.url, "client.concurrency=1")
    assert (ran.code, ran.data["accuracy"], ran.data["retried"]) == (0, 1.0, None)
    assert (len(struck), asked(server)) == (4, 44)


def test_again_and_again(raw_server: Start, tmp_path: Path) -> None:
    """A question at which a server always hangs up is lost after its attempts, each sent on at most two connections."""

    def handle(request: Request) -> bytes | Iterator[bytes]:
        number = question_of(request)
        return iter([]) if number is not None and number % 10 == 5 else right(request)

    server = raw_server(handle)
    ran = gated(tmp_path, server.url, "client.concurrency=1")
    assert (ran.code, ran.data["counts"]["lost"]) == (3, 4)
    assert asked(server) <= 44


def test_in_the_middle_of_an_answer(raw_server: Start, tmp_path: Path) -> None:
    """A connection that ends within an answer is an attempt, as it always was."""

    def handle(request: Request) -> bytes | Iterator[bytes]:
        number = question_of(request)
        return iter([right(request)[:-9]]) if number is not None and number % 10 == 5 else right(request)

    server = raw_server(handle)
    ran = gated(tmp_path, server.url)
    assert (ran.code, ran.data["counts"]["lost"], asked(server)) == (3, 4, 40)
    assert any("lost by disconnected" in one for one in ran.data["warnings"])
