"""What a protocol asks on the wire, and how streams, reasoning and prefixes become the one text that is scored."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.errors import ConfigError
from gatekit.gate.comparability import comparability
from gatekit.records.answers import Completion, Failure, FailureKind, Observation, Question, Status
from gatekit.records.run import Dataset
from gatekit.records.spec import Api, MaxTokensField, Protocol, ShotsAs
from gatekit.report.first_token import first_tokens
from gatekit.resources import conf_dir
from gatekit.run import streaming
from gatekit.run.asked import comparability_of
from gatekit.run.client import Client, Refusal
from gatekit.run.context import tight_contexts, within_context
from gatekit.run.requests import bodies
from gatekit.run.streaming import Room, Stream, StreamError
from gatekit.spec.resolve import resolve
from gatekit.task.answer_text import answer_under
from gatekit.task.prompts import build_prompts
from gatekit.task.score import EXTRACTORS
from gatekit.task.select import Selection
from raw_server import Handler, Start, http
from spec_builders import BASE, spec_of

Sample = dict[str, Any]

TAGS = ("<think>", "</think>")
SHOT = Question(id=0, text="1 + 1?", reference="It is 2.\n#### 2")
ASKED = Question(id=7, text="2 + 3?", reference="#### 5")
CHAT = replace(BASE.protocol, api=Api.CHAT, shots=1)
DATA = Dataset(name="gsm8k", digests={"test": "sha256:1"}, question_ids=(0, 1), shot_ids=(5,))
# As they were before protocols had more than fifteen fields: stored records and locks name them.
KEYS = {
    "model=diffusiongemma_fp8 hw=b200x4": "02dacc26161478912d5f05ba29d6e8f53d857caa8754fcbca1ec601c6fcde09c",
    "model=inkling_small_nvfp4 hw=b200x4": "d5ed79e6314db411a40d1a89351ef2781f7a9ada01abf4bada0000e642c511e5",
    "model=laguna_int4 hw=b200": "fe4582ebbdfd9b224fba003edbcc1cc6ef24dd0ed9edef0ce6dc00793d264077",
    "model=laguna_nvfp4 hw=b200": "ec86126ed9fe4b0a2e54c20a6c7a1a9aab90069cfb4c8f0be664d3fd49114c7a",
    "model=laguna_nvfp4_completions hw=b200": "4d81535ac16427139f7c37a480d59c3c50e933aac7218f683e66ffef52aa3583",
    "model=simulated": "46cc457ad1d493e5e61f3227a063cdd5e2a5834185420b9cdf3442e48ced7a2b",
    "model=simulated protocol=chat_5shot": "96960ff3122e090244e03b0b9eb4081a0c143a60bc98e22f16b6b0c73cfec134",
    "model=simulated protocol=completions_0shot": "7d120e0d41034955ae24bdeb4aae92ebd0edaafcbc8bdef2c749f1ff9b261ebb",
    "model=simulated protocol=completions_10shot_test_head": (
        "7145f5e363693bca3a7cd0c9abc2afb96110e5a82a6584d156e3c56e957fa867"
    ),
    "model=simulated protocol=completions_5shot": "46cc457ad1d493e5e61f3227a063cdd5e2a5834185420b9cdf3442e48ced7a2b",
    "model=tiny_gsm": "f922f3acc0f4cca6b23755bd9ef123e5818dc432b2361be2d267ce4c4fa95d63",
}


def body_of(protocol: Protocol) -> Any:
    """The one request that asks 2 + 3 after one worked example."""
    (body,) = bodies(build_prompts(Selection(questions=(ASKED,), shots=(SHOT,)), protocol), protocol, "m")
    return json.loads(body)


# Keys


@pytest.mark.parametrize("line", sorted(KEYS))
def test_keys_of_shipped_specs_stay(line: str, tmp_path: Path) -> None:
    """A spec that uses none of the later fields has the key it always had."""
    spec = resolve(tuple(line.split()), dirs=(conf_dir(),))
    assert comparability_of(spec, cache_dir=tmp_path).key == f"sha256:{KEYS[line]}"


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"stream": True}, {"protocol.stream": True}),
        ({"send_model": False}, {"protocol.send_model": False}),
        ({"shots_as": ShotsAs.TURNS}, {"protocol.shots_as": "turns"}),
        ({"think_tags": TAGS}, {"protocol.think_tags": list(TAGS)}),
        (
            {"extra_body": {"min_p": 0.1, "ids": [1]}},
            {"protocol.extra_body.min_p": 0.1, "protocol.extra_body.ids": [1]},
        ),
        ({"extra_body": {}}, {}),
    ],
)
def test_a_later_field_is_in_the_key_where_it_says_something(
    changed: dict[str, object], fields: Mapping[str, object]
) -> None:
    """What is asked otherwise is another series, named by its field; an empty mapping asks nothing."""
    before, after = comparability(spec_of(), DATA, "1"), comparability(spec_of(protocol=changed), DATA, "1")
    assert {name: value for name, value in after.fields.items() if name not in before.fields} == fields
    assert (after.key != before.key) is bool(fields)


# Requests


def test_shots_as_turns() -> None:
    """Each worked example is a user's and an assistant's turn, and the question the last user's."""
    assert body_of(replace(CHAT, shots_as=ShotsAs.TURNS, system_prompt="Be brief."))["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Question: 1 + 1?\nAnswer:"},
        {"role": "assistant", "content": "It is 2.\n#### 2"},
        {"role": "user", "content": "Question: 2 + 3?\nAnswer:"},
    ]


def test_a_prefix_begins_the_answer() -> None:
    """On chat the assistant's turn is begun and left open; on completions the prompt goes on."""
    chat = body_of(replace(CHAT, gen_prefix="First,"))
    assert chat["messages"][-1] == {"role": "assistant", "content": "First,"}
    assert (chat["continue_final_message"], chat["add_generation_prompt"]) == (True, False)
    text = body_of(replace(CHAT, api=Api.COMPLETIONS, gen_prefix=" First,"))
    assert text["prompt"].endswith("Question: 2 + 3?\nAnswer: First,")
    assert not {"continue_final_message", "add_generation_prompt"} & set(text)


def test_what_a_request_holds() -> None:
    """Only what is set is sent, under the name the server knows, beside the plain values of extra_body."""
    assert set(body_of(CHAT)) == {"model", "max_tokens", "messages", "temperature", "stop"}
    wide = replace(
        CHAT,
        reasoning_effort="low",
        chat_template_kwargs={"enable_thinking": False},
        extra_body={"min_p": 0.1, "ignore_eos": None, "stop_token_ids": [1, 2]},
        max_tokens_field=MaxTokensField.MAX_COMPLETION_TOKENS,
        send_model=False,
        stream=True,
    )
    assert {name: value for name, value in body_of(wide).items() if name != "messages"} == {
        "max_completion_tokens": 1024,
        "temperature": 0.0,
        "stop": ["Question"],
        "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": False},
        "min_p": 0.1,
        "ignore_eos": None,
        "stop_token_ids": [1, 2],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"extra_body": {"seed": 1}}, "extra-body-overrides"),
        ({"extra_body": {"max_completion_tokens": 1}}, "extra-body-overrides"),
        ({"extra_body": {"echo": True}}, "extra-body-overrides"),
        ({"think_tags": ("<t>", "<t>")}, "same-think-tags"),
        ({"api": Api.COMPLETIONS, "reasoning_effort": "low"}, "chat-only-key"),
        ({"api": Api.COMPLETIONS, "shots_as": ShotsAs.TURNS}, "chat-only-key"),
        ({"api": Api.COMPLETIONS, "max_tokens_field": MaxTokensField.MAX_COMPLETION_TOKENS}, "chat-only-key"),
        ({"shots_as": ShotsAs.TURNS, "shot_template": "{answer} {question}"}, "shot-not-in-turns"),
    ],
)
def test_a_protocol_that_contradicts_itself_is_refused(changed: dict[str, Any], reason: str) -> None:
    """What a server would ignore, or what would undo what gatekit sets, is the user's mistake."""
    with pytest.raises(ConfigError) as caught:
        body_of(replace(CHAT, **changed))
    assert caught.value.reason == reason


# The text that is scored


@pytest.mark.parametrize(
    ("text", "finish", "said", "status"),
    [
        ("<think>4 or 6</think>#### 5", "stop", "#### 5", Status.CORRECT),
        ("4 or 6</think>#### 5", "stop", "#### 5", Status.CORRECT),
        ("<think>#### 5", "length", "", Status.TRUNCATED),
        ("#### 5 <think>no,", "length", "", Status.TRUNCATED),
        ("well, #### 5", "length", "", Status.TRUNCATED),
        ("<think>#### 5", "stop", "", Status.NO_ANSWER),
        ("<think>a<think>b</think>#### 6</think>#### 5", "stop", "#### 5", Status.CORRECT),
        ("<think>a</think>It <think>b</think>is #### 5", "stop", "It is #### 5", Status.CORRECT),
        ("#### 5", "stop", "#### 5", Status.CORRECT),
    ],
)
@pytest.mark.parametrize("extractor", ["gatekit", "last_number"])
def test_thinking_is_never_scored(text: str, finish: str, said: str, status: Status, extractor: str) -> None:
    """What stands inside the tags is reasoning; what was cut off inside them is truncated, whatever it holds."""
    read = answer_under(replace(CHAT, think_tags=TAGS), Completion(text=text, finish_reason=finish))
    assert read.text == said
    assert EXTRACTORS[extractor].score(read, ASKED).status is status
    assert len(read.text) + len(read.reasoning or "") + 15 * len(TAGS) >= len(text)


def test_reasoning_given_apart_leaves_the_text_alone() -> None:
    """Where the server parts reasoning from the answer, a cut-off answer without tags is an answer."""
    given = Completion(text="it is 12 or", reasoning="hm", finish_reason="length")
    assert answer_under(replace(CHAT, think_tags=TAGS), given) == given


@pytest.mark.parametrize(
    ("given", "text", "reasoning"),
    [
        (Completion(text=" 2 + 3"), "First, 2 + 3", None),
        (Completion(text="First, 2 + 3"), "First, 2 + 3", None),
        (Completion(text="#### 5", reasoning=" hm"), "#### 5", "First, hm"),
        (Completion(text=""), "", None),
        (Completion(text=None, finish_reason="length"), None, None),
    ],
)
def test_a_prefix_belongs_to_what_was_written_first(given: Completion, text: str | None, reasoning: str | None) -> None:
    """The prefix is part of the text, or of the reasoning given apart, once; nothing stays nothing."""
    read = answer_under(replace(CHAT, gen_prefix="First,"), given)
    assert (read.text, read.reasoning) == (text, reasoning)


def test_a_prefix_may_open_the_thinking() -> None:
    """Tags count across the seam between prefix and answer."""
    protocol = replace(CHAT, gen_prefix="<think>\n", think_tags=TAGS)
    assert answer_under(protocol, Completion(text="4?</think>#### 5", finish_reason="stop")).text == "#### 5"
    assert answer_under(protocol, Completion(text="#### 5", finish_reason="length")).text == ""


@given(st.lists(st.sampled_from([*TAGS, "a", "#### 5", "\n"]), max_size=12).map("".join))
def test_reading_twice_is_reading_once(text: str) -> None:
    """An answer that was read is an answer: nothing more is thought when it is replayed."""
    protocol = replace(CHAT, think_tags=TAGS)
    once = answer_under(protocol, Completion(text=text, finish_reason="stop"))
    assert answer_under(protocol, once).text == once.text
    assert not any(tag in (once.text or "") for tag in TAGS)


def test_many_tags_take_no_time() -> None:
    """A megabyte of tags is read in a moment."""
    began_s = time.monotonic()
    for tag in (*TAGS, "".join(TAGS), "x</think>"):
        answer_under(replace(CHAT, think_tags=TAGS), Completion(text=tag * (2**20 // len(tag))))
    assert time.monotonic() - began_s < 30


def test_an_answer_past_the_context_is_none() -> None:
    """Some servers never check the context: what they write past it is lost, not wrong."""
    spec = spec_of(engine={"max_model_len": 512})
    fits = Completion(text="5", prompt_tokens=500, completion_tokens=13)
    assert within_context(fits, spec) == fits
    over = within_context(replace(fits, completion_tokens=14), spec)
    assert isinstance(over, Failure)
    assert over.detail == "500 tokens of prompt and 14 of answer, past engine.max_model_len=512"
    unknown = replace(fits, prompt_tokens=None)
    assert within_context(unknown, spec) == unknown


def observed(**fields: Any) -> Observation:
    return Observation(question_id=0, status=Status.WRONG, attempts=1, **fields)


def test_prompts_that_leave_no_room_are_told() -> None:
    """A warning counts the prompts that leave less than protocol.max_tokens."""
    spec = spec_of(engine={"max_model_len": 2000}, protocol={"max_tokens": 1024})
    seen = [observed(prompt_tokens=number) for number in (900, 976, 977, 990)]
    (warning,) = tight_contexts(seen, spec)
    assert warning.startswith("2 of 4 prompts (up to 990 tokens) leave too little room")
    assert tight_contexts(seen[:2], spec) == tight_contexts(seen, spec_of()) == ()


def test_first_tokens_are_times_that_were_measured() -> None:
    """Ranks of the time to the first piece; None of a run without streams."""
    assert first_tokens([observed()]) is None
    found = first_tokens([observed(first_token_s=second / 10) for second in range(10, 0, -1)])
    assert found == {"n": 10, "median": 0.5, "p90": 0.9, "p99": 1.0, "max": 1.0}


# Streams


def chunk(text: str | None = None, finish: str | None = None, **more: Any) -> str:
    """One event of a text completion."""
    choice = {"index": 0, "text": text, "finish_reason": finish}
    return f"data: {json.dumps({'model': 'm', 'choices': [choice], **more})}\n\n"


USAGE = 'data: {"choices": [], "usage": {"prompt_tokens": 7}}\n\n'
GOOD = chunk("#### ") + chunk("18") + chunk("", "stop") + chunk() + USAGE
DONE = "data: [DONE]\n\n"


def streamed(text: str | bytes, *extra: str) -> bytes:
    return http(200, text, *extra, content_type="text/event-stream")


def ask(url: str, *, api: Api = Api.COMPLETIONS, timeout_s: float = 5, key: str | None = None) -> Completion | Refusal:
    async def one() -> Completion | Refusal:
        async with Client(url, api_key=key, request_timeout_s=timeout_s, streams=True) as client:
            return await client.ask(api, b"{}", expected_model="m")

    return asyncio.run(one())


def untimed(result: Completion | Refusal) -> Completion:
    assert isinstance(result, Completion), result
    assert result.first_token_s is not None or not (result.text or result.reasoning)
    return replace(result, first_token_s=None)


WHOLE = Completion(text="#### 18", finish_reason="stop", prompt_tokens=7)


@pytest.mark.parametrize(
    "text",
    [
        GOOD + DONE,
        GOOD,
        ": hello\n\nevent: message\nid: 1\nretry: 5\n" + GOOD + DONE,
        (GOOD + DONE).replace("\n", "\r\n"),
        (GOOD + DONE).replace("\n\n", "\n"),
        "\ufeff" + GOOD + DONE,
        (GOOD + DONE).replace("data: ", "data:"),
        GOOD + DONE + "and more that nobody reads",
        GOOD + "data: [DONE]",
    ],
)
def test_a_whole_stream(raw_server: Start, text: str) -> None:
    """Streams of real servers, with and without comments, [DONE], carriage returns and empty lines, are one answer."""
    assert untimed(ask(raw_server(lambda request: streamed(text)).url)) == WHOLE


@given(st.data())
def test_pieces_may_end_anywhere(data: st.DataObject) -> None:
    """However the bytes of a stream are cut into pieces, also inside a character, the answer is the same."""
    raw = (chunk("é€😀") + GOOD + DONE).encode()
    raw = raw.replace(rb"\u00e9\u20ac\ud83d\ude00", "é€😀".encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=20)))
    stream = Stream(Api.COMPLETIONS, Room())
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        if not stream.is_over:
            stream.feed(raw[start:end])
    assert stream.body()["choices"][0] == {"finish_reason": "stop", "text": "é€😀#### 18", "reasoning": None}


def unending(line: bytes) -> Handler:
    def handle(request: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        while True:
            yield line
            time.sleep(0.01)

    return handle


def silent_after(text: str) -> Handler:
    def handle(request: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + text.encode()
        time.sleep(1.5)

    return handle


def in_pieces(text: str) -> Iterable[bytes]:
    """A chunked body that is cut before its end."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head + f"{len(text.encode()):x}\r\n{text}\r\n".encode()]


ERROR = 'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
FLAT = 'data: {"object": "error", "message": "out of memory", "code": 500}\n\n'
FAULTS: dict[str, tuple[bytes | Handler, str]] = {
    "no finish_reason": (streamed(chunk("#### 18")), "disconnected"),
    "[DONE] without finish_reason": (streamed(chunk("#### 18") + DONE), "disconnected"),
    "nothing": (streamed(""), "disconnected"),
    "only [DONE]": (streamed(DONE), "disconnected"),
    "cut mid-stream": (lambda request: in_pieces(chunk("#### 18")), "disconnected"),
    "cut after the finish_reason": (lambda request: in_pieces(GOOD), "disconnected"),
    "shorter than it says": (streamed(GOOD, "Connection: close").replace(b"Length: ", b"Length: 9"), "disconnected"),
    "a garbage line": (streamed(chunk("#### ") + "Traceback (most recent call last)\n" + GOOD + DONE), "not_json"),
    "broken JSON": (streamed(chunk("#### ") + 'data: {"choices": [\n\n' + DONE), "not_json"),
    "not a number": (streamed('data: {"choices": [], "usage": NaN}\n\n' + GOOD + DONE), "not_json"),
    "no UTF-8": (streamed(GOOD.encode() + b"data: \xff\n\n"), "not_json"),
    "nested too deeply": (streamed("data: " + "[" * 100_000 + "\n\n"), "not_json"),
    "an error event": (streamed(chunk("#### 18") + ERROR + DONE), "bad_shape"),
    "an error event behind the end": (streamed(GOOD + ERROR + DONE), "bad_shape"),
    "a flat error": (streamed(chunk("#### 18") + FLAT + DONE), "bad_shape"),
    "an error field": (streamed(chunk("#### 18") + 'error: {"message": "out of memory"}\n\n'), "bad_shape"),
    "an error in one piece": (http(200, json.loads(ERROR[6:])), "bad_shape"),
    "broken off by the server": (streamed(chunk("#### 18") + chunk("", "abort") + DONE), "aborted"),
    "a list": (streamed("data: []\n\n"), "bad_shape"),
    "two choices": (streamed('data: {"choices": [{"text": "1"}, {"text": "2"}]}\n\n' + GOOD), "bad_shape"),
    "another choice": (streamed('data: {"choices": [{"index": 1, "text": "1"}]}\n\n' + GOOD), "bad_shape"),
    "more behind the end": (streamed(GOOD + chunk("19") + DONE), "bad_shape"),
    "a number for a text": (streamed('data: {"choices": [{"text": 5}]}\n\n' + GOOD), "bad_shape"),
    "no text after tokens": (
        streamed(chunk("", "stop") + 'data: {"choices": [], "usage": {"completion_tokens": 50}}\n\n'),
        "bad_shape",
    ),
    "another model": (streamed(chunk("#### 18", "stop").replace('"m"', '"other"') + DONE), "wrong_model"),
    "two models": (streamed(GOOD + chunk().replace('"m"', '"other"') + DONE), "wrong_model"),
    "compressed": (streamed(GOOD, "Content-Encoding: gzip"), "bad_shape"),
    "no stream": (http(200, {"choices": [{"text": "#### 18", "finish_reason": "stop"}]}), "rejected"),
    "a web page": (http(200, "<html>", content_type="text/html"), "not_json"),
    "comments for ever": (unending(b": still there\n\n"), "timeout"),
    "empty pieces for ever": (unending(chunk("").encode()), "timeout"),
    "silence after a piece": (silent_after(chunk("#### 18")), "timeout"),
    "a line without end": (unending(b"x" * 2**17), "too_large"),
    "a text without end": (unending(chunk("x" * 2**17).encode()), "too_large"),
    "empty lines without end": (unending(b"\n" * 2**18), "too_large"),
    "HTTP 500": (http(500, {"error": "x"}), "server_error"),
}


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_stream_that_is_no_answer(raw_server: Start, name: str) -> None:
    """Each fault of a stream is a failure of its kind, within its time, and never half an answer."""
    answer, kind = FAULTS[name]
    server = raw_server((lambda request: answer) if isinstance(answer, bytes) else answer)
    result = ask(server.url, timeout_s=1 if kind == "timeout" else 30)
    assert isinstance(result, Refusal), result
    assert result.failure.kind.value == kind, result.failure
    if "error" in name and kind == "bad_shape":
        assert result.failure.detail.endswith("out of memory")


def body_or_failure(api: Api, raw: bytes) -> dict[str, Any] | FailureKind:
    """What the whole of a stream comes to."""
    stream = Stream(api, Room())
    try:
        stream.feed(raw)
        return stream.body()
    except StreamError as error:
        return error.kind


@given(st.binary(max_size=300), st.sampled_from(list(Api)))
def test_no_bytes_raise_anything_else(raw: bytes, api: Api) -> None:
    """Whatever stands in a stream, it is a body or a typed failure."""
    for text in (raw, b"data: " + raw, b'data: {"choices": [' + raw + b"]}\n", GOOD.encode() + raw):
        body = body_or_failure(api, text)
        if isinstance(body, dict) and "error" not in body and body.get("object") != "error":
            assert body["choices"][0]["finish_reason"]


def test_large_streams_share_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small streams are free; of large ones only so many are held at once, and what is given back can be used again."""
    monkeypatch.setattr(streaming, "MAX_HELD_BYTES", 2**17)
    room, piece = Room(), chunk("x" * 2**16).encode()
    first, second = Stream(Api.COMPLETIONS, room), Stream(Api.COMPLETIONS, room)
    for stream in (first, second, first, second):
        stream.feed(piece)
    assert room.held == 2**17
    with pytest.raises(StreamError) as caught:
        first.feed(piece)
    assert caught.value.kind is FailureKind.TOO_LARGE
    first.release()
    second.feed(piece)
    second.release()
    assert room.held == 0


def test_a_key_is_masked_across_pieces(raw_server: Start) -> None:
    """A key that a server repeats in parts is masked in the answer that these make."""
    text = chunk("it is sec") + chunk("ret-key", "stop") + DONE
    result = ask(raw_server(lambda request: streamed(text)).url, key="secret-key")
    assert untimed(result).text == "it is ***"


def test_a_connection_is_used_again(raw_server: Start) -> None:
    """A stream that was read to its end leaves its connection for the next request."""
    held_open: set[int] = set()

    async def twice(url: str) -> None:
        async with Client(url, api_key=None, request_timeout_s=5, streams=True) as client:
            for _ in range(3):
                assert isinstance(await client.ask(Api.COMPLETIONS, b"{}", expected_model="m"), Completion)
            assert client._session is not None
            assert client._session.connector is not None
            held_open.update(len(held) for held in client._session.connector._conns.values())

    server = raw_server(lambda request: streamed(GOOD + DONE))
    asyncio.run(twice(server.url))
    assert held_open == {1}


def delta(finish: str | None = None, **fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': fields, 'finish_reason': finish}]})}\n\n"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_in_a_stream(raw_server: Start, name: str) -> None:
    """Reasoning comes in pieces under both of its names, before the answer and apart from it."""
    thought = delta(**{name: "let "}) + delta(**{name: "me see"})
    text = delta(role="assistant", content=None) + thought + delta(content="5") + delta("stop") + DONE
    result = untimed(ask(raw_server(lambda request: streamed(text)).url, api=Api.CHAT))
    assert (result.text, result.reasoning, result.finish_reason) == ("5", "let me see", "stop")
    cut = delta(role="assistant", content=None) + thought + delta("length") + DONE
    result = untimed(ask(raw_server(lambda request: streamed(cut)).url, api=Api.CHAT))
    assert (result.text, result.reasoning, result.finish_reason) == (None, "let me see", "length")


def test_tool_calls_in_a_stream(raw_server: Start) -> None:
    """A tool call instead of text is one in pieces, too."""
    text = delta(tool_calls=[{"index": 0, "function": {"name": "f"}}]) + delta("tool_calls") + DONE
    assert untimed(ask(raw_server(lambda request: streamed(text)).url, api=Api.CHAT)).has_tool_calls


def test_time_to_first_token(raw_server: Start) -> None:
    """The clock runs from sending to the first piece that holds something, and not to the head or the role."""

    def slowly(request: object) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        yield (": hello\n\n" + chunk("")).encode()
        time.sleep(0.3)
        yield chunk("#### ").encode()
        time.sleep(0.6)
        yield (chunk("18", "stop") + DONE).encode()

    began_s = time.monotonic()
    result = ask(raw_server(slowly).url)
    passed_s = time.monotonic() - began_s
    assert isinstance(result, Completion)
    assert result.first_token_s is not None
    assert 0.3 <= result.first_token_s <= passed_s - 0.5


# Recorded streams of real servers: what each is, with the tokens of its prompt and answer.
RECORDED = {
    ("vllm", "chat_stream"): ("\n\n\n\n\n", 21, 5),
    ("vllm", "comp_stream"): ("::::::", 99, 6),
    ("sglang", "chat_stream"): ("First, 1", 10, 5),
    ("sglang", "comp_stream"): (" First, 3 + ", 26, 6),
    ("llama_server", "chat_stream"): ("Hello! How can I", 31, 5),
    ("llama_server", "comp_stream"): (" 10\nExplanation:", 30, 6),
    ("transformers", "chat_stream"): ("First, 8", 10, 5),
    ("llama_cpp_python", "chat_stream"): ("First, 1", None, None),
    ("llama_cpp_python", "comp_stream"): (" First, 3 + ", None, None),
}


@pytest.mark.parametrize(("server", "name"), sorted(RECORDED))
def test_recorded_streams(shared: Path, raw_server: Start, server: str, name: str) -> None:
    """The streams of five real servers are the texts, ends and counts that stand in them, and cut anywhere are none."""
    sample: Sample = json.loads((shared / "engine_samples" / server / f"{name}.json").read_text())
    api = Api.CHAT if name.startswith("chat") else Api.COMPLETIONS
    model = sample["request"]["body"]["model"]
    raw = http(200, sample["text"], content_type=sample["headers"].get("content-type", "text/event-stream"))

    async def one(url: str) -> Completion | Refusal:
        async with Client(url, api_key=None, request_timeout_s=5, streams=True) as client:
            return await client.ask(api, b"{}", expected_model=model)

    result = asyncio.run(one(raw_server(lambda request: raw).url))
    text, read, written = RECORDED[server, name]
    assert untimed(result) == Completion(
        text=text, finish_reason="length", prompt_tokens=read, completion_tokens=written
    )
    whole = sample["text"].encode()
    ended = whole.index(b"length")
    for end in range(0, ended, 37):
        assert body_or_failure(api, whole[:end]) in (FailureKind.DISCONNECTED, FailureKind.NOT_JSON)


def test_each_recorded_response_to_a_client_that_streams(shared: Path, raw_server: Start) -> None:
    """Whatever real servers answer to a client that asks for streams: only a stream is an answer, nothing raises."""
    answer = b""
    server = raw_server(lambda request: answer)

    async def all_of_them() -> list[tuple[Sample, Completion | Refusal]]:
        nonlocal answer
        found = []
        async with Client(server.url, api_key=None, request_timeout_s=5, streams=True) as client:
            for path in sorted((shared / "engine_samples").glob("*/*.json")):
                sample = json.loads(path.read_text())
                if sample["status"] is None:
                    continue
                text = json.dumps(sample["json"]) if "json" in sample else sample.get("text") or ""
                kinds = {name.lower(): value for name, value in sample["headers"].items()}
                answer = http(sample["status"], text, content_type=kinds.get("content-type", "text/plain"))
                found += [(sample, await client.ask(api, b"{}", expected_model=None)) for api in Api]
        return found

    found = asyncio.run(all_of_them())
    assert len(found) > 400
    assert all("stream" in sample["name"] for sample, result in found if isinstance(result, Completion))
