"""E39: another model under the same name and version, told by what a model list and answers say beside them."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import attached, here, record, start, wait_for_answers
from raw_server import RawServer, Request, Start, completion, http
from right_answers import asked, is_question, reference, right

LISTED: dict[str, Any] = {
    "id": "m",
    "root": "/models/bf16",
    "owned_by": "vllm",
    "max_model_len": 512,
    "meta": {"ftype": "Q4_1", "size": 96},
}


def serving(
    listed: Callable[[], dict[str, Any]], signed: Callable[[], str | None] = lambda: None
) -> Callable[[Request], bytes]:
    """A right server that lists this, and signs its answers so."""

    def handle(request: Request) -> bytes:
        if request.path == "/v1/models":
            return http(200, {"data": [{"id": "other"}, listed()]})
        if request.path != "/v1/completions":
            return right(request)
        return http(200, {**completion(reference(request.data["prompt"])), "system_fingerprint": signed()})

    return handle


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"root": "/models/int4"}, "root /models/bf16 before, /models/int4 after"),
        ({"owned_by": "b"}, "owned_by vllm before"),
        ({"max_model_len": 256}, "max_model_len 512 before"),
        ({"meta": {"ftype": "Q8_0", "size": 96}}, "meta.ftype Q4_1 before, Q8_0 after"),
    ],
    ids=str,
)
def test_another_model_under_the_same_name(
    raw_server: Start, tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    """What the list says of the asked model is the same after the run, or its answers are pooled into no verdict."""
    lists = iter([LISTED])
    server = raw_server(serving(lambda: next(lists, LISTED | changed)))
    ran = here(tmp_path, *attached(server.url), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert told in ran.data["reason"]


def test_what_moves_while_one_server_runs(raw_server: Start, tmp_path: Path) -> None:
    """When the list was made, ids of permissions and the state of loading say nothing; the record keeps the rest."""
    numbers = iter(range(1000))

    def listed() -> dict[str, Any]:
        number = next(numbers)
        moving = {"created": number, "permission": [{"id": f"p{number}"}], "status": {"value": f"s{number}"}}
        return LISTED | moving

    ran = here(tmp_path, *attached(raw_server(serving(listed, lambda: "fp-1")).url), "--json")
    assert (ran.code, ran.data["warnings"]) == (0, [])
    details = record(ran, tmp_path)["served"]["details"]
    assert (details["listed.root"], details["listed.meta.ftype"]) == ("/models/bf16", "Q4_1")
    assert details["system_fingerprint"] == "fp-1"
    assert not any("created" in name for name in details)


def test_what_is_not_said_any_more(raw_server: Start, tmp_path: Path) -> None:
    """A list that stops to say what it said, and answers that are signed at times, are no change but a warning."""
    lists, signs = iter([LISTED]), iter(["fp-1"] * 9)
    handler = serving(lambda: next(lists, {"id": "m", "owned_by": "vllm"}), lambda: next(signs, None))
    ran = here(tmp_path, *attached(raw_server(handler).url), "--json")
    assert ran.code == 0
    warnings = "\n".join(ran.data["warnings"])
    assert "not verified: the model's root and the model's max_model_len" in warnings
    assert "not verified: answers without a system_fingerprint came beside" in warnings


def test_two_fingerprints(raw_server: Start, tmp_path: Path) -> None:
    """Answers that are signed by two end the run as soon as they are seen, although each server lists the same."""
    signs = iter(["fp-1"] * 20)

    def signed() -> str:
        time.sleep(0.05)
        return next(signs, "fp-\x1b[31m2")

    server = raw_server(serving(lambda: LISTED, signed))
    ran = here(tmp_path, *attached(server.url, "client.concurrency=2", n=400), "--run-id", "two", "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert "system_fingerprint fp-1 before, fp-\\x1b[31m2 after" in ran.data["reason"]
    assert asked(server) < 100
    resumed = here(tmp_path, "run", "--resume", "two")
    assert (resumed.code, resumed.err.splitlines()[-1].endswith("[server-changed]")) == (3, True)


def test_two_fingerprints_in_streams(raw_server: Start, tmp_path: Path) -> None:
    """The pieces of a stream are signed like an answer in one piece."""
    signs = iter(["fp-1"] * 5)

    def handle(request: Request) -> bytes:
        if request.path != "/v1/completions":
            return right(request)
        choice = {"index": 0, "text": reference(request.data["prompt"]), "finish_reason": "stop"}
        piece = {"model": "m", "system_fingerprint": next(signs, "fp-2"), "choices": [choice]}
        last = {"model": "m", "system_fingerprint": "", "choices": []}
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in (piece, last))
        return http(200, body + "data: [DONE]\n\n", content_type="text/event-stream")

    ran = here(tmp_path, *attached(raw_server(handle).url, "protocol.stream=true"), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert "system_fingerprint fp-1 before, fp-2 after" in ran.data["reason"]


def test_going_on_with_another_model(raw_server: Start, tmp_path: Path) -> None:
    """A run that is resumed compares both with the server that began it, before it asks a question."""
    is_over = threading.Event()

    def first(request: Request) -> bytes:
        if is_question(request) and request.number > 9:
            is_over.wait(60)
        return serving(lambda: LISTED, lambda: "fp-1")(request)

    server = raw_server(first)
    begun = tmp_path / "begun"
    begun.mkdir()
    process = start(begun, *attached(server.url, "client.concurrency=1"), "--run-id", "two")
    wait_for_answers(begun, "two", 8)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    is_over.set()
    server.stop()
    for changed, root, fingerprint in (("root", "/models/int4", "fp-1"), ("fingerprint", "/models/bf16", "fp-2")):
        folder = shutil.copytree(begun, tmp_path / changed)
        second = RawServer(serving(lambda: LISTED | {"root": root}, lambda: fingerprint), port=server.port)  # noqa: B023
        second.start()
        ran = here(folder, "run", "--resume", "two", "--json")
        second.stop()
        assert (ran.code, ran.data["reason_code"], asked(second)) == (3, "server-changed", 0)
        assert "the server is another than the one that began the run" in ran.data["reason"]


def test_a_model_list_that_drips(raw_server: Start, tmp_path: Path) -> None:
    """A body that never ends takes no longer than the start-up time."""

    def dripping() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
        while True:
            time.sleep(0.2)
            yield b" "

    def handle(request: Request) -> bytes | Iterator[bytes]:
        return dripping() if request.path == "/v1/models" else right(request)

    ran = here(tmp_path, *attached(raw_server(handle).url, "engine.startup_timeout_s=1"), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "not-ready")
    assert "cannot be verified after 1 s and" in ran.data["reason"]
