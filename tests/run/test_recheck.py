"""Who answers after a lost connection: what is asked then, and what the journal learns of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.endpoint import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind
from gatekit.records.run import Comparability
from gatekit.records.spec import EngineKind
from gatekit.run.client import Client
from gatekit.run.identity import Identification, Identity
from gatekit.run.journal import Journal
from gatekit.run.journal_lines import Header
from gatekit.run.recheck import Recheck
from raw_server import Handler, Request, Start, http
from spec_builders import spec_of

SPEC = spec_of(engine={"kind": EngineKind.ATTACH, "version_path": "/version"})
KNOWN = Identity(models=("m",), version="1", model_said={"root": "/a"})
Play = Callable[[Recheck], Awaitable[None]]


def loss(detail: str = "connection lost") -> Failure:
    """A connection that was lost: each is its own."""
    return Failure(kind=FailureKind.DISCONNECTED, detail=detail)


def telling(version: str | None = "1", **listed: str) -> Callable[[Request], bytes]:
    """A server that lists m with these details, and has this version."""

    def handle(request: Request) -> bytes:
        if request.path == "/v1/models":
            return http(200, {"data": [{"id": "m", **listed}]})
        return http(404, "") if version is None else http(200, {"version": version})

    return handle


def silent(request: Request) -> bytes:
    """A server that tells nothing."""
    return http(404, "")


def told(
    folder: Path, url: str, play: Play, before: Identity = KNOWN, *, signs: tuple[str | None, ...] = ()
) -> list[dict[str, Any]]:
    """What stands in the journal, behind the header, once that was played after answers that were signed so."""
    path = folder / "journal.jsonl"
    header = Header(
        record=1,
        run_id="night",
        gatekit_version="0.1.0",
        began_at="2026-01-01T00:00:00Z",
        spec=SPEC,
        comparability=Comparability(key="sha256:0", fields={}),
    )
    endpoint = Endpoint(base_url=url, served_model="m", details={}, simulated=False)

    async def run(journal: Journal) -> None:
        async with Client(url, api_key=None, request_timeout_s=10) as client:
            for sign in signs:
                client.fingerprints.take(sign)
            noted = lambda identity: journal.event(f"version {identity.version}")  # noqa: E731 - one use
            await play(Recheck(Identification(SPEC, endpoint, client), before, journal, noted))

    with Journal(path) as journal:
        journal.begin(header)
        asyncio.run(run(journal))
    return [json.loads(line) for line in path.read_bytes().splitlines()[1:]]


async def once(recheck: Recheck) -> None:
    """One lost connection, then a look."""
    recheck.before_answer(None, 0)
    lost = loss("why")
    recheck.before_answer(lost, 0)
    recheck.before_answer(lost, 0)
    recheck.before_answer(loss(), 0)
    await recheck.look()


def test_a_server_that_is_the_same(raw_server: Start, tmp_path: Path) -> None:
    """Connections that are lost before anybody is asked are one doubt, which ends once all was told again."""
    lines = told(tmp_path, raw_server(telling(root="/a")).url, once)
    assert lines == [{"doubt": "why"}, {"confirmed": 1}, {"event": "version 1"}]


@pytest.mark.parametrize(
    ("handler", "before", "looks"),
    [
        (telling(), KNOWN, 2),
        (telling(None, root="/a"), KNOWN, 1),
        (silent, KNOWN, 1),
        (silent, Identity(models=None, version=None), 2),
        (telling(), Identity(models=None, version=None), 2),
    ],
    ids=["not the root", "no version", "nothing any more", "nothing ever", "nothing before"],
)
def test_a_server_that_tells_less(
    raw_server: Start, tmp_path: Path, handler: Handler, before: Identity, looks: int
) -> None:
    """What was known before and is not told, or never was known, confirms nothing, however often it is asked; and
    what an unconfirmed server tells is not noted as that of the first one."""

    async def play(recheck: Recheck) -> None:
        await once(recheck)
        for _ in range(looks - 1):
            await recheck.look()

    assert told(tmp_path, raw_server(handler).url, play, before) == [{"doubt": "why"}]


@pytest.mark.parametrize(
    ("signs", "is_same"), [(("fp-1", "fp-1"), True), ((None, None), True), (("fp-1", None), False)]
)
def test_answers_that_are_not_signed_any_more(
    raw_server: Start, tmp_path: Path, signs: tuple[str | None, ...], is_same: bool
) -> None:
    """Answers without the fingerprint that others have are of a server that nothing confirms."""
    lines = told(tmp_path, raw_server(telling(root="/a")).url, once, signs=signs)
    assert ({"confirmed": 1} in lines) is is_same


def test_another_server(raw_server: Start, tmp_path: Path) -> None:
    """A server that tells something else ends the run as ever, and is confirmed by nothing."""
    with pytest.raises(InfraError, match="root /a before, /b after"):
        told(tmp_path, raw_server(telling(root="/b")).url, once)
    assert b"confirmed" not in (tmp_path / "journal.jsonl").read_bytes()


def test_a_connection_that_is_lost_while_it_is_asked(raw_server: Start, tmp_path: Path) -> None:
    """What is lost after the question who answers was sent is a doubt of its own, and waits for the next time."""
    is_asked, may_tell = threading.Event(), threading.Event()

    def handle(request: Request) -> bytes:
        is_asked.set()
        may_tell.wait(5)
        return telling(root="/a")(request)

    async def play(recheck: Recheck) -> None:
        recheck.before_answer(loss("one"), 0)
        looking = asyncio.create_task(recheck.look())
        await asyncio.to_thread(is_asked.wait, 5)
        recheck.before_answer(loss("two"), 0)
        recheck.before_answer(loss("three"), 0)
        may_tell.set()
        await looking
        recheck.before_answer(loss("four"), 0)
        await recheck.look()

    lines = told(tmp_path, raw_server(handle).url, play)
    assert lines == [{"doubt": "one"}, {"doubt": "two"}, {"confirmed": 1}, {"confirmed": 1}, {"event": "version 1"}]


def test_no_doubt(raw_server: Start, tmp_path: Path) -> None:
    """Where no connection was lost a look confirms nothing."""

    async def play(recheck: Recheck) -> None:
        await recheck.look()

    assert told(tmp_path, raw_server(telling(root="/a")).url, play) == [{"event": "version 1"}]
