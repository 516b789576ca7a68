"""Who listens on a port: real sockets and real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.engine.launch import start
from gatekit.engine.listener import Listener, Listening, family, holder, listening
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.run.port_watch import refuse_stranger, watched

LISTEN = (
    "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    " print('up', flush=True); time.sleep(60)"
)
SHARE = (
    "import socket, sys, time; server = socket.socket();"
    " server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1);"
    " server.bind(('127.0.0.1', int(sys.argv[1]))); server.listen(); print('up', flush=True); time.sleep(60)"
)
NOBODY = 65534
GRANDCHILD = f"import subprocess,sys; subprocess.run([sys.executable, '-c', {LISTEN!r}, sys.argv[1]])"


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def sleeper(*, user: int | None = None) -> Iterator[int]:
    """A process of its own that holds no socket."""
    with subprocess.Popen(["/bin/sleep", "60"], user=user) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def bound(host: str, port: int = 0, *, only_v6: bool = True, shared: bool = False) -> socket.socket:
    """A listening socket of this process."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    if ":" in host:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind((host, port))
    made.listen()
    return made


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_our_own_socket(host: str) -> None:
    """A port belongs to the process whose socket takes connections to 127.0.0.1, and to nobody once it is closed."""
    with sleeper() as other, bound(host, only_v6=False) as server:
        port = server.getsockname()[1]
        assert listening(port, os.getpid()) == Listening(is_ours=True)
        found = listening(port, other)
        assert (found.is_ours, len(found.strangers), found.unsure) == (False, 1, 0)
        assert (found.strangers[0].uid, holder(found.strangers[0])) == (os.getuid(), os.getpid())
        with socket.create_connection(("127.0.0.1", port)):
            assert listening(port, os.getpid()) == Listening(is_ours=True)
    assert listening(port, os.getpid()) == Listening(is_ours=False)
    assert holder(found.strangers[0]) is None


@pytest.mark.parametrize("host", ["::1", "127.0.0.2"])
def test_an_address_that_is_not_asked(host: str) -> None:
    """A socket of another address is neither ours nor a stranger's, whoever else listens on the port."""
    with bound(host) as elsewhere:
        port = elsewhere.getsockname()[1]
        assert listening(port, os.getpid()) == Listening(is_ours=False)
        with thief(port) as stranger, sleeper() as other:
            found = listening(port, os.getpid())
            assert (found.is_ours, found.strangers) == (True, ()), "a child of this process"
            found = listening(port, other)
            assert (found.is_ours, [holder(one) for one in found.strangers]) == (False, [stranger])


def test_the_exact_address_goes_first() -> None:
    """Where a socket of 127.0.0.1 listens, one of any address gets no connection, and is no stranger."""
    with bound("127.0.0.1") as exact, bound("::", exact.getsockname()[1]):
        found = listening(exact.getsockname()[1], os.getpid())
        assert (found.is_ours, found.strangers) == (True, ())
    with bound("::") as wild, sleeper() as other, thief(wild.getsockname()[1]) as stranger:
        found = listening(wild.getsockname()[1], other)
        assert [holder(one) for one in found.strangers] == [stranger]


def test_a_shared_port() -> None:
    """Each listener outside of the tree counts, also where one of ours has the same port by SO_REUSEPORT."""
    with bound("127.0.0.1", shared=True) as server:
        port = server.getsockname()[1]
        with thief(port) as one, thief(port) as two:
            found = listening(port, one)
            assert found.is_ours
            assert {holder(stranger) for stranger in found.strangers} == {two, os.getpid()}


@contextmanager
def thief(port: int) -> Iterator[int]:
    """A process that listens on the port of 127.0.0.1, also beside one that shares it."""
    with subprocess.Popen([sys.executable, "-S", "-c", SHARE, str(port)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            yield process.pid
        finally:
            process.kill()


AS_NOBODY = """
import encodings.ascii, os, sys
from types import SimpleNamespace
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.run.port_watch import refuse_stranger
url, pid, is_foreign = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
ours = Endpoint(base_url=url, served_model="m", details={}, simulated=False, foreign_listener=is_foreign,
                process=SimpleNamespace(pid=pid))
os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    print(refuse_stranger(ours))
except InfraError as error:
    print(f"{error.reason}: {error.message}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_stranger_of_another_user() -> None:
    """A listener that cannot be read is a stranger's where all processes of ours can be: its user is named."""
    with bound("127.0.0.1") as server, sleeper(user=NOBODY) as ours:
        port = server.getsockname()[1]

        def told(pid: int, *, is_foreign: bool = False) -> str:
            command = [sys.executable, "-c", AS_NOBODY, f"http://127.0.0.1:{port}", str(pid), str(is_foreign)]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

        wanted = f"port-taken: port {port} belongs to a process of user 0, which is not the started server"
        assert told(ours) == wanted
        assert told(ours, is_foreign=True) == "False"
        assert told(os.getpid()) == "None", "ours may be the holder, and hides it"


def test_a_kernel_that_shows_nothing(tmp_path: Path) -> None:
    """Without /proc it is not known."""
    assert listening(80, 1, proc=tmp_path) == Listening(is_ours=False)
    assert holder(Listener(socket="socket:[1]", uid=0), proc=tmp_path) is None


def test_a_grandchild_is_ours(tmp_path: Path) -> None:
    """What a started process starts belongs to its family."""
    port = free()
    code = [sys.executable, "-c", GRANDCHILD, str(port)]
    with subprocess.Popen(code, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == b"up\n"
            assert listening(port, child.pid) == listening(port, os.getpid()) == Listening(is_ours=True)
            with sleeper() as other:
                (stranger,) = listening(port, other).strangers
            assert holder(stranger) in family(child.pid) - {child.pid}
        finally:
            for pid in family(child.pid):
                os.kill(pid, 9)


def test_a_stranger_on_the_port(tmp_path: Path) -> None:
    """Any listener but the started server is refused; where others may listen one that was there before is; nobody says
    nothing."""
    port = free()
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", served_model="m", details={}, simulated=False)
    idle = [sys.executable, "-c", "import time; time.sleep(60)"]
    with start(idle, env={}, log_path=tmp_path / "a.log", lifeline=False) as older:
        with thief(port) as stranger, start(idle, env={}, log_path=tmp_path / "b.log", lifeline=False) as younger:
            assert refuse_stranger(endpoint) is None, "a server that was not started"
            for process, is_foreign in [(older, False), (younger, False), (younger, True)]:
                ours = replace(endpoint, process=process, foreign_listener=is_foreign)
                with pytest.raises(InfraError, match=f"port {port} belongs to process {stranger}") as caught:
                    watched(ours)()
                assert caught.value.reason == "port-taken"
            assert refuse_stranger(replace(endpoint, process=older, foreign_listener=True)) is False
        assert watched(replace(endpoint, process=older))() is None
    assert refuse_stranger(replace(endpoint, process=older)) is None, "one that is gone"
