"""Responses that look like answers and may be none: unfinished, of two choices, said twice, or unreadable."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, attached, here, kept, record
from fault_server import Fault, question_of, saying, striking
from raw_server import Request, Start, completion, http
from right_answers import right

WRONG = "#### 987654"
Change = Callable[[Request, dict[str, Any]], bytes]


def gated(folder: Path, url: str, *more: str) -> Ran:
    return here(folder, *attached(url, "client.attempts=2", *more), "--json")


def body_of(request: Request) -> dict[str, Any]:
    """The right body, as a server sends it."""
    body: dict[str, Any] = json.loads(right(request).partition(b"\r\n\r\n")[2])
    return body


def changed(change: Callable[[dict[str, Any]], Any]) -> Fault:
    """The right answer with something changed in its body."""

    def handle(request: Request) -> bytes:
        body = body_of(request)
        change(body)
        return http(200, body)

    return handle


def without_end(text: str | None = None) -> Fault:
    """An answer, this one or the right one, that does not say why it ended."""

    def cut(body: dict[str, Any]) -> None:
        del body["choices"][0]["finish_reason"]
        body["choices"][0]["text"] = text or body["choices"][0]["text"]

    return changed(cut)


def null_end(body: dict[str, Any]) -> None:
    body["choices"][0].update(finish_reason=None, text="Half of")


def second_choice(body: dict[str, Any]) -> None:
    body["choices"] = [{**body["choices"][0], "index": 1, "text": WRONG}, {**body["choices"][0], "index": 0}]


def other_index(body: dict[str, Any]) -> None:
    body["choices"][0].update(index=1, text=WRONG)


def twice(request: Request) -> bytes:
    """The key `choices` stands twice in the body: first the right ones, then others."""
    text = json.dumps(body_of(request))
    return http(200, text[:-1] + ', "choices": [{"finish_reason": "stop", "text": "' + WRONG + '"}]}')


def nested_twice(request: Request) -> bytes:
    """The key `text` stands twice in the choice."""
    return http(200, json.dumps(body_of(request)).replace('"finish_reason"', f'"text": "{WRONG}", "finish_reason"'))


def typed(content_type: str) -> Fault:
    return lambda request: http(200, body_of(request), content_type=content_type)


DOUBTFUL: dict[str, tuple[Fault, str, str]] = {
    "end null": (changed(null_end), "bad_shape", "does not say why it ended"),
    "end left out": (without_end("Half of"), "bad_shape", "does not say why it ended"),
    "two choices": (changed(second_choice), "bad_shape", "not one choice"),
    "another choice": (changed(other_index), "bad_shape", "not one choice"),
    "choices twice": (twice, "not_json", "'choices' stands twice"),
    "text twice": (nested_twice, "not_json", "'text' stands twice"),
    "a type that nobody can read": (typed("charset;json*"), "not_json", "content type charset"),
    "another one": (typed("application/json*=''; *="), "not_json", "content type application/json*"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_doubtful_answer_is_lost_and_told(raw_server: Start, tmp_path: Path, name: str) -> None:
    """What may be half an answer, another one or none is never scored: it is lost, under a stated kind."""
    fault, kind, detail = DOUBTFUL[name]
    ran = gated(tmp_path, raw_server(striking(fault, every=10)).url)
    assert (ran.code, ran.data["verdict"], ran.data["counts"]["lost"]) == (3, "INFRA", 4)
    assert ran.data["counts"]["wrong"] == 0
    failures = [seen["failure"] for seen in kept(ran, tmp_path) if seen["failure"]]
    assert {failure["kind"] for failure in failures} == {kind}
    assert all(detail in failure["detail"] for failure in failures)


@pytest.mark.parametrize("name", DOUBTFUL)
def test_a_doubtful_answer_is_asked_again(raw_server: Start, tmp_path: Path, name: str) -> None:
    """A second, whole answer makes it good, and the record says what was retried."""
    fault, kind, _ = DOUBTFUL[name]
    ran = gated(tmp_path, raw_server(striking(fault, every=10, first=1)).url)
    assert (ran.code, ran.data["accuracy"]) == (0, 1.0)
    assert ran.data["retried"] == f"4 x {kind.replace('_', ' ')}"


def test_a_server_that_never_says_why_answers_end(raw_server: Start, tmp_path: Path) -> None:
    """Where the first completion did not say it either, answers are taken as they are, with a warning in the record."""
    whole = without_end()
    ran = gated(tmp_path, raw_server(lambda asked: whole(asked) if asked.method == "POST" else right(asked)).url)
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)
    (warning,) = [one for one in ran.data["warnings"] if "finish_reason" in one]
    assert warning.startswith("not verified: 40 answers do not say why they ended")
    assert warning in str(record(ran, tmp_path))


def numbered(request: Request) -> bytes:
    """The right answer with an id of its own, as most servers give one."""
    if request.method != "POST":
        return right(request)
    return http(200, {"id": f"cmpl-{request.number}", **body_of(request)})


def said_twice(pause_s: float) -> Fault:
    """The right answer, and some time later the same response once more; the connection stays open."""

    def pieces(response: bytes) -> Iterator[bytes]:
        yield response
        time.sleep(pause_s)
        yield response
        time.sleep(2)

    return lambda request: pieces(numbered(request))


@pytest.mark.parametrize("pause_s", [0.0, 0.003, 0.02])
def test_a_late_second_copy_is_no_answer_to_the_next(raw_server: Start, tmp_path: Path, pause_s: float) -> None:
    """A response that a server sends twice is never scored against the question that comes next on its connection."""
    server = raw_server(striking(said_twice(pause_s), every=8, first=1, otherwise=numbered))
    ran = gated(tmp_path, server.url, "client.concurrency=1", "client.request_timeout_s=5", "client.attempts=3")
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)


def test_two_copies_at_any_distance(raw_server: Start, tmp_path: Path) -> None:
    """A response that answered one question is refused as another's, however it got there, and asked for again."""
    first: list[bytes] = []

    def handle(request: Request) -> bytes:
        number = question_of(request)
        if number is not None and number % 10 == 5 and first:
            return first[0]
        answer = numbered(request)
        if number is not None:
            first.append(answer)
        return answer

    ran = gated(tmp_path, raw_server(handle).url, "client.concurrency=1")
    assert (ran.data["counts"]["wrong"], ran.data["counts"]["lost"]) == (0, 4)
    (told,) = [one for one in ran.data["warnings"] if "lost by bad_shape" in one]
    assert "the same response came twice" in told


@pytest.mark.parametrize("ids", ["one", "none", "two", "seconds"])
def test_ids_that_number_nothing(raw_server: Start, tmp_path: Path, ids: str) -> None:
    """Equal bodies to different questions stand where ids are none, all the same, or said of different answers."""

    def handle(request: Request) -> bytes:
        if request.method != "POST":
            return right(request)
        number = {"one": 1, "two": request.number % 2, "seconds": request.number // 10}.get(ids)
        body = completion("#### 7" if request.number % 3 else f"#### {request.number}")
        return http(200, body if number is None else {"id": f"cmpl-{number}", **body})

    ran = here(tmp_path, *attached(raw_server(handle).url, "client.concurrency=1"), "--json")
    assert ran.data["counts"]["lost"] == 0


def test_a_cache_is_no_second_copy(raw_server: Start, tmp_path: Path) -> None:
    """The same response to the same request is a cache's answer, and not lost."""
    cache: dict[bytes, bytes] = {}
    lock = threading.Lock()

    def cached(request: Request) -> bytes:
        with lock:
            return cache.setdefault(request.body, numbered(request)) if request.method == "POST" else right(request)

    more = ("protocol.temperature=0.7", "protocol.repeats=3", "protocol.seed=null")
    ran = here(tmp_path, *attached(raw_server(cached).url, *more, n=20), "--json")
    assert ran.data["counts"]["lost"] == 0


def test_many_tool_calls_are_lost(raw_server: Start, tmp_path: Path) -> None:
    """Calls of a tool that nobody offered are believed up to the share of empty answers, and lost beyond it."""
    call = {**completion(None, finish="tool_calls")}
    call["choices"][0]["tool_calls"] = [{"id": "x", "type": "function"}]
    fault = striking(saying(http(200, call)), every=10)
    ran = gated(tmp_path, raw_server(fault).url)
    assert (ran.code, ran.data["verdict"], ran.data["counts"]["lost"]) == (3, "INFRA", 4)
    assert any("4 of 40 empty (10%, limit 2%, 4 of them tool calls" in one for one in ran.data["warnings"])
    believed = gated(tmp_path, raw_server(striking(saying(http(200, call)), every=10)).url, "gate.max_empty_share=1")
    assert (believed.code, believed.data["no_answer"]) == (0, {"tool_call": 4})
