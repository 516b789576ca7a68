"""The bundled answer server as a real process over real HTTP."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from http import client as http_client
from pathlib import Path
from typing import Any

import psutil
import pytest

from gatekit.engine.environment import bundled_environment
from gatekit.engine.launch import ServerProcess, start
from gatekit.records.answers import Question
from gatekit.records.canonical import Plain, to_plain

Ask = Callable[..., Any]


class Running:
    """A started server: its process and base URL."""

    def __init__(self, process: ServerProcess, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"


StartServer = Callable[..., Running]


def begin(folder: Path, questions: Sequence[Question], **fields: Plain) -> ServerProcess:
    """An answer server whose config and questions are in the folder."""
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(to_plain(q)) + "\n" for q in questions))
    config = {"kind": "sim", "served_model": "m", "build": "b-1", "questions": str(path), **fields}
    (folder / "config.json").write_text(json.dumps(config))
    argv = (sys.executable, "-m", "gatekit.engine.answer_server", str(folder / "config.json"))
    return start(argv, env=bundled_environment(os.environ), log_path=folder / "log", lifeline=True)


def listening(process: ServerProcess) -> Running:
    """The server once it has said its port."""
    deadline = time.monotonic() + 20
    while not process.head().endswith("}\n"):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.tail()
        time.sleep(0.01)
    return Running(process, json.loads(process.head())["port"])


@pytest.fixture
def serve_answers(tmp_path: Path, questions: tuple[Question, ...]) -> Iterator[StartServer]:
    """Starts answer servers with the given config fields."""
    with ExitStack() as stack:
        yield lambda **fields: listening(stack.enter_context(begin(tmp_path, questions, **fields)))


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory, questions: tuple[Question, ...]) -> Iterator[Running]:
    """One server, right about everything, for requests that change nothing."""
    with begin(tmp_path_factory.mktemp("server"), questions) as process:
        yield listening(process)


@pytest.fixture
def ask(http: Any) -> Ask:
    """Asks a question over a route."""

    def send(server: Running, prompt: str, *, chat: bool = False, timeout_s: float = 10, **fields: Plain) -> Any:
        body = {"model": "m", "max_tokens": 500, **fields}
        body |= {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        path = "/v1/chat/completions" if chat else "/v1/completions"
        return http(server.url + path, body, timeout_s=timeout_s)

    return send


def test_the_open_routes(shared_server: Running, http: Any) -> None:
    """Health, version and models answer as vLLM's do."""
    server = shared_server
    health = http(f"{server.url}/health")
    assert (health.status, health.content) == (200, b"")
    assert http(f"{server.url}/version").json == {"version": "b-1"}
    models = http(f"{server.url}/v1/models").json
    assert [model["id"] for model in models["data"]] == ["m"]


def test_both_apis_answer_alike(serve_answers: StartServer, ask: Ask, questions: tuple[Question, ...]) -> None:
    """Over both routes 70 % of the questions get the reference and the rest another number, with usage."""
    server = serve_answers(accuracy=0.7, dispersion=0, seed=3)
    plain = [ask(server, f"Question: {q.text}\nAnswer:").json for q in questions]
    chat = [ask(server, q.text, chat=True).json for q in questions]
    texts = [answer["choices"][0]["text"] for answer in plain]
    assert texts == [answer["choices"][0]["message"]["content"] for answer in chat]
    assert sum(text == q.reference for text, q in zip(texts, questions, strict=True)) == 28
    assert all("\n#### " in text for text in texts)
    assert {answer["model"] for answer in plain + chat} == {"m"}
    assert plain[0]["object"] == "text_completion"
    assert chat[0]["choices"][0]["message"]["role"] == "assistant"
    for answer, text in zip(plain, texts, strict=True):
        usage = answer["usage"]
        assert usage["completion_tokens"] == -(-len(text) // 4)
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        assert answer["choices"][0]["finish_reason"] == "stop"


def test_limits(shared_server: Running, ask: Ask, questions: tuple[Question, ...]) -> None:
    """Token limits cut with `length` (16 tokens when a completion states none), stop strings with `stop`."""
    server, question = shared_server, questions[7]
    short = ask(server, question.text, max_tokens=3).json["choices"][0]
    assert (short["text"], short["finish_reason"]) == (question.reference[:12], "length")
    default = ask(server, question.text, max_tokens=None).json["choices"][0]
    assert (len(default["text"]), default["finish_reason"]) == (len(question.reference[:64]), "stop")
    stopped = ask(server, question.text, chat=True, stop=["####"], max_tokens=None).json["choices"][0]
    assert stopped["message"]["content"] == question.reference.split("####")[0]
    assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", "####")


def test_an_unknown_question(serve_answers: StartServer, ask: Ask) -> None:
    """A prompt without a known question gets an honest answer, untouched by faults."""
    server = serve_answers(faults={"http_500": 1.0, "die_after": 0})
    assert ask(server, "Hello?").json["choices"][0]["text"] == "I do not know."
    assert ask(server, "Hello?", chat=True).json["choices"][0]["message"]["content"] == "I do not know."


def test_the_key(serve_answers: StartServer, http: Any) -> None:
    """With a key everything under /v1 asks for it, exactly it; health does not."""
    server = serve_answers(api_key="k1")
    assert http(f"{server.url}/health").status == 200
    for key, status in ((None, 401), ("k", 401), ("k11", 401), ("k1", 200)):
        assert http(f"{server.url}/v1/models", key=key).status == status
    refused = http(f"{server.url}/v1/completions", {"prompt": "x"})
    assert (refused.status, refused.json) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("completions", {"model": "other", "prompt": "x"}, 404, "model"),
        ("completions", {"model": ["m"], "prompt": "x"}, 404, "model"),
        ("completions", b'{"model": "m", ', 400, "body"),
        ("completions", b"[" * 200_000, 400, "body"),
        ("completions", b"\xff\xfe", 400, "body"),
        ("completions", [1], 400, "body"),
        ("completions", {}, 400, "prompt"),
        ("completions", {"prompt": ["a", "b"]}, 400, "body.prompt"),
        ("completions", {"prompt": {"a": 1}}, 400, "body.prompt"),
        ("completions", {"prompt": "x", "max_tokens": 0}, 400, "max_tokens"),
        ("completions", {"prompt": "x", "max_tokens": "lots"}, 400, "body.max_tokens"),
        ("completions", {"prompt": "x", "stop": [1]}, 400, "body.stop"),
        ("completions", {"prompt": "x", "stream": "yes"}, 400, "body.stream"),
        ("chat/completions", {}, 400, "body.messages"),
        ("chat/completions", {"messages": "x"}, 400, "body.messages"),
        ("chat/completions", {"messages": [{"role": "user", "content": [1]}]}, 400, "body.messages"),
        ("chat/completions", {"messages": []}, 400, None),
    ],
)
def test_refused_requests(
    shared_server: Running, http: Any, path: str, body: Any, status: int, param: str | None
) -> None:
    """A malformed request gets vLLM's error object with the parameter at fault, and the server lives on."""
    reply = http(f"{shared_server.url}/v1/{path}", body)
    assert reply.status == status
    error = reply.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, status)
    assert len(error["message"]) < 500


def test_unknown_routes_and_large_bodies(shared_server: Running, http: Any) -> None:
    """Unknown routes, wrong methods and bodies beyond 4 MiB are refused in JSON."""
    assert (http(f"{shared_server.url}/nope").status, http(f"{shared_server.url}/v1/nope").status) == (
        404,
        404,
    )
    assert http(f"{shared_server.url}/nope").json == {"detail": "Not Found"}
    assert http(f"{shared_server.url}/v1/completions").status == 405
    # Sent without its body's end, because the refusal comes before all of it is read.
    connection = http_client.HTTPConnection(shared_server.url.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Content-Length", str(5 * 2**20))
    connection.endheaders(b"x" * (4 * 2**20 + 1))
    with connection.getresponse() as response:
        assert response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    connection.close()


@pytest.mark.parametrize("fault", ["http_500", "truncate", "empty", "malformed"])
def test_faults_that_answer(serve_answers: StartServer, ask: Ask, questions: tuple[Question, ...], fault: str) -> None:
    """Each fault looks as it does on a real server: an error object, half a text, no text, half a body."""
    server, question = serve_answers(faults={fault: 1.0}), questions[3]
    reply = ask(server, question.text)
    if fault == "http_500":
        assert (reply.status, reply.json["error"]["code"]) == (500, 500)
        return
    assert reply.status == 200
    if fault == "malformed":
        with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
            json.loads(reply.content)
        return
    choice, usage = reply.json["choices"][0], reply.json["usage"]
    half = question.reference[: len(question.reference) // 2]
    expected = (half, "length") if fault == "truncate" else ("", "stop")
    assert (choice["text"], choice["finish_reason"]) == expected
    assert (usage["completion_tokens"] == 0) == (fault == "empty")


def test_dropped_and_hung_requests(
    serve_answers: StartServer, ask: Ask, http: Any, questions: tuple[Question, ...]
) -> None:
    """A dropped request loses its connection, a hung one never answers; the server serves on, silently."""
    server = serve_answers(faults={"drop": 1.0})
    with pytest.raises((ConnectionError, http_client.HTTPException)):
        ask(server, questions[0].text)
    assert http(f"{server.url}/health").status == 200
    hanging = serve_answers(faults={"hang": 1.0})
    with pytest.raises(TimeoutError):
        ask(hanging, questions[0].text, timeout_s=0.3)
    assert http(f"{hanging.url}/health").status == 200
    # Nothing but the port line: neither fault makes noise in the log.
    assert [len(running.process.tail().splitlines()) for running in (server, hanging)] == [1, 1]


def test_a_retry_draws_anew(serve_answers: StartServer, ask: Ask, questions: tuple[Question, ...]) -> None:
    """Half of the attempts fail, and every question is answered in the end with the text it always has."""
    server = serve_answers(faults={"http_500": 0.5})
    failures = 0
    for question in questions:
        while (reply := ask(server, question.text)).status == 500:
            failures += 1
            assert failures < 200
        assert reply.json["choices"][0]["text"] == question.reference
    assert 15 < failures < 80


def test_death_after_n_answers(serve_answers: StartServer, ask: Ask, questions: tuple[Question, ...]) -> None:
    """The n-th answer arrives whole, and then the process is dead with code 9."""
    server = serve_answers(faults={"die_after": 3})
    for question in questions[:3]:
        assert ask(server, question.text).json["choices"][0]["text"] == question.reference
    deadline = time.monotonic() + 5
    while server.process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.process.poll() == 9
    with pytest.raises(OSError, match="refused"):
        ask(server, questions[3].text)


def test_latency(serve_answers: StartServer, ask: Ask, questions: tuple[Question, ...]) -> None:
    """An answer takes at least its latency."""
    server = serve_answers(latency={"median_s": 0.2, "sigma": 0.0})
    started = time.monotonic()
    ask(server, questions[0].text)
    assert time.monotonic() - started >= 0.2


def test_the_lifeline(serve_answers: StartServer, survivors: Callable[[Sequence[int], float], list[int]]) -> None:
    """The server ends by itself within a second of the end of its standard input."""
    process = serve_answers().process
    assert process._popen.stdin
    process._popen.stdin.close()
    assert survivors([process.pid], 1) == []
    assert process.poll() == 0


def test_only_loopback(shared_server: Running) -> None:
    """The server listens on 127.0.0.1 and on no other address."""
    connections = psutil.Process(shared_server.process.pid).net_connections()
    assert [c.laddr.ip for c in connections if c.status == "LISTEN"] == ["127.0.0.1"]


def test_a_config_it_cannot_use(serve_answers: StartServer, tmp_path: Path) -> None:
    """A recording that is missing ends the server with one line."""
    with pytest.raises(AssertionError, match=r"^gatekit: engine\.answers: .*\[answers-file\]\n"):
        serve_answers(kind="replay", answers=str(tmp_path / "none.json"))


@pytest.mark.parametrize("route", ["completions", "chat/completions"])
def test_a_stream_is_the_answer_in_pieces(shared_server: Running, http: Any, route: str) -> None:
    """With `stream` the same text comes as events, its end and its counts behind it, and [DONE] last."""
    asked = {"prompt": "x"} if route == "completions" else {"messages": [{"role": "user", "content": "x"}]}
    whole = json.loads(http(f"{shared_server.url}/v1/{route}", asked).content)
    streamed = http(f"{shared_server.url}/v1/{route}", {**asked, "stream": True}).content.decode()
    *lines, done, _ = streamed.split("\n\n")
    choices = [choice for line in lines for choice in json.loads(line.removeprefix("data: "))["choices"]]
    text = "".join(choice.get("text", choice.get("delta", {}).get("content")) or "" for choice in choices)
    (said,) = whole["choices"]
    assert text == (said["text"] if route == "completions" else said["message"]["content"])
    assert [choice["finish_reason"] for choice in choices][-2:] == [None, said["finish_reason"]]
    assert json.loads(lines[-1].removeprefix("data: "))["usage"] == whole["usage"]
    assert done == "data: [DONE]"
