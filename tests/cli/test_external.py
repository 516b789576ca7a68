"""A running server, attached to: who it is, whether it is ready, and what it may do wrong."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from command_line import Ran, attached, here, record
from raw_server import Request, Start, chat, completion, http
from right_answers import asked, reference, right


def attach(folder: Path, url: str, *more: str, extra: dict[str, str] | None = None) -> Ran:
    return here(folder, *attached(url, *more), "--json", extra=extra)


def test_a_running_server_is_gated(raw_server: Start, tmp_path: Path) -> None:
    """Attached, asked on either route, judged; version and model are in the record."""
    server = raw_server(right)
    for api in ("completions", "chat"):
        ran = attach(tmp_path, server.url + "/v1/", f"protocol.api={api}")
        assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (0, "PASS", 1.0)
        served = record(ran, tmp_path)["served"]
        assert (served["model"], served["build"], served["simulated"]) == ("m", "external-1.2", False)
    assert asked(server) == 80


def test_the_request_is_the_protocol(raw_server: Start, tmp_path: Path) -> None:
    """Exactly the protocol's fields are sent; a null one is left to the server."""
    server = raw_server(right)
    attach(tmp_path, server.url, "protocol.top_p=0.5", "protocol.seed=null")
    body = server.requests[-3].data if server.requests[-3].method == "POST" else server.requests[-4].data
    assert {key: body[key] for key in body if key != "prompt"} == {
        "model": "m",
        "max_tokens": 256,
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ["Question", "Assistant:", "<|separator|>"],
    }
    assert body["prompt"].count("Question: ") == 6


def test_another_model_is_refused(raw_server: Start, tmp_path: Path) -> None:
    """A server that lists another model is asked nothing."""
    server = raw_server(right)
    ran = attach(tmp_path, server.url, "engine.expected_model=other")
    assert (ran.code, ran.data["reason_code"]) == (3, "wrong-model")
    assert "expected model other" in ran.data["reason"]
    assert "serves m" in ran.data["reason"]
    assert asked(server) == 0


def test_a_server_that_answers_as_another_model(raw_server: Start, tmp_path: Path) -> None:
    """A server that lists the right model and answers as another is refused too."""

    def lie(request: Request) -> bytes:
        if request.path == "/v1/completions":
            return http(200, completion("#### 2", model="liar"))
        return right(request)

    ran = attach(tmp_path, raw_server(lie).url)
    assert (ran.code, ran.data["reason_code"]) == (3, "wrong-model")


def test_ready_is_one_real_completion(raw_server: Start, tmp_path: Path) -> None:
    """A server whose health is fine and whose completions still fail is waited for."""
    loading = iter(range(5))

    def late(request: Request) -> bytes:
        if request.path == "/v1/completions" and next(loading, None) is not None:
            return http(503, {"error": {"message": "loading"}})
        return right(request)

    ran = attach(tmp_path, raw_server(late).url)
    assert (ran.code, ran.data["counts"]["lost"]) == (0, 0)
    assert next(loading, None) is None


def test_never_ready(raw_server: Start, tmp_path: Path) -> None:
    """Health for ever and no completion ends at the start-up time, with what was seen last."""

    def hang(request: Request) -> bytes | None:
        return None if request.path == "/v1/completions" else right(request)

    began = time.monotonic()
    ran = attach(tmp_path, raw_server(hang).url, "engine.startup_timeout_s=2")
    assert (ran.code, ran.data["reason_code"]) == (3, "not-ready")
    assert time.monotonic() - began < 12
    assert ran.data["accuracy"] is None


def test_a_key_by_the_name_of_its_variable(raw_server: Start, tmp_path: Path) -> None:
    """The key is read from the named variable, and stands in no output and no record."""

    def guarded(request: Request) -> bytes:
        if request.headers.get("authorization") != "Bearer sk-secret-123":
            return http(401, {"error": {"message": "no key"}})
        return right(request)

    server = raw_server(guarded)
    ran = attach(tmp_path, server.url, "engine.api_key_env=OUR_KEY", extra={"OUR_KEY": "sk-secret-123"})
    assert ran.code == 0
    kept = json.dumps(record(ran, tmp_path))
    assert "sk-secret-123" not in ran.out + ran.err + kept
    ran = attach(tmp_path, server.url)
    assert (ran.code, ran.data["reason_code"]) == (3, "unauthorized")
    assert "engine.api_key_env" in ran.data["hint"]


def test_an_unset_key_variable_is_wrong_input(tmp_path: Path) -> None:
    """A key variable that is not set is found before anything is asked."""
    ran = attach(tmp_path, "http://127.0.0.1:9", "engine.api_key_env=NOT_SET_ANYWHERE")
    assert ran.code == 2
    assert "NOT_SET_ANYWHERE" in ran.data["reason"]


def test_the_other_route_is_suggested(raw_server: Start, tmp_path: Path) -> None:
    """A 404 on one route names the other."""

    def only_completions(request: Request) -> bytes:
        return http(404, {}) if request.path == "/v1/chat/completions" else right(request)

    ran = attach(tmp_path, raw_server(only_completions).url, "protocol.api=chat")
    assert (ran.code, ran.data["reason_code"]) == (3, "not-found")
    assert "protocol.api=completions" in ran.data["hint"]


def test_a_server_that_changes_midway(raw_server: Start, tmp_path: Path) -> None:
    """Answers of two versions are never pooled into one verdict."""
    versions = iter(["1.2"])

    def changes(request: Request) -> bytes:
        if request.path == "/version":
            return http(200, {"version": next(versions, "1.3")})
        return right(request)

    ran = attach(tmp_path, raw_server(changes).url)
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")


def test_a_server_that_cannot_be_asked_again(raw_server: Start, tmp_path: Path) -> None:
    """A model list and a version that fail after the run hide no verdict; it is said that they were not checked."""
    seen: Counter[str] = Counter()

    def forgetful(request: Request) -> bytes:
        seen[request.path] += 1
        if request.path in ("/v1/models", "/version") and seen["/v1/completions"] > 1:
            return http(503, "")
        return right(request) if request.path != "/v1/completions" else http(200, completion("#### 123456"))

    ran = attach(tmp_path, raw_server(forgetful).url, "task.n=200")
    assert (ran.code, ran.data["verdict"]) == (1, "FAIL")
    warnings = ran.data["warnings"]
    assert "not verified: the model list and the version could not be checked after the run" in warnings
    assert "100% identical outputs" in warnings


def test_a_short_hiccup_after_the_run_is_no_finding(raw_server: Start, tmp_path: Path) -> None:
    """A check that succeeds at the second try leaves no warning; another order of the same list is no change."""
    lists = iter(["m", None, "a"])

    def hiccup(request: Request) -> bytes:
        if request.path != "/v1/models":
            return right(request)
        first = next(lists)
        names = ["m", "a"] if first == "m" else ["a", "m"]
        return http(503, "") if first is None else http(200, {"data": [{"id": name} for name in names]})

    ran = attach(tmp_path, raw_server(hiccup).url)
    assert (ran.code, ran.data["warnings"]) == (0, [])


def test_a_model_that_is_gone_after_the_run(raw_server: Start, tmp_path: Path) -> None:
    """A list without the expected model after the run is a change of the server."""
    done = 0

    def gone(request: Request) -> bytes:
        nonlocal done
        done += request.method == "POST"
        return http(200, {"data": [{"id": "n"}]}) if request.path == "/v1/models" and done > 1 else right(request)

    ran = attach(tmp_path, raw_server(gone).url)
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")


def test_a_server_without_a_model_list(raw_server: Start, tmp_path: Path) -> None:
    """Where no list says who answers the verdict says so, and whether at least the answers name a model."""

    def listless(request: Request) -> bytes:
        return http(404, {}) if request.path == "/v1/models" else right(request)

    def nameless(request: Request) -> bytes:
        if request.path != "/v1/completions":
            return listless(request)
        return http(200, {**completion(reference(request.data["prompt"])), "model": None})

    ran = attach(tmp_path, raw_server(listless).url)
    assert ran.code == 0
    assert any("lists no models; that m answered is what its answers say" in line for line in ran.data["warnings"])
    ran = attach(tmp_path, raw_server(nameless).url)
    assert ran.code == 0
    assert any("any model may have answered" in warning for warning in ran.data["warnings"])


def test_a_broken_model_list_is_no_server_to_gate(raw_server: Start, tmp_path: Path) -> None:
    """A model list that fails or is malformed for the whole start-up time ends the run before any question."""
    for broken in (http(503, {}), http(200, {"data": "m"}), http(200, "<html>", content_type="text/html")):

        def handle(request: Request, body: bytes = broken) -> bytes:
            return body if request.path == "/v1/models" else right(request)

        server = raw_server(handle)
        ran = attach(tmp_path, server.url, "engine.startup_timeout_s=1")
        assert (ran.code, ran.data["verdict"], asked(server)) == (3, "INFRA", 0)
        assert "cannot be verified" in ran.data["reason"]


def test_a_key_that_expires_midway(raw_server: Start, tmp_path: Path) -> None:
    """A 401 names the variable that holds the key, before the run and in the middle of it."""
    for good in (0, 10):
        seen = 0

        def expires(request: Request, good: int = good) -> bytes:
            nonlocal seen
            seen += request.path == "/v1/completions"
            return http(401, {}) if request.method == "POST" and seen > good else right(request)

        ran = attach(tmp_path, raw_server(expires).url, "engine.api_key_env=OUR_KEY", extra={"OUR_KEY": "sk-secret-1"})
        assert (ran.code, ran.data["reason_code"]) == (3, "unauthorized")
        hint, _, resuming = ran.data["hint"].partition("; `gatekit run --resume ")
        assert (hint, bool(resuming)) == ("check the value of OUR_KEY", good > 0)


def test_the_record_says_when_the_server_was_ready(raw_server: Start, tmp_path: Path) -> None:
    """The start-up time is an event of the record."""
    ran = attach(tmp_path, raw_server(right).url)
    assert record(ran, tmp_path)["events"][0].startswith("ready after 0.")


def test_a_repeated_key_is_in_no_record(raw_server: Start, tmp_path: Path) -> None:
    """A server that returns the key as text, reasoning and version leaves it in no output and no file."""
    key = "sk-secret-123"

    def leaky(request: Request) -> bytes:
        if request.path == "/version":
            return http(200, {"version": key})
        if request.path == "/v1/models":
            return http(200, {"data": [{"id": "m"}, {"id": key}]})
        body = chat(f"{key} #### 1", more={"reasoning": key})
        return http(200, body) if request.method == "POST" else right(request)

    server = raw_server(leaky)
    options = ("engine.api_key_env=OUR_KEY", "protocol.api=chat")
    ran = attach(tmp_path, server.url, *options, extra={"OUR_KEY": key})
    assert ran.code == 1
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2
    assert not any(key.encode() in content for content in (*files, ran.out.encode(), ran.err.encode()))


def test_a_started_server_that_is_never_ready(tmp_path: Path) -> None:
    """The hint ends with the log's last line, and the record keeps the last 50."""
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    script = "import time\nfor i in range(60): print(f'loading {i}', flush=True)\ntime.sleep(60)\n"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    arguments = ("engine=vllm", "hw=cpu", "engine.startup_timeout_s=2", "task.n=40", "gate=static_floor")
    ran = here(tmp_path, *arguments, "gate.floor=0.8", "--json", extra={"PATH": path})
    assert (ran.code, ran.data["reason_code"]) == (3, "not-ready"), ran
    assert "its last line: loading 59" in ran.data["hint"]
    logged = [event for event in record(ran, tmp_path)["events"] if event.startswith("server log: ")]
    assert logged == [f"server log: loading {i}" for i in range(10, 60)]


def test_model_text_cannot_reach_the_terminal(raw_server: Start, tmp_path: Path) -> None:
    """Escape sequences and direction marks in names and answers never reach the screen."""
    evil = "m\x1b]8;;http://x\x07\u202e\r"

    def hostile(request: Request) -> bytes:
        if request.path == "/v1/models":
            return http(200, {"data": [{"id": evil}]})
        return http(200, completion(evil)) if request.method == "POST" else http(200, "")

    ran = attach(tmp_path, raw_server(hostile).url)
    assert ran.code == 3
    for character in ("\x1b", "\x07", "\u202e", "\r"):
        assert character not in ran.out + ran.err
