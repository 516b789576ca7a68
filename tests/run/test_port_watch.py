"""A stranger on the port of a started server, met while questions are asked."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.engine.launch import start
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.spec import Api
from gatekit.run.client import Client
from gatekit.run.loop import Asking
from gatekit.run.port_watch import watched
from raw_server import Start
from spec_builders import spec_of

LISTEN = (
    "import socket, time; s = socket.create_server(('127.0.0.1', 0));"
    " print(s.getsockname()[1], flush=True); time.sleep(60)"
)


def test_a_stranger_ends_the_asking(raw_server: Start, tmp_path: Path) -> None:
    """Someone else's listener that is older than the server ends the run at the next look, as INFRA, with its pid."""
    silent = raw_server(lambda request: None)
    with subprocess.Popen([sys.executable, "-c", LISTEN], stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout
        port = int(stranger.stdout.readline())
        sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
        try:
            with start(sleeper, env={}, log_path=tmp_path / "server.log", lifeline=False) as process:
                endpoint = Endpoint(
                    base_url=f"http://127.0.0.1:{port}",
                    served_model="m",
                    process=process,
                    details={},
                    simulated=False,
                )
                with pytest.raises(InfraError, match=f"process {stranger.pid}") as caught:
                    asyncio.run(asking(silent.url, endpoint))
                assert caught.value.reason == "port-taken"
        finally:
            stranger.kill()


async def asking(url: str, endpoint: Endpoint) -> None:
    limits = replace(spec_of("test").client, concurrency=2, deadline_s=30.0)
    async with Client(url, api_key=None, request_timeout_s=30) as client:
        pass_ = Asking(
            client,
            [b"{}"] * 4,
            api=Api.COMPLETIONS,
            limits=limits,
            expected_model="m",
            on_answer=lambda answer: None,
            watch=watched(endpoint, every_s=0.1),
        )
        await pass_.run(asyncio.Event())


def test_nobody_is_no_stranger() -> None:
    """A server that is not ours, and a port on which nobody listens yet, are watched without a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert watched(Endpoint(base_url=url, served_model="m", details={}, simulated=False))() is None
