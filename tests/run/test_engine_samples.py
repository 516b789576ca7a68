"""Every recorded response of five real servers, served again: the client and the identity checks never raise."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.endpoint import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Failure
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.run import identity
from gatekit.run.client import ROUTES, Client, Refusal, Reply
from gatekit.run.effective import log_values
from gatekit.run.identity import Identification
from gatekit.run.model_list import ModelList
from gatekit.spec.resolve import resolve
from raw_server import Request, Start

Sample = dict[str, Any]

APIS = {path: api for api, path in ROUTES.items()}
ENGINES = {
    "llama_cpp_python": "external",
    "llama_server": "llamacpp",
    "sglang": "sglang",
    "transformers": "transformers",
    "vllm": "vllm",
}
NOT_REPLAYED = frozenset({"content-length", "transfer-encoding", "connection"})


def samples(folder: Path) -> list[Sample]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def raw(sample: Sample) -> bytes | None:
    """The response as it came over the wire, in one piece; None where none came while the client waited."""
    if sample["status"] is None:
        return None
    text = json.dumps(sample["json"]) if "json" in sample else sample.get("text") or ""
    body = text.encode("utf-8", errors="surrogatepass")
    kept = [f"{name}: {value}" for name, value in sample["headers"].items() if name.lower() not in NOT_REPLAYED]
    head = "\r\n".join([f"HTTP/1.1 {sample['status']} X", *kept, f"Content-Length: {len(body)}"])
    return head.encode() + b"\r\n\r\n" + body


def kind(result: object) -> str:
    """The type of an outcome, with the kind of a failure."""
    if isinstance(result, Refusal):
        return result.failure.kind.value
    if isinstance(result, Failure):
        return result.kind.value
    return {Completion: "completion", Reply: "reply"}.get(type(result), "none" if result is None else "names")


class Replay:
    """A server that gives one sample to whatever is asked."""

    def __init__(self, start: Start) -> None:
        self.answer: bytes | None = b""
        self.server = start(self._say)

    def _say(self, _: Request) -> bytes | None:
        return self.answer

    def give(self, one: Sample) -> float:
        """From now on this sample; how long it is worth waiting for."""
        self.answer = raw(one)
        return 10.0 if self.answer is not None else 0.2


async def asked(replay: Replay, folder: Path) -> dict[str, str]:
    """The outcome of each sample, by its name: asked as what it was, a completion, a chat or a document."""
    found = {}
    async with Client(replay.server.url, api_key=None, request_timeout_s=10) as client:
        for one in samples(folder):
            limit_s, path = replay.give(one), one["request"]["path"]
            if one["request"]["method"] == "POST" and path in APIS:
                found[one["name"]] = kind(await client.ask(APIS[path], b"{}", expected_model=None, timeout_s=limit_s))
            else:
                found[one["name"]] = kind(await client.get(path, timeout_s=limit_s))
            status = await client.status(path, timeout_s=limit_s)
            assert (status if isinstance(status, int) else None) == one["status"]
            assert (await client.text(path, timeout_s=limit_s) is not None) is (one["status"] == 200)
    return found


# A stream, and the empty or textual documents of /health, /ping and /metrics, are no JSON; two choices are no answer.
COUNTS = {
    "llama_cpp_python": {
        "completion": 24,
        "reply": 1,
        "not_found": 15,
        "server_error": 10,
        "rejected": 2,
        "not_json": 2,
    },
    "llama_server": {"completion": 25, "reply": 6, "not_found": 7, "server_error": 2, "rejected": 6, "not_json": 4}
    | {"timeout": 1, "bad_shape": 3},
    "sglang": {"completion": 19, "reply": 6, "not_found": 5, "rejected": 15, "not_json": 7, "bad_shape": 2},
    "transformers": {"completion": 17, "reply": 2, "not_found": 9, "server_error": 7, "rejected": 7, "not_json": 1}
    | {"timeout": 3},
    "vllm": {"completion": 18, "reply": 4, "not_found": 9, "rejected": 14, "not_json": 7, "bad_shape": 2},
}


@pytest.mark.parametrize("server", sorted(ENGINES))
def test_each_response_has_a_type(shared: Path, raw_server: Start, server: str) -> None:
    """A recorded response is a completion, a document or a failure of one kind; how many of each is known."""
    found = asyncio.run(asked(Replay(raw_server), shared / "engine_samples" / server))
    assert Counter(found.values()) == COUNTS[server], {
        k: [n for n, v in found.items() if v == k] for k in set(found.values())
    }
    for name, one in found.items():
        if name.startswith(("chat_ok", "comp_ok")):
            assert one == "completion"


def launched_spec(engine: str) -> Spec:
    model = {"llamacpp": "tiny_gsm", "sglang": "inkling_small_nvfp4"}.get(engine, "laguna_int4")
    more = ("hw=b200", "engine.enforce_eager=false", "engine.max_model_len=null") if model == "laguna_int4" else ()
    hw = ("hw=b200x4",) if model == "inkling_small_nvfp4" else more
    where = ("engine.base_url=http://127.0.0.1:1",) if engine == "external" else ()
    return resolve((f"model={model}", f"engine={engine}", *hw, *where), dirs=(conf_dir(),))


async def described(asker: Identification) -> Mapping[str, str]:
    """What goes into the record; nothing where an advisory refuses the server."""
    try:
        return (await asker.before(ModelList(names=("x",)))).info
    except InfraError as error:
        return {} if error.reason == "version-advisory" else {"unexpected": error.reason * 500}


async def identified(replay: Replay, folder: Path, spec: Spec, expected: str) -> Counter[str]:
    """How the identity checks take each sample as the answer to all that they ask."""
    counts: Counter[str] = Counter()
    endpoint = Endpoint(base_url=replay.server.url, served_model=expected, details={}, simulated=False)
    async with Client(replay.server.url, api_key=None, request_timeout_s=10) as client:
        asker = Identification(spec, endpoint, client)
        for one in samples(folder):
            limit_s = replay.give(one)
            models = await asker.models(limit_s)
            if one["status"] is None:
                counts[kind(models)] += 1
                continue
            if isinstance(models, Failure):
                counts[kind(models)] += 1
            else:
                try:
                    asker.expected_among(models)
                    counts["expected" if models is not None else "unlisted"] += 1
                except InfraError as error:
                    counts[error.reason] += 1
            told = await described(asker)
            assert all(isinstance(value, str) and len(value) <= 500 for value in told.values())
    return counts


# One document of each server is its model list; a route that is not there lists nothing, and says so.
IDENTITIES = {
    "llama_cpp_python": {"bad_shape": 24, "unlisted": 15, "server_error": 10, "rejected": 2, "not_json": 2},
    "llama_server": {"bad_shape": 33, "unlisted": 7, "server_error": 2, "rejected": 6, "not_json": 4, "timeout": 1},
    "sglang": {"bad_shape": 26, "unlisted": 5, "rejected": 15, "not_json": 7},
    "transformers": {"bad_shape": 18, "unlisted": 9, "server_error": 7, "rejected": 7, "not_json": 1, "timeout": 3},
    "vllm": {"bad_shape": 23, "unlisted": 9, "rejected": 14, "not_json": 7},
}


@pytest.mark.parametrize("server", sorted(ENGINES))
def test_identity_over_each_response(
    shared: Path, raw_server: Start, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a server answers to the identity checks, it is a name, no list, or a failure of one kind."""
    monkeypatch.setattr(identity, "_PAUSE_AFTER_S", 0.01)  # before a version that could not be told is asked for again
    spec = launched_spec(ENGINES[server])
    expected = {"transformers": "/models/tiny", "llama_server": "smol"}.get(server, "tiny")
    counts = asyncio.run(identified(Replay(raw_server), shared / "engine_samples" / server, spec, expected))
    assert counts == IDENTITIES[server] | {"expected": 1}


async def unknown_model(replay: Replay, folder: Path) -> set[str]:
    found = set()
    async with Client(replay.server.url, api_key=None, request_timeout_s=10) as client:
        for one in samples(folder):
            if one["name"].startswith("err_unknown_model"):
                replay.give(one)
                found.add(kind(await client.ask(APIS[one["request"]["path"]], b"{}", expected_model="nope")))
    return found


@pytest.mark.parametrize(
    ("server", "found"),
    [
        ("vllm", "not_found"),
        ("transformers", "rejected"),
        ("llama_server", "wrong_model"),
        ("sglang", "completion"),
        ("llama_cpp_python", "completion"),
    ],
)
def test_an_unknown_model(shared: Path, raw_server: Start, server: str, found: str) -> None:
    """Two servers answer as whatever model they are asked for: an answer's model alone proves nothing."""
    assert asyncio.run(unknown_model(Replay(raw_server), shared / "engine_samples" / server)) == {found}


@pytest.mark.parametrize("server", sorted(ENGINES))
def test_every_log_is_read(shared: Path, server: str) -> None:
    """The recorded logs, of failed starts too, tell what they tell of the settings and nothing else."""
    markers = launched_spec("vllm").engine.log_values or {}
    for path in sorted((shared / "engine_samples" / server).glob("*.log")):
        told = log_values(path, markers)
        if path.name == "server-run1.log":
            assert told == {
                "dtype": "torch.bfloat16",
                "max_model_len": "512",
                "quantization": "None",
                "kv_cache_dtype": "auto",
                "tensor_parallel_size": "1",
                "data_parallel_size": "1",
                "enforce_eager": "True",
                "seed": "0",
                "trust_remote_code": "False",
                "speculative": "None",
            }
        elif server != "vllm":
            assert told == {}


def test_all_samples_are_replayed(shared: Path) -> None:
    """262 responses and 8 logs: none is left out."""
    folders = [shared / "engine_samples" / server for server in ENGINES]
    assert (
        sum(len(samples(folder)) for folder in folders)
        == sum(sum(counts.values()) for counts in COUNTS.values())
        == 262
    )
    assert sum(len(list(folder.iterdir())) for folder in folders) == 270
