"""Who listens on a port: real sockets and real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gatekit.engine.launch import start
from gatekit.engine.listener import family, holder, listens
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.run.port_watch import refuse_stranger, watched

LISTEN = (
    "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    " print('up', flush=True); time.sleep(60)"
)
GRANDCHILD = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {LISTEN!r}, sys.argv[1]])"


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_our_own_socket(host: str) -> None:
    """A port of either family belongs to the process that listens on it, not to another, and to nobody once closed."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        port = server.getsockname()[1]
        assert (listens(port, {os.getpid()}), listens(port, {1}), listens(port, set())) == (True, False, False)
        assert holder(port) == os.getpid()
        with socket.create_connection((host, port)):
            assert holder(port) == os.getpid()
    assert (listens(port, {os.getpid()}), holder(port)) == (None, None)


def test_a_kernel_that_shows_nothing(tmp_path: Path) -> None:
    """Without /proc it is not known."""
    assert (listens(80, {1}, proc=tmp_path), holder(80, proc=tmp_path)) == (None, None)


def test_a_grandchild_is_ours(tmp_path: Path) -> None:
    """What a started process starts belongs to its family."""
    port = free()
    code = [sys.executable, "-c", GRANDCHILD, str(port)]
    with subprocess.Popen(code, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"up\n"
            assert listens(port, family(child.pid)) is True
            assert listens(port, family(os.getpid())) is True
            grandchild = holder(port)
            assert grandchild not in (child.pid, None)
        finally:
            for pid in family(child.pid):
                os.kill(pid, 9)


def test_a_stranger_on_the_port(tmp_path: Path) -> None:
    """A listener that was there before the server is refused; the started server itself is not; nobody says nothing."""
    port = free()
    endpoint = {"base_url": f"http://127.0.0.1:{port}", "served_model": "m", "details": {}, "simulated": False}
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([sys.executable, "-c", LISTEN, str(port)], stdout=subprocess.PIPE) as stranger:
        try:
            assert stranger.stdout
            assert stranger.stdout.readline() == b"up\n"
            assert refuse_stranger(Endpoint(**endpoint)) is None  # type: ignore[arg-type]  # its fields
            with start(sleeper, env={}, log_path=tmp_path / "a.log", lifeline=False) as process:
                ours = Endpoint(**endpoint, process=process)  # type: ignore[arg-type]  # its fields
                with pytest.raises(InfraError, match=f"port {port} belongs to process {stranger.pid}") as caught:
                    watched(ours)()
                assert caught.value.reason == "port-taken"
        finally:
            stranger.kill()
    with start(sleeper, env={}, log_path=tmp_path / "b.log", lifeline=False) as process:
        assert watched(Endpoint(**endpoint, process=process))() is None  # type: ignore[arg-type]  # its fields
