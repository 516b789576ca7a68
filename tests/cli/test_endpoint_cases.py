"""The catalogue of endpoint faults: one test a row, named by its id. Loading, identity and restarts are elsewhere.

E04 to E06 are cases of the process under supervision, E07 to E09 of identity, E37 to E39 of resuming.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, attached, gatekit, here, kept, outcomes, record
from fault_server import (
    Fault,
    cut_short,
    dripping,
    endless_header,
    endless_hints,
    headed,
    huge,
    made_certificate,
    many_headers,
    over_tls,
    question_of,
    reset_midway,
    saying,
    striking,
)
from raw_server import RawServer, Request, Start, chat, completion, http
from right_answers import asked, is_question, reference, right

CHAT = "protocol.api=chat"
NULL_AFTER_50 = http(200, chat(None, tokens=50))


def arguments(url: str, *more: str, n: int = 40) -> tuple[str, ...]:
    return *attached(url, "client.attempts=2", *more, n=n), "--json"


def gated(folder: Path, server: RawServer, *more: str, n: int = 40) -> Ran:
    ran = here(folder, *arguments(server.url, *more, n=n))
    assert ran.data["exit_code"] == ran.code
    return ran


def test_e01_connection_refused(tmp_path: Path) -> None:
    """A closed port is tried for the whole start-up time; address, seconds and tries are named."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ran = here(tmp_path, *arguments(f"http://127.0.0.1:{port}", "engine.startup_timeout_s=1"))
    assert (ran.code, ran.data["reason_code"], ran.data["accuracy"]) == (3, "not-ready", None)
    assert re.search(rf"127\.0\.0\.1:{port} was not ready after \d s and \d+ tries", ran.data["reason"])


def test_e02_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    """An unknown host is named as such, and not waited for."""
    began = time.monotonic()
    ran = here(tmp_path, *arguments("http://no-such-host.invalid", "engine.startup_timeout_s=300"))
    assert (ran.code, ran.data["reason_code"]) == (3, "dns")
    assert "host name does not resolve" in ran.data["reason"]
    assert time.monotonic() - began < 60


def test_e03_a_certificate_of_nobody(tmp_path: Path) -> None:
    """Certificates are verified; the message names the variable that names an authority."""
    with over_tls(*made_certificate(tmp_path)) as url:
        ran = here(tmp_path, *arguments(url, "engine.startup_timeout_s=60"))
    assert (ran.code, ran.data["reason_code"]) == (3, "tls")
    assert "SSL_CERT_FILE" in ran.data["hint"]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_e10_retry_after_is_waited_for(raw_server: Start, tmp_path: Path, form: str) -> None:
    """A tenth of the requests is told to come back later: nobody comes sooner, and the accuracy is that without."""
    sent: dict[int, list[float]] = {}
    told_s = 1 if form == "seconds" else 2  # a date has no fraction of a second

    def limited(request: Request) -> bytes:
        number = question_of(request)
        assert number is not None
        sent.setdefault(number, []).append(time.monotonic())
        if len(sent[number]) > 1:
            return right(request)
        now = datetime.now(UTC)
        until = format_datetime(now + timedelta(seconds=told_s), usegmt=True)
        told = f"Retry-After: {told_s if form == 'seconds' else until}"
        return http(429, {}, told, f"Date: {format_datetime(now, usegmt=True)}")

    ran = gated(tmp_path, raw_server(striking(limited, every=10)))
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)
    assert len(sent) == 4
    assert all(later - earlier >= 1 for earlier, later in sent.values())
    assert ran.data["retried"] == f"4 x HTTP 429 (waited {4 * told_s} s for Retry-After)"
    assert f"retried: {ran.data['retried']}" in record(ran, tmp_path)["events"]


@pytest.mark.parametrize("day", ["86400", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_e11_a_day_of_retry_after_is_not_slept(raw_server: Start, tmp_path: Path, day: str) -> None:
    """A wait past the run's deadline loses the question at once."""
    began = time.monotonic()
    ran = gated(tmp_path, raw_server(striking(saying(http(429, {}, f"Retry-After: {day}")))))
    assert (ran.code, ran.data["verdict"], ran.data["counts"]["lost"]) == (3, "INFRA", 40)
    assert {seen["failure"]["kind"] for seen in kept(ran, tmp_path)} == {"rate_limited"}
    assert time.monotonic() - began < 60


def test_e12_first_attempts_fail(raw_server: Start, tmp_path: Path) -> None:
    """Retried 500s change nothing: the answers are those of the fault-free run, the retries are counted."""

    def half_right(request: Request) -> bytes:
        wrong = (question_of(request) or 1) % 9 == 0
        return http(200, completion("#### 123456")) if wrong and request.method == "POST" else right(request)

    failing = striking(saying(http(500, {})), every=30, first=1, otherwise=half_right)
    without = gated(tmp_path, raw_server(half_right), n=90)
    ran = gated(tmp_path, raw_server(failing), n=90)
    assert (ran.code, ran.data["verdict"]) == (without.code, without.data["verdict"]) == (0, "PASS")
    assert outcomes(ran, tmp_path) == outcomes(without, tmp_path)
    assert (without.data["retried"], ran.data["retried"]) == (None, "3 x HTTP 500")
    shown = here(tmp_path, "explain", ran.data["run_id"]), here(tmp_path, "history", "show", ran.data["run_id"])
    assert all(re.search(r"retried +3 x HTTP 500\n", text.out) for text in shown), shown


def test_e13_the_same_questions_always_fail(raw_server: Start, tmp_path: Path) -> None:
    """Where the lost answers decide the verdict it is INFRA, and the questions are named; never a lower accuracy."""
    server = raw_server(striking(saying(http(500, {})), every=20))
    ran = gated(tmp_path, server, "gate.floor=0.97", "gate.max_lost_share=0.5")
    assert (ran.code, ran.data["reason_code"], ran.data["accuracy"]) == (3, "lost-answers-decide", None)
    assert (ran.data["counts"]["wrong"], ran.data["counts"]["lost"]) == (0, 2)
    assert any(line.endswith("; questions 0, 20") for line in ran.data["warnings"]), ran.data["warnings"]
    assert {seen["attempts"] for seen in kept(ran, tmp_path) if seen["failure"]} == {2}


def test_e14_e15_one_lost_answer(raw_server: Start, tmp_path: Path) -> None:
    """One lost answer far from the threshold changes no verdict, on either side of it, and is told."""
    for answer, code in ((right, 0), (saying(http(200, completion("#### 123456"))), 1)):
        wrong_or_right = striking(answer)
        server = raw_server(striking(saying(http(500, {})), every=1000, otherwise=wrong_or_right))
        ran = gated(tmp_path, server, "client.attempts=1", n=200)
        assert (ran.code, ran.data["counts"]["lost"]) == (code, 1)
        assert any(line.startswith("1 lost by server_error") for line in ran.data["warnings"])


def test_e16_a_third_is_too_late(raw_server: Start, tmp_path: Path) -> None:
    """Requests over their time are lost, not wrong."""
    ran = gated(tmp_path, raw_server(striking(lambda request: None, every=3)), "client.request_timeout_s=1", n=30)
    assert (ran.code, ran.data["verdict"]) == (3, "INFRA")
    assert (ran.data["counts"]["wrong"], ran.data["counts"]["lost"]) == (0, 10)


HTML = "<html>\x1b[31m" + "x" * 1000
STREAM = http(200, "data: {}\n\ndata: [DONE]\n\n", content_type="text/event-stream")
NO_ANSWERS: dict[str, tuple[Fault, str, str]] = {
    "e17 502 with a page": (saying(http(502, HTML, content_type="text/html")), "server_error", "HTTP 502: <html>\\x1b"),
    "e18 a page": (saying(http(200, "<html>", content_type="text/html")), "not_json", "content type text/html"),
    "e19 an empty body": (saying(http(200, "")), "not_json", "empty body"),
    "e20 no choices": (saying(http(200, {"model": "m", "choices": []})), "bad_shape", "no choices"),
    "e21 a swallowed text": (saying(http(200, completion(None, tokens=50))), "bad_shape", "no text in the response"),
    "e27 cut short": (cut_short, "disconnected", "connection lost"),
    "e28 invalid utf-8": (saying(http(200, b'{"a": "\xff"}')), "not_json", "body is not JSON"),
    "e29 nan": (saying(http(200, b'{"choices": [{"text": "1"}], "a": NaN}')), "not_json", "NaN is not a JSON number"),
    "e30 a stream": (saying(STREAM), "not_json", "a stream although stream is off"),
    "e31 a drip": (dripping, "timeout", "no answer within 1 s"),
    "e32 50 MB": (huge, "too_large", "body over 8 MiB"),
    "e33 endless header": (endless_header, "bad_shape", "not proper HTTP"),
    "e33 200,000 headers": (many_headers, "bad_shape", "not proper HTTP"),
    "e33 endless hints": (endless_hints, "timeout", "no answer within 1 s"),
    "e35 reset": (reset_midway, "disconnected", "connection lost"),
    "a lie about the length": (saying(headed("Content-Length: 5") + b'{"a": 1}'), "not_json|bad_shape", "not"),
    "a redirect loop that is followed by nobody": (
        saying(http(302, "", "Location: /v1/completions")),
        "redirect",
        "HTTP 302",
    ),
    "compressed": (saying(headed("Content-Encoding: gzip", "Content-Length: 0")), "bad_shape", "compressed body"),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_what_is_no_answer_is_infra(raw_server: Start, tmp_path: Path, name: str) -> None:
    """E17 to E33: whatever is no answer is asked for again, then lost by its kind, never scored; INFRA, no accuracy."""
    fault, kind, detail = NO_ANSWERS[name]
    slow = {"client.request_timeout_s=1"} if kind == "timeout" else set()
    ran = gated(tmp_path, raw_server(striking(fault)), *slow, "client.deadline_s=60", n=4)
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (3, "INFRA", None)
    assert (ran.data["counts"]["lost"], ran.data["counts"]["wrong"]) == (4, 0)
    if kind == "redirect":  # concerns every question: the run ends with the first
        assert (ran.data["reason_code"], detail in ran.data["reason"]) == ("redirect", True)
        return
    for seen in kept(ran, tmp_path):
        assert seen["failure"]["kind"] in kind.split("|")
        assert detail in seen["failure"]["detail"]
        assert len(seen["failure"]["detail"]) <= 200
        assert seen["attempts"] == (1 if kind == "too_large" else 2)
    assert "\x1b" not in ran.out + ran.err


ONCE: dict[str, tuple[Fault, str]] = {
    "e27": (cut_short, "disconnected"),
    "e28": (saying(http(200, b'{"choices": [{"text": "\xff\xfe"}]}')), "not json"),
    "e29": (saying(http(200, b'{"choices": [{"text": "1"}], "a": NaN}')), "not json"),
    "e35": (reset_midway, "disconnected"),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_passes_at_the_second_try(raw_server: Start, tmp_path: Path, name: str) -> None:
    """E27, E28, E29, E35: a fifth of the first answers is broken on its way; all answers are had, retries counted."""
    fault, kind = ONCE[name]
    ran = gated(tmp_path, raw_server(striking(fault, every=5, first=1)))
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)
    assert ran.data["retried"] == f"8 x {kind}"
    assert "NaN" not in json.dumps(record(ran, tmp_path))


def test_e21_a_null_after_many_tokens(raw_server: Start, tmp_path: Path) -> None:
    """A chat answer that is null although tokens were made is the server's fault and no wrong answer."""
    ran = gated(tmp_path, raw_server(striking(saying(NULL_AFTER_50), every=5)), CHAT)
    assert (ran.code, ran.data["counts"]["lost"], ran.data["counts"]["no_answer"]) == (3, 8, 0)


def test_e22_a_few_empty_answers(raw_server: Start, tmp_path: Path) -> None:
    """A few empty answers are the model's: wrong, and counted apart in the summary, on the screen and by explain."""
    server = raw_server(striking(saying(http(200, completion("", tokens=0))), every=200))
    ran = gated(tmp_path, server, n=400)
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["no_answer"]) == (0, 398 / 400, 2)
    assert ran.data["no_answer"] == {"empty": 2}
    assert re.search(r"no answer +2 empty\n", here(tmp_path, "explain", ran.data["run_id"]).out)


@pytest.mark.parametrize("text", ["", " \n", None])
def test_many_empty_answers_are_believed_of_nobody(raw_server: Start, tmp_path: Path, text: str | None) -> None:
    """An empty answer in twenty is lost, not wrong: it moves no accuracy, passes nothing and fails nothing."""
    server = raw_server(striking(saying(http(200, completion(text, tokens=0))), every=20))
    ran = gated(tmp_path, server, "gate.floor=0.97")
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (3, "INFRA", None)
    assert (ran.data["counts"]["lost"], ran.data["counts"]["wrong"]) == (2, 0)
    (line,) = (line for line in ran.data["warnings"] if "lost by empty" in line)
    assert "2 of 40 empty (5%, limit 2%): lost by the server, or the model's own?" in line
    assert "then gate.max_empty_share=1" in line


def test_a_model_that_says_nothing(raw_server: Start, tmp_path: Path) -> None:
    """A run of empty answers alone is no verdict; that they are the model's own has to be said, and then it fails."""
    server = raw_server(striking(saying(http(200, completion("", tokens=1)))))
    ran = gated(tmp_path, server)
    assert (ran.code, ran.data["counts"]["lost"]) == (3, 40)
    ran = gated(tmp_path, server, "gate.max_empty_share=1")
    assert (ran.code, ran.data["verdict"], ran.data["counts"]["no_answer"]) == (1, "FAIL", 40)
    assert "every answer is empty: a parser fault?" in ran.data["warnings"]


def test_e23_cut_off_while_reasoning(raw_server: Start, tmp_path: Path) -> None:
    """A tenth of the answers without text at the token limit: no verdict, no accuracy, and what to raise."""
    cut = http(200, chat(None, finish="length", tokens=256, more={"reasoning": "let me think"}))
    ran = gated(tmp_path, raw_server(striking(saying(cut), every=10)), CHAT)
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (4, "INCONCLUSIVE", None)
    assert ran.data["reason"] == "10% truncated, limit 2%: raise protocol.max_tokens"


def test_e24_reasoning_under_both_names(raw_server: Start, tmp_path: Path) -> None:
    """`reasoning` and `reasoning_content` are the same."""
    seen = []
    for name in ("reasoning", "reasoning_content"):

        def think(request: Request, name: str = name) -> bytes:
            return http(200, chat(reference(request.data["messages"][-1]["content"]), more={name: "hmm"}))

        ran = gated(tmp_path, raw_server(striking(think)), CHAT)
        seen.append((ran.code, [(one["text"], one["reasoning"]) for one in kept(ran, tmp_path)]))
    assert seen[0] == seen[1]
    assert {reasoning for _, reasoning in seen[0][1]} == {"hmm"}


def test_e25_a_number_in_a_cut_off_answer(raw_server: Start, tmp_path: Path) -> None:
    """Of an answer that was cut off no number is read for want of a better one."""
    cut = http(200, completion("First she has 12 eggs and then 7", finish="length"))
    ran = gated(tmp_path, raw_server(striking(saying(cut), every=10)))
    assert (ran.code, ran.data["counts"]["truncated"], ran.data["counts"]["wrong"]) == (4, 4, 0)


def test_e26_a_tool_call(raw_server: Start, tmp_path: Path) -> None:
    """A tool call instead of text is no answer, with its own reason, up to the share that is believed of a server."""
    call = http(200, chat(None, finish="tool_calls", more={"tool_calls": [{"id": "x", "type": "function"}]}))
    ran = gated(tmp_path, raw_server(striking(saying(call), every=10)), CHAT, "gate.max_empty_share=0.1")
    assert (ran.code, ran.data["no_answer"], ran.data["counts"]["no_answer"]) == (0, {"tool_call": 4}, 4)


def test_e34_connections_closed_now_and_then(raw_server: Start, tmp_path: Path) -> None:
    """A server that closes after every fifth answer, unannounced, costs no answer and doubles none."""
    count = 0

    def closing(request: Request) -> Any:
        nonlocal count
        count += 1
        return iter([right(request)]) if count % 5 == 0 else right(request)

    ran = gated(tmp_path, raw_server(closing), "client.concurrency=4", "client.attempts=5")
    assert (ran.code, ran.data["accuracy"], ran.data["counts"]["lost"]) == (0, 1.0, 0)
    assert [seen["question_id"] for seen in kept(ran, tmp_path)] == list(range(40))


def test_e36_one_id_for_all_and_no_order(raw_server: Start, tmp_path: Path) -> None:
    """Answers belong to their requests, whatever their id and their order."""

    def shuffled(request: Request) -> bytes:
        number = question_of(request) or 0
        time.sleep(0.02 * (number * 7 % 5))
        answer = reference(request.data["prompt"]) if number % 4 else "#### 123456"
        return http(200, {"id": "cmpl-1", **completion(answer)})

    ran = gated(tmp_path, raw_server(striking(shuffled)), "gate.floor=0.5")
    assert (ran.code, ran.data["accuracy"]) == (0, 0.75)
    assert [seen["status"] for seen in kept(ran, tmp_path)[:5]] == ["wrong", *["correct"] * 3, "wrong"]


def test_e40_queueing_is_no_time_of_a_request(raw_server: Start, tmp_path: Path) -> None:
    """Twice as many seconds of work as one request may take, and no request is late."""

    def slow(request: Request) -> bytes:
        time.sleep(0.2)
        return right(request)

    ran = gated(tmp_path, raw_server(striking(slow)), "client.concurrency=4", "client.request_timeout_s=2", n=80)
    assert (ran.code, ran.data["counts"]["lost"], ran.data["retried"]) == (0, 0, None)


def test_one_slow_request_holds_nobody(raw_server: Start, tmp_path: Path) -> None:
    """While some requests hang, all others are answered."""
    others, all_others = count(1), threading.Event()
    waited: list[bool] = []

    def counted(request: Request) -> bytes:
        if is_question(request) and next(others) == 38:
            all_others.set()
        return right(request)

    def hang(request: Request) -> bytes:
        waited.append(all_others.wait(50))
        return right(request)

    server = raw_server(striking(hang, every=20, otherwise=counted))
    ran = gated(tmp_path, server, "client.concurrency=4", "client.request_timeout_s=60", "client.attempts=1")
    assert (ran.code, ran.data["counts"]["lost"]) == (0, 0)
    assert waited == [True, True]


def test_e41_the_same_text_for_every_question(raw_server: Start, tmp_path: Path) -> None:
    """A constant answer is a FAIL, and said to be constant."""
    ran = gated(tmp_path, raw_server(striking(saying(http(200, completion("#### 123456"))))), n=200)
    assert (ran.code, ran.data["verdict"]) == (1, "FAIL")
    assert "100% identical outputs" in ran.data["warnings"]


def test_e42_no_proxy_for_loopback(raw_server: Start, tmp_path: Path) -> None:
    """A proxy named in the environment is not asked, least of all for this machine."""
    proxies = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), "http://127.0.0.1:1")
    server = raw_server(right)
    ran = here(tmp_path, *arguments(server.url), extra=proxies)
    assert (ran.code, asked(server)) == (0, 40)


def test_e43_a_name_of_two_addresses(raw_server: Start, tmp_path: Path) -> None:
    """`localhost` reaches a server that listens on one of its addresses alone."""
    server = raw_server(right)
    ran = here(tmp_path, *arguments(f"http://localhost:{server.port}"))
    assert (ran.code, asked(server)) == (0, 40)


def test_the_deadline_is_the_end(raw_server: Start, tmp_path: Path) -> None:
    """Every command ends by its deadline and 30 s, whatever hangs, drips or asks to wait."""

    def worst(request: Request) -> Any:
        kinds: list[Fault] = [lambda _: None, dripping, saying(http(429, {}, "Retry-After: 2")), endless_hints]
        return kinds[(question_of(request) or 0) % 4](request)

    began = time.monotonic()
    server = raw_server(striking(worst))
    ran = gatekit(
        tmp_path, *arguments(server.url, "client.deadline_s=2", "client.request_timeout_s=1", "client.attempts=20")
    )
    assert (ran.code, ran.data["reason_code"], ran.data["counts"]["lost"]) == (3, "deadline", 40)
    assert time.monotonic() - began < 2 + 30


def test_faults_are_counted_by_kind(raw_server: Start, tmp_path: Path) -> None:
    """Several kinds of faults at once: each has its count, retried with success or not, most frequent first."""
    faults = [http(500, {}), http(500, {}), http(503, {}), http(200, "<html>", content_type="text/html")]

    def several(request: Request) -> bytes:
        return faults[(question_of(request) or 0) // 5 % 4]

    ran = gated(tmp_path, raw_server(striking(several, every=5, first=1)))
    assert (ran.code, ran.data["retried"]) == (0, "4 x HTTP 500, 2 x HTTP 503, 2 x not json")
    assert Counter(seen["attempts"] for seen in kept(ran, tmp_path)) == {1: 32, 2: 8}
    lost = gated(tmp_path, raw_server(striking(several, every=5)))
    assert (lost.code, lost.data["retried"]) == (3, ran.data["retried"])
    told = " ".join(lost.data["warnings"])
    assert "6 lost by server_error: " in told
    assert "2 lost by not_json: " in told
    text = here(tmp_path, "explain", lost.data["run_id"]).out
    assert re.search(r"2 lost by not_json \(questions 15, 35\)\n", text)
    assert re.search(r"failures +6 lost by server_error", text)
