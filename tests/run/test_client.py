"""One request and its typed outcome, against a server that says exactly what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fault_server import made_certificate, over_tls
from gatekit.records.answers import Completion, FailureKind
from gatekit.records.spec import Api
from gatekit.run.client import MAX_BODY_BYTES, Client, Refusal
from gatekit.run.completion import MAX_TEXT_BYTES, BadShapeError, parse_completion
from raw_server import Handler, Start, chat, completion, http


def ask(url: str, *, api: Api = Api.COMPLETIONS, timeout_s: float = 5, key: str | None = None) -> Completion | Refusal:
    async def one() -> Completion | Refusal:
        async with Client(url, api_key=key, request_timeout_s=timeout_s) as client:
            return await client.ask(api, b"{}", expected_model="m")

    return asyncio.run(one())


def always(response: bytes) -> Handler:
    return lambda request: response


def kind_of(result: Completion | Refusal) -> FailureKind:
    assert isinstance(result, Refusal), result
    return result.failure.kind


def test_a_text_completion(raw_server: Start) -> None:
    """Text, finish reason and token counts arrive as the server sent them."""
    server = raw_server(lambda request: http(200, completion("#### 18")))
    result = ask(server.url)
    assert result == Completion(text="#### 18", finish_reason="stop", prompt_tokens=7, completion_tokens=9)
    assert server.paths() == ["/v1/completions"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_chat_completion_with_reasoning(raw_server: Start, name: str) -> None:
    """Reasoning is read under both of its names and kept apart from the answer."""
    server = raw_server(lambda request: http(200, chat("18", more={name: "thinking"})))
    result = ask(server.url, api=Api.CHAT)
    assert isinstance(result, Completion)
    assert (result.text, result.reasoning) == ("18", "thinking")


def test_tool_calls_are_seen(raw_server: Start) -> None:
    """A null content beside tool calls is an answer without text, not a fault."""
    server = raw_server(lambda request: http(200, chat(None, finish="tool_calls", more={"tool_calls": [{"id": "x"}]})))
    result = ask(server.url, api=Api.CHAT)
    assert isinstance(result, Completion)
    assert result.has_tool_calls


ZERO = {"completion_tokens": 0}
GZIPPED = gzip.compress(b"{}" * 1000)

RESPONSES: dict[str, tuple[bytes, FailureKind]] = {
    "500": (http(500, {"error": {"message": "x"}}), FailureKind.SERVER_ERROR),
    "503": (http(503, ""), FailureKind.SERVER_ERROR),
    "502 html": (http(502, "<html>bad gateway</html>", content_type="text/html"), FailureKind.SERVER_ERROR),
    "429": (http(429, {}, "Retry-After: 2"), FailureKind.RATE_LIMITED),
    "401": (http(401, {}), FailureKind.UNAUTHORIZED),
    "403": (http(403, {}), FailureKind.UNAUTHORIZED),
    "404": (http(404, {}), FailureKind.NOT_FOUND),
    "400": (http(400, {}), FailureKind.REJECTED),
    "422": (http(422, {}), FailureKind.REJECTED),
    "redirect": (http(302, "", "Location: http://127.0.0.1:1/"), FailureKind.REDIRECT),
    "html": (http(200, "<html>", content_type="text/html"), FailureKind.NOT_JSON),
    "stream": (http(200, "data: {}\n\n", content_type="text/event-stream"), FailureKind.NOT_JSON),
    "empty": (http(200, ""), FailureKind.NOT_JSON),
    "half": (http(200, '{"choices": [{"te'), FailureKind.NOT_JSON),
    "nan": (http(200, '{"choices": [{"text": "1"}], "a": NaN}'), FailureKind.NOT_JSON),
    "utf-8": (http(200, b'{"choices": [{"text": "\xff\xfe"}]}'), FailureKind.NOT_JSON),
    "deep": (http(200, "[" * 100_000), FailureKind.NOT_JSON),
    "list": (http(200, "[]"), FailureKind.BAD_SHAPE),
    "no choices": (http(200, {"model": "m", "choices": []}), FailureKind.BAD_SHAPE),
    "choices null": (http(200, {"model": "m", "choices": None}), FailureKind.BAD_SHAPE),
    "text a number": (http(200, {"model": "m", "choices": [{"text": 5}]}), FailureKind.BAD_SHAPE),
    "swallowed": (http(200, completion(None, tokens=50)), FailureKind.BAD_SHAPE),
    "null, no usage": (http(200, {"choices": [{"text": None, "finish_reason": "stop"}]}), FailureKind.BAD_SHAPE),
    "null, one token": (http(200, completion(None, tokens=1)), FailureKind.BAD_SHAPE),
    "null, no finish": (http(200, {"choices": [{"text": None, **ZERO}], "usage": ZERO}), FailureKind.BAD_SHAPE),
    "empty, no finish": (http(200, {"choices": [{"text": ""}]}), FailureKind.BAD_SHAPE),
    "empty, many tokens": (http(200, completion("", tokens=2)), FailureKind.BAD_SHAPE),
    "null, a call announced": (http(200, completion(None, finish="tool_calls", tokens=0)), FailureKind.BAD_SHAPE),
    "filtered": (http(200, completion("#### 1", finish="content_filter")), FailureKind.ABORTED),
    "cancelled": (http(200, completion("#### 1", finish="cancelled")), FailureKind.ABORTED),
    "an unknown end": (http(200, completion("#### 1", finish="STOP?")), FailureKind.ABORTED),
    "an empty error": (http(200, {"error": {}, **completion("#### 1")}), FailureKind.BAD_SHAPE),
    "an error object": (http(200, {"object": "error", **completion("#### 1")}), FailureKind.BAD_SHAPE),
    "aborted": (http(200, completion("#### 1", finish="abort")), FailureKind.ABORTED),
    "error as an answer": (http(200, completion("Internal error 500", finish="error")), FailureKind.ABORTED),
    "error with 200": (http(200, {"error": {"message": "x"}, **completion("")}), FailureKind.BAD_SHAPE),
    "a huge text": (http(200, completion("x" * (MAX_TEXT_BYTES + 1))), FailureKind.TOO_LARGE),
    "a huge text in bytes": (http(200, completion("\u20ac" * (MAX_TEXT_BYTES // 2))), FailureKind.TOO_LARGE),
    "wrong model": (http(200, completion("1", model="other")), FailureKind.WRONG_MODEL),
    "compressed": (http(200, GZIPPED, "Content-Encoding: gzip"), FailureKind.BAD_SHAPE),
    "cut short": (http(200, completion("1"))[:-5] + b"", FailureKind.DISCONNECTED),
    "reset": (b"", FailureKind.DISCONNECTED),
    "not http": (b"220 smtp ready\r\n\r\n", FailureKind.BAD_SHAPE),
    "huge length": (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", FailureKind.BAD_SHAPE),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_what_is_no_answer_is_a_typed_failure(raw_server: Start, name: str) -> None:
    """Whatever a server does wrong is a failure of a stated kind, never an answer and never an exception."""
    response, kind = RESPONSES[name]

    def handle(request: object) -> bytes:
        return response if name not in ("cut short",) else response.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)

    assert kind_of(ask(raw_server(handle).url)) is kind


def test_too_large_a_body(raw_server: Start) -> None:
    """A body over the limit is cut off while it arrives."""
    size = MAX_BODY_BYTES * 4
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()
    server = raw_server(lambda request: head + b" " * size)
    assert kind_of(ask(server.url)) is FailureKind.TOO_LARGE


def test_a_stated_length_is_enough_to_refuse(raw_server: Start) -> None:
    """A body that says it is too large is not waited for, and the limit is named."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n"
    result = ask(raw_server(always(head.encode())).url, timeout_s=5)
    assert kind_of(result) is FailureKind.TOO_LARGE
    assert isinstance(result, Refusal)
    assert "body over 8 MiB" in result.failure.detail


def ask_at_once(url: str, n: int) -> list[Completion | Refusal]:
    async def all_() -> list[Completion | Refusal]:
        async with Client(url, api_key=None, request_timeout_s=60) as client:
            return await asyncio.gather(*(client.ask(Api.COMPLETIONS, b"{}", expected_model="m") for _ in range(n)))

    return asyncio.run(all_())


def test_many_huge_bodies_cost_bounded_memory(raw_server: Start) -> None:
    """64 bodies of 50 MB at the same time, of unstated length, cost less than 100 MB in all."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    server = raw_server(always(head + b" " * 50_000_000))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before_mb = peak_mb()
    assert {kind_of(result) for result in ask_at_once(server.url, 64)} == {FailureKind.TOO_LARGE}
    assert peak_mb() - before_mb < 100


def peak_mb() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def test_large_bodies_at_the_same_time_are_answers(raw_server: Start) -> None:
    """The bound on memory makes allowed bodies wait for each other; it loses none."""
    server = raw_server(always(http(200, {**completion("#### 1"), "logprobs": "x" * 2_000_000})))
    assert all(isinstance(result, Completion) for result in ask_at_once(server.url, 64))


def test_silence_ends_at_the_deadline(raw_server: Start) -> None:
    """A server that never answers costs one request's deadline and no more."""
    began = time.monotonic()
    assert kind_of(ask(raw_server(lambda request: None).url, timeout_s=0.3)) is FailureKind.TIMEOUT
    assert time.monotonic() - began < 3


def test_nobody_listens_and_no_such_host() -> None:
    """A closed port and an unknown host are told apart."""
    assert kind_of(ask("http://127.0.0.1:9")) is FailureKind.REFUSED
    assert kind_of(ask("http://no-such-host.invalid")) is FailureKind.DNS


def test_the_key_is_sent_and_never_shown(raw_server: Start) -> None:
    """The key goes into the header, and out of every failure's detail even when the server repeats it."""
    server = raw_server(lambda request: http(500, f"you sent {request.headers['authorization']} \x1b[31m"))
    result = ask(server.url, key="sk-very-secret")
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    assert isinstance(result, Refusal)
    assert "sk-very-secret" not in result.failure.detail
    assert "\x1b" not in result.failure.detail
    assert len(result.failure.detail) <= 200


def test_an_empty_answer_is_an_answer(raw_server: Start) -> None:
    """An empty text with no token made, or only the end token, is what the model gave; so is a cut-off null."""
    for body in (completion("", tokens=0), completion("", tokens=1), completion(None, tokens=0)):
        assert isinstance(ask(raw_server(always(http(200, body))).url), Completion)
    cut = completion(None, finish="length", tokens=256)
    assert isinstance(ask(raw_server(always(http(200, cut))).url), Completion)


def test_a_repeated_key_is_masked_in_answers(raw_server: Start) -> None:
    """A server that puts the key into its answer does not get it into the record."""
    server = raw_server(always(http(200, completion("the key is sk-very-secret, #### 1"))))
    result = ask(server.url, key="sk-very-secret")
    assert isinstance(result, Completion)
    assert result.text == "the key is ***, #### 1"


def test_a_key_spelled_with_escapes_is_masked_too(raw_server: Start) -> None:
    """JSON's own ways to write a character do not carry the key past the mask, in any field that is kept."""
    body = b'{"model": "m", "choices": [{"text": "\\u0073k-very\\/secret", "finish_reason": "stop",'
    body += b' "reasoning": "sk-very\\/secret"}]}'
    result = ask(raw_server(always(http(200, body))).url, key="sk-very/secret")
    assert isinstance(result, Completion)
    assert (result.text, result.reasoning) == ("***", "***")
    finish = http(200, completion("1", finish="sk-very/secret"))
    refused = ask(raw_server(always(finish)).url, key="sk-very/secret")
    assert isinstance(refused, Refusal)
    assert "secret" not in refused.failure.detail


@pytest.mark.parametrize(
    "finish", ["stop", "length", "tool_calls", "function_call", "eos", "stop_sequence", "end_turn", None]
)
def test_how_answers_end(raw_server: Start, finish: str | None) -> None:
    """Every name that a model's own end goes by is an answer when there is text; so is no name at all."""
    body = {"choices": [{"text": "#### 1", "finish_reason": finish}]}
    assert isinstance(ask(raw_server(always(http(200, body))).url), Completion)


def test_the_callers_authority_is_trusted(tmp_path: Path) -> None:
    """A certificate that SSL_CERT_FILE vouches for is accepted, and without it refused as TLS."""
    certificate, key = made_certificate(tmp_path)
    with over_tls(certificate, key) as url:
        script = (
            "import asyncio, sys\nfrom gatekit.run.client import Client\n"
            "async def main():\n"
            "    async with Client(sys.argv[1], api_key=None, request_timeout_s=5) as client:\n"
            "        print(await client.status('/', timeout_s=5))\n"
            "asyncio.run(main())\n"
        )
        command = [sys.executable, "-c", script, url]
        plain = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
        trusted = {**plain, "SSL_CERT_FILE": str(certificate)}
        assert subprocess.run(command, env=trusted, capture_output=True, text=True).stdout == "503\n"
        assert "TLS" in subprocess.run(command, env=plain, capture_output=True, text=True).stdout


def test_a_lone_surrogate_is_replaced(raw_server: Start) -> None:
    """What UTF-8 cannot encode does not reach a record."""
    body = b'{"model": "m", "choices": [{"text": "a\\ud800b", "finish_reason": "stop"}]}'
    result = ask(raw_server(always(http(200, body))).url)
    assert isinstance(result, Completion)
    assert result.text == "a\ufffdb"


def test_retry_after(raw_server: Start) -> None:
    """The wait that a server asks for is passed on; nonsense is not."""
    for value, expected in (("2", 2.0), ("nan", None), ("-1", None), ("soon", None)):
        response = http(429, {}, f"Retry-After: {value}")
        result = ask(raw_server(always(response)).url)
        assert isinstance(result, Refusal)
        assert result.retry_after_s == expected


def test_no_proxy_on_the_way(raw_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies from the environment are not used."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert isinstance(ask(raw_server(lambda request: http(200, completion("1"))).url), Completion)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "text", "finish_reason", "usage", "tool_calls", "reasoning"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    data=st.dictionaries(st.sampled_from(["choices", "usage", "model"]), json_values),
    api=st.sampled_from(list(Api)),
)
def test_any_json_object_is_a_completion_or_a_bad_shape(data: dict[str, object], api: Api) -> None:
    """No JSON object makes the reader raise anything but its own error, or find text that is not there."""
    with contextlib.suppress(BadShapeError):
        text = parse_completion(api, data).text
        assert text is None or isinstance(text, str)
