"""Whatever bytes a server sends: a typed outcome, in time, that can be kept; and nothing scored that is no answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatekit.records.answers import Completion, FailureKind, Question, Status
from gatekit.records.canonical import canonical_json, to_plain
from gatekit.records.spec import Api
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client, Refusal
from gatekit.run.loop import Answer
from gatekit.run.observe import observe
from gatekit.task.score import EXTRACTORS
from raw_server import chat, completion

TIMEOUT_S = 5.0
OWN_ENDS = {None, "stop", "eos", "eos_token", "stop_sequence", "end_turn"}
ENDS_OF_ANSWERS = OWN_ENDS | {"length", "tool_calls", "function_call"}
QUESTION = Question(id=0, text="", reference="#### 18")

Ask = Callable[[Api, bytes], "Completion | Refusal"]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Asks a server that says these bytes and closes; client and server live in one loop."""
    saying = b""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        try:
            writer.write(saying)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except OSError:
            return  # the client has heard enough

    with asyncio.Runner() as runner:
        server = runner.run(asyncio.start_server(say, "127.0.0.1", 0))
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = Client(url, api_key=None, request_timeout_s=TIMEOUT_S)
        runner.run(client.__aenter__())

        def one(api: Api, raw: bytes) -> Completion | Refusal:
            nonlocal saying
            saying = raw
            return runner.run(asyncio.wait_for(client.ask(api, b"{}", expected_model=None), 4 * TIMEOUT_S))

        yield one
        runner.run(client.__aexit__(None, None, None))
        server.close()
        runner.run(server.wait_closed())


class Seeds(list[str]):
    """Bodies, which a failing example need not spell out."""

    def __repr__(self) -> str:
        return f"{len(self)} bodies"


@pytest.fixture(scope="module")
def seeds(shared: Path) -> Seeds:
    """What real servers answered, right and wrong, and the plainest answers."""
    files = sorted((shared / "engine_samples").glob("*/*.json"))
    recorded = [json.loads(path.read_text()) for path in files if path.name.startswith(("chat_", "comp_", "err_"))]
    bodies = [sample["json"] for sample in recorded if isinstance(sample, dict) and sample.get("json") is not None]
    bodies += [completion("#### 18"), chat("#### 18"), completion(None, tokens=50), completion("", tokens=0)]
    texts = Seeds(text for text in map(json.dumps, bodies) if len(text) < 4000)
    assert len(texts) > 100
    return texts


NAMES = ["choices", "message", "text", "content", "error", "object", "finish_reason", "usage", "model", "reasoning"]
LEAVES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    2**70,
    10**400,
    1e308,
    float("nan"),
    "",
    " ",
    "stop",
    "length",
    "abort",
]
LEAVES += ["error", "#### 18", "18", "\ud800", "\x1b[31m", "tool_calls", "list", [], {}, "x" * 300]
TYPES = ["application/json"] * 20 + [
    "application/json; charset=utf-16",
    "text/html",
    "text/event-stream",
    "",
    "a/b; c=\xff",
]
HEADERS = [
    "Content-Encoding: gzip",
    "Content-Encoding: identity",
    "Transfer-Encoding: chunked",
    "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT",
    "Retry-After: \xff",
    "Retry-After: 1e400",
    "Set-Cookie: a=b",
    "Location: http://127.0.0.1:9/",
    "Connection: upgrade",
    "X: " + "y" * 20_000,
]
STATUSES = [200] * 16 + [100, 204, 206, 302, 400, 404, 429, 500, 503, 999]


def value(chance: Random, depth: int = 2) -> Any:
    """Any JSON value, small; names are those that answers use."""
    if depth == 0 or chance.random() < 0.7:
        return chance.choice(LEAVES)
    if chance.random() < 0.5:
        return [value(chance, depth - 1) for _ in range(chance.randrange(3))]
    return {chance.choice(NAMES): value(chance, depth - 1) for _ in range(chance.randrange(3))}


def change(chance: Random, body: Any) -> Any:
    """The body with one place in it deleted, replaced or added."""
    at, place = body, None
    while isinstance(at, (dict, list)) and at:
        key = chance.choice(sorted(at)) if isinstance(at, dict) else chance.randrange(len(at))
        place = (at, key)
        at = at[key]
        if chance.random() < 0.25:
            break
    if place is None:
        return value(chance)
    holder, key = place
    if chance.random() < 0.25:
        del holder[key]
    else:
        holder[key] = value(chance)
    if isinstance(body, dict) and chance.random() < 0.1:
        body["error"] = value(chance)
    if isinstance(body, dict) and chance.random() < 0.2:
        body[chance.choice(NAMES)] = value(chance)
    return body


def damage(chance: Random, raw: bytes) -> bytes:
    """The bytes without their end, or with others among them."""
    cut = chance.randrange(len(raw) + 1)
    return raw[:cut] + chance.randbytes(chance.randrange(6)) + chance.choice([b"", raw[cut:], b"[" * 5000])


def response(chance: Random, seeds: list[str]) -> bytes:
    """Everything from a clean answer to noise: status, headers, length and body, each right most of the time."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(300))
    body: Any = json.loads(chance.choice(seeds))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        body = change(chance, body)
    raw = json.dumps(body).encode()
    if chance.random() < 0.15:
        raw = damage(chance, raw)
    length = len(raw) + chance.choice([0] * 20 + [-1, 1, 10**9])
    lines = [f"HTTP/1.1 {chance.choice(STATUSES)} X", f"Content-Type: {chance.choice(TYPES)}"]
    lines += [f"Content-Length: {length}", *([chance.choice(HEADERS)] if chance.random() < 0.1 else [])]
    whole = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + raw
    return damage(chance, whole) if chance.random() < 0.03 else whole


def check(ask: Ask, api: Api, raw: bytes) -> None:
    """The law of all examples."""
    began = time.monotonic()
    result = ask(api, raw)
    assert time.monotonic() - began < 3 * TIMEOUT_S
    if isinstance(result, Refusal):
        assert isinstance(result.failure.kind, FailureKind)
        assert 0 < len(result.failure.detail) <= 200
        assert escape_terminal(result.failure.detail) == result.failure.detail
        assert result.retry_after_s is None or result.retry_after_s >= 0
    else:
        assert why_no_answer(api, raw, result) is None
    kept = result.failure if isinstance(result, Refusal) else result
    answer = Answer(index=0, result=kept, attempts=1, latency_s=None if isinstance(result, Refusal) else 0.1)
    observation = observe(answer, QUESTION, EXTRACTORS["gatekit"])
    json.loads(canonical_json(to_plain(observation)))
    if observation.status is Status.CORRECT:
        assert "18" in (observation.text or "")
        assert isinstance(result, Completion)


def why_no_answer(api: Api, raw: bytes, result: Completion) -> str | None:
    """Why these bytes should not have become an answer; None where they are one. Reads them by itself."""
    head, _, body = raw.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0] or b"application/json" not in head or b"gzip" in head:
        return "no 200 with plain JSON"
    length = re.search(rb"(?i)content-length: (\d+)", head)
    data = json.loads(body[: int(length[1])] if length else body)
    choice = data["choices"][0]
    if data.get("error") is not None or data.get("object") == "error":
        return "an error"
    if choice.get("finish_reason") not in ENDS_OF_ANSWERS:
        return "an end that is not the model's"
    message = choice["message"] if api is Api.CHAT else choice
    text = message.get("content" if api is Api.CHAT else "text")
    if text != result.text and "\ufffd" not in (result.text or ""):
        return "another text"
    made = (data.get("usage") or {}).get("completion_tokens") if isinstance(data.get("usage"), dict) else None
    is_silent = not (text or result.reasoning or result.has_tool_calls or choice.get("finish_reason") == "length")
    return "no text in spite of its tokens" if is_silent and isinstance(made, int) and made > 1 else None


SEEDS = st.integers(0, 2**64 - 1)
few = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@few
@given(seed=SEEDS, api=st.sampled_from(Api))
def test_any_response_is_a_typed_outcome(ask: Ask, seeds: list[str], seed: int, api: Api) -> None:
    """No response raises, hangs, cannot be kept, or is scored without being an answer."""
    check(ask, api, response(Random(seed), seeds))


@pytest.mark.slow
@many
@given(seed=SEEDS, api=st.sampled_from(Api))
def test_very_many_responses(ask: Ask, seeds: list[str], seed: int, api: Api) -> None:
    """The same law for 100,000 responses."""
    check(ask, api, response(Random(seed), seeds))


def test_an_error_nested_as_deep_as_json_allows(ask: Ask) -> None:
    """What can just be read need not be spelled out: a failure, not a recursion error, at every depth."""
    for depth in (10, 100, 300, 500, 700, 800, 850, 900, *range(920, 1000)):
        body = b'{"error": ' + b"[" * depth + b"]" * depth + b"}"
        head = b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        assert isinstance(ask(Api.CHAT, head + body), Refusal)
