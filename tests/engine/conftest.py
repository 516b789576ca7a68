"""Specs, questions and HTTP for the engine room."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import psutil
import pytest

from gatekit.records.answers import Question
from gatekit.records.canonical import Plain
from gatekit.records.spec import Engine, EngineKind, Hardware, Model, Spec
from spec_builders import spec_of


class SpecMaker(Protocol):
    """Builds a Spec from engine fields, with the model and the hardware replaceable."""

    def __call__(self, *, model: Model | None = None, hw: Hardware | None = None, **engine: Any) -> Spec: ...


@pytest.fixture
def make_spec() -> SpecMaker:
    """A complete Spec around the given engine fields."""

    def make(*, model: Model | None = None, hw: Hardware | None = None, **engine: Any) -> Spec:
        spec = spec_of(
            "test",
            protocol={"name": "chat", "shots": 0, "shot_template": "", "question_template": "{question}"}
            | {"stop": (), "max_tokens": 512, "extractor": "strict", "temperature": None},
            gate={"name": "floor", "floor": 0.8},
            client={"request_timeout_s": 10, "deadline_s": 60, "outage_s": 30},
        )
        return replace(
            spec,
            model=model or Model(name="org/model", server_args={}, server_env={}),
            hw=hw or Hardware(name="any", vendor="none"),
            engine=Engine(**{"name": "sim", "kind": EngineKind.SIM, "env": {}, **engine}),
        )

    return make


@pytest.fixture(scope="session")
def questions() -> tuple[Question, ...]:
    """Forty small questions."""
    return tuple(
        Question(
            id=i,
            text=f"Ann has {i} pears and buys {i + 2} more.\nHow many pears does Ann have?",
            reference=f"She has {i}+{i + 2}=<<{i}+{i + 2}={2 * i + 2}>>{2 * i + 2} pears.\n#### {2 * i + 2}",
        )
        for i in range(40)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP status and body."""

    status: int
    content: bytes

    @property
    def json(self) -> Plain:
        """The body as JSON."""
        return json.loads(self.content)


class Http(Protocol):
    """One HTTP request; a dictionary goes as JSON."""

    def __call__(
        self, url: str, body: Plain | bytes = None, *, key: str | None = None, timeout_s: float = 10
    ) -> Reply: ...


@pytest.fixture(scope="session")
def http() -> Http:
    """A plain client that ignores proxies."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def send(url: str, body: Plain | bytes = None, *, key: str | None = None, timeout_s: float = 10) -> Reply:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = urllib.request.Request(url, data=data, headers=headers)
        try:
            with opener.open(request, timeout=timeout_s) as response:
                return Reply(status=response.status, content=response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(status=error.code, content=error.read())

    return send


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="session")
def survivors() -> Callable[[Sequence[int], float], list[int]]:
    """Which of the processes still run after at most that many seconds."""

    def wait(pids: Sequence[int], timeout_s: float) -> list[int]:
        deadline = time.monotonic() + timeout_s
        while (left := [pid for pid in pids if _alive(pid)]) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    return wait
