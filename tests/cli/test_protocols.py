"""Ways of asking, as a user chooses them: turns, prefixes, reasoning, streams and what else a request holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, attached, gatekit, here, kept, outcomes, record
from fault_server import Fault, question_of, striking
from gatekit.engine.program import find_program
from gatekit.resources import conf_dir
from gatekit.spec.resolve import resolve
from raw_server import RawServer, Request, Start, chat, completion, http
from right_answers import is_question, reference, right

CHAT = "protocol=chat_5shot"
STREAM = "protocol.stream=true"
TAGS = 'protocol.think_tags=["<think>","</think>"]'


def gated(folder: Path, server: RawServer, *more: str) -> Ran:
    return here(folder, *attached(server.url, "client.attempts=2", *more), "--json")


def questions(server: RawServer) -> list[Any]:
    """The bodies that asked a question of the dataset."""
    return [request.data for request in server.requests if is_question(request)]


def events(body: dict[str, Any]) -> bytes:
    """A body as a stream of four pieces, its counts and [DONE]."""
    (choice,) = body["choices"]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    pieces = [text[start : start + -(-len(text) // 4)] for start in range(0, len(text), -(-len(text) // 4))]
    shaped = [{"delta": {"content": piece}} if "message" in choice else {"text": piece} for piece in pieces]
    chunks: list[dict[str, Any]] = [{"model": body["model"], "choices": [one]} for one in shaped]
    last: dict[str, Any] = {"delta": {}} if "message" in choice else {"text": ""}
    chunks.append({"model": body["model"], "choices": [{**last, "finish_reason": choice["finish_reason"]}]})
    chunks.append({"model": body["model"], "choices": [], "usage": body["usage"]})
    return "".join(f"data: {line}\n\n" for line in (*map(json.dumps, chunks), "[DONE]")).encode()


def stream(body: bytes) -> bytes:
    return http(200, body, content_type="text/event-stream")


def right_stream(request: Request) -> bytes:
    """Answers every question rightly, as a stream."""
    if request.method != "POST":
        return right(request)
    assert request.data["stream"] is True
    return stream(events(json.loads(right(request).partition(b"\r\n\r\n")[2])))


def test_turns_reach_the_server(raw_server: Start, tmp_path: Path) -> None:
    """Five worked examples are ten messages before the question, and another series than one message."""
    server = raw_server(right)
    ran = gated(tmp_path, server, "protocol=chat_5shot_turns")
    assert ran.code == 0
    (roles,) = {tuple(message["role"] for message in body["messages"]) for body in questions(server)}
    assert roles == ("user", "assistant") * 5 + ("user",)
    other = gated(tmp_path, raw_server(right), CHAT)
    assert other.data["comparability_key"] != ran.data["comparability_key"]


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_prefix_is_asked_and_scored(raw_server: Start, tmp_path: Path, api: str) -> None:
    """The server goes on after the prefix, and both together are the answer."""

    def goes_on(request: Request) -> bytes:
        number = question_of(request)
        if request.method != "POST" or "1 + 1" in request.body.decode():
            return right(request)
        assert number is None, "the prefix stands behind the question"
        prompt = request.data["prompt"] if api == "completions" else request.data["messages"][-2]["content"]
        rest = reference(prompt.removesuffix(" So: #### ")).rpartition("####")[2].strip()
        return http(200, completion(rest) if api == "completions" else chat(rest))

    ran = gated(tmp_path, raw_server(goes_on), f"protocol.api={api}", "protocol.gen_prefix=' So: #### '")
    assert (ran.code, ran.data["accuracy"]) == (0, 1.0)
    assert all(seen["text"].startswith(" So: #### ") for seen in kept(ran, tmp_path))


def test_thinking_is_kept_and_not_scored(raw_server: Start, tmp_path: Path) -> None:
    """Wrong numbers inside the tags move nothing; they are kept as reasoning."""

    def thinks(request: Request) -> bytes:
        if question_of(request) is None:
            return right(request)
        said = reference(request.data["messages"][-1]["content"])
        return http(200, chat(f"<think>#### 99999</think>{said}"))

    ran = gated(tmp_path, raw_server(thinks), CHAT, TAGS)
    assert (ran.code, ran.data["accuracy"]) == (0, 1.0)
    assert {seen["reasoning"] for seen in kept(ran, tmp_path)} == {"#### 99999"}


@pytest.mark.parametrize("extractor", ["gatekit", "last_number"])
def test_thinking_that_is_cut_off_is_truncated(raw_server: Start, tmp_path: Path, extractor: str) -> None:
    """A tenth of the answers cut off inside their tags: no verdict, whichever extractor would find a number there."""

    def cut(request: Request) -> bytes:
        return http(200, chat("<think>so it is #### 7", finish="length"))

    more = (CHAT, TAGS, f"protocol.extractor={extractor}")
    ran = gated(tmp_path, raw_server(striking(cut, every=10)), *more)
    assert (ran.code, ran.data["counts"]["truncated"], ran.data["accuracy"]) == (4, 4, None)
    assert ran.data["reason"] == "10% truncated, limit 2%: raise protocol.max_tokens"


def test_what_else_a_request_holds(raw_server: Start, tmp_path: Path) -> None:
    """Every further field reaches the server as it is written, the warm-up included, and stands in the record."""
    server = raw_server(right)
    more = ("protocol.reasoning_effort=low", "protocol.chat_template_kwargs.enable_thinking=false")
    extra = ("protocol.extra_body={min_p: 0.1, stop_token_ids: [1, 2]}", "protocol.send_model=false")
    ran = gated(tmp_path, server, CHAT, *more, *extra, "protocol.max_tokens_field=max_completion_tokens")
    assert ran.code == 0
    for request in server.requests:
        if request.method == "POST":
            body = request.data
            assert not {"model", "max_tokens"} & set(body)
            assert (body["reasoning_effort"], body["chat_template_kwargs"]) == ("low", {"enable_thinking": False})
            assert (body["min_p"], body["stop_token_ids"], body["max_completion_tokens"]) == (0.1, [1, 2], 256)
    said = record(ran, tmp_path)
    assert said["spec"]["protocol"]["extra_body"] == {"min_p": 0.1, "stop_token_ids": [1, 2]}
    assert said["comparability"]["fields"]["protocol.extra_body.min_p"] == 0.1
    assert here(tmp_path, "history", "verify").code == 0


def test_a_plain_record_holds_no_later_field(raw_server: Start, tmp_path: Path) -> None:
    """A run that uses none of the further fields is recorded, byte for byte, as before there were any."""
    said = record(gated(tmp_path, raw_server(right)), tmp_path)
    assert not {"stream", "think_tags", "extra_body", "send_model", "shots_as"} & set(said["spec"]["protocol"])
    assert "first_token_s" not in json.dumps(said)


@pytest.mark.parametrize(
    ("overrides", "reason", "what"),
    [
        (("protocol.extra_body={seed: 1}",), "extra-body-overrides", "protocol.extra_body.seed: is set by gatekit"),
        (("protocol.extra_body={n: 2}",), "extra-body-overrides", "protocol.extra_body.n: would change what"),
        (("protocol.extra_body={a: {b: 1}}",), "wrong-type", "protocol.extra_body.a: expected a text or"),
        (("protocol.extra_body={a: nan}",), "not-finite", "protocol.extra_body.a"),
        (("protocol.think_tags=[x]",), "bad-value", "protocol.think_tags"),
        (("protocol.think_tags=[x,x]",), "same-think-tags", "protocol.think_tags: are the same"),
        (("protocol.reasoning_effort=low",), "chat-only-key", "protocol.reasoning_effort: is for chat alone"),
        (("protocol.shots_as=turns",), "chat-only-key", "protocol.shots_as: is for chat alone"),
        ((CHAT, "protocol.shots_as=turns", "protocol.shot_template='{question}'"), "shot-not-in-turns", "no {answer}"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, overrides: tuple[str, ...], reason: str, what: str) -> None:
    """One clear line that names the key, before anything is started."""
    ran = here(tmp_path, "model=simulated", "task.n=20", *overrides, "--json")
    assert (ran.code, ran.data["reason_code"], len(ran.data["problems"])) == (2, reason, 1)
    assert what in ran.data["problems"][0]


def test_a_stream_gives_the_same_answers(raw_server: Start, tmp_path: Path) -> None:
    """Streamed or not, each question has the same text; a stream says when it began."""
    for more in ((), (CHAT,)):
        whole = gated(tmp_path, raw_server(right), *more)
        pieces = gated(tmp_path, raw_server(right_stream), STREAM, *more)
        assert (whole.code, pieces.code) == (0, 0)
        assert outcomes(pieces, tmp_path) == outcomes(whole, tmp_path)
        assert all(seen["first_token_s"] <= seen["latency_s"] for seen in kept(pieces, tmp_path))
        assert (whole.data["first_token_s"], pieces.data["first_token_s"]["n"]) == (None, 40)
    assert here(tmp_path, "history", "verify").code == 0


def half(request: Request) -> bytes:
    """The first half of a right stream: its text may already hold a number."""
    body = right_stream(request).partition(b"\r\n\r\n")[2]
    return stream(body[: len(body) // 2])


def broken(request: Request) -> Iterable[bytes]:
    return [right_stream(request)[:-60]]


def failing(request: Request) -> bytes:
    first = right_stream(request).partition(b"\r\n\r\n")[2].partition(b"\n\n")[0]
    return stream(first + b'\n\ndata: {"error": {"message": "out of memory", "code": 500}}\n\ndata: [DONE]\n\n')


def muttering(request: Request) -> bytes:
    return stream(b"Internal Server Error\n" + right_stream(request).partition(b"\r\n\r\n")[2])


STREAM_FAULTS: dict[str, tuple[Fault, str]] = {
    "half": (half, "disconnected"),
    "broken": (broken, "disconnected"),
    "failing": (failing, "bad shape"),
    "muttering": (muttering, "not json"),
}


@pytest.mark.parametrize("name", sorted(STREAM_FAULTS))
def test_a_faulty_stream_moves_no_accuracy(raw_server: Start, tmp_path: Path, name: str) -> None:
    """A stream that ends badly is asked for again; where that does not help it is lost, and never scored."""
    fault, kind = STREAM_FAULTS[name]
    once = gated(tmp_path, raw_server(striking(fault, every=10, first=1, otherwise=right_stream)), STREAM)
    assert (once.code, once.data["retried"]) == (0, f"4 x {kind}")
    assert once.data["counts"]["correct"] == 40
    always = gated(tmp_path, raw_server(striking(fault, every=10, otherwise=right_stream)), STREAM, "gate.floor=0.95")
    assert (always.code, always.data["accuracy"], always.data["counts"]["lost"]) == (3, None, 4)
    assert always.data["counts"]["wrong"] == 0


def test_a_server_that_does_not_stream_is_told_at_once(raw_server: Start, tmp_path: Path) -> None:
    """Whole bodies for a client that asked for streams end the run before its first question."""
    server = raw_server(right)
    ran = gated(tmp_path, server, STREAM)
    assert (ran.code, ran.data["reason_code"]) == (3, "rejected")
    assert "the server does not stream, and protocol.stream is true" in ran.data["reason"]
    assert questions(server) == []


def test_a_server_that_ignores_its_context(raw_server: Start, tmp_path: Path) -> None:
    """What was written past the context is lost and not wrong, and prompts without room for an answer are told."""

    def ignores(request: Request) -> bytes:
        body = completion("garbage garbage")
        body["usage"] = {"prompt_tokens": 14337, "completion_tokens": 20}
        return http(200, body)

    more = ("engine.max_model_len=2048", "gate.floor=0.95")
    ran = gated(tmp_path, raw_server(striking(ignores, every=10)), *more)
    assert (ran.code, ran.data["counts"]["lost"], ran.data["counts"]["wrong"]) == (3, 4, 0)
    assert "14337 tokens of prompt and 20 of answer, past engine.max_model_len=2048" in "".join(ran.data["warnings"])

    def long(request: Request) -> bytes:
        body = completion(reference(request.data["prompt"]))
        body["usage"] = {"prompt_tokens": 1900, "completion_tokens": 20}
        return http(200, body)

    tight = gated(tmp_path, raw_server(striking(long, every=10)), "engine.max_model_len=2048")
    assert tight.code == 0
    room = "protocol.max_tokens=256 and engine.max_model_len=2048"
    assert f"4 of 40 prompts (up to 1900 tokens) leave too little room: {room}" in tight.data["warnings"]


def test_a_rehearsal_streams(tmp_path: Path) -> None:
    """The bundled server streams what it would have sent whole, faults included."""
    base = ("model=simulated", "task.n=30", "engine.flip_seed=1", "gate=static_floor", "gate.floor=0.5", "--json")
    faults = ("engine.faults.malformed=0.05", "engine.faults.truncate=0.02", CHAT)
    whole, pieces = (here(tmp_path, *base, *faults, f"protocol.stream={way}") for way in ("false", "true"))
    assert whole.code == pieces.code
    assert outcomes(pieces, tmp_path) == outcomes(whole, tmp_path)
    assert pieces.data["first_token_s"]["n"] == whole.data["counts"]["n"] - whole.data["counts"]["lost"]


# The shipped weights on llama.cpp's llama-server: a real template, real streams, a real prefix.

WAYS = {
    "chat in one message": (CHAT,),
    "chat in turns": ("protocol=chat_5shot_turns",),
    "chat after a prefix": (CHAT, "protocol.gen_prefix='First, '"),
    "completions": ("protocol=completions_5shot",),
    "completions after a prefix": ("protocol=completions_0shot", "protocol.gen_prefix=' First, '"),
}


@pytest.fixture
def _llama_server() -> None:
    """Skips without the program; in CI it fails."""
    engine = resolve(("model=tiny_gsm",), dirs=(conf_dir(),)).engine
    if find_program(engine, os.environ.get("PATH", os.defpath)) is None:
        why = "needs llama-server on PATH or in this Python (pip install 'gatekit[demo]')"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)


@pytest.mark.slow
@pytest.mark.usefixtures("_llama_server")
@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_real_server_streams_the_same_texts(tmp_path: Path, way: str) -> None:
    """On a real engine every question has the same text, end and counts, streamed or not, however it is asked."""
    gate = ("gate=static_floor", "gate.alpha=null", "gate.floor=0.7", "gate.measured_under=null")
    base = ("model=tiny_gsm", "engine=llamacpp", "hw=cpu", "task.n=40", *gate, *WAYS[way], "--json")
    whole, pieces = (gatekit(tmp_path, *base, f"protocol.stream={on}", timeout_s=600) for on in ("false", "true"))
    assert (whole.code, pieces.code) == (0, 0), whole.data
    parts = ("question_id", "text", "finish_reason", "prompt_tokens", "completion_tokens", "status")
    one, other = ([[seen[part] for part in parts] for seen in kept(ran, tmp_path)] for ran in (whole, pieces))
    assert one == other
    if "prefix" in way:
        assert all(seen["text"].lstrip().startswith("First, ") for seen in kept(whole, tmp_path))
        assert not any("First, First" in seen["text"] for seen in kept(whole, tmp_path))
