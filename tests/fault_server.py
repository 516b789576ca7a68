"""Faults of a server under test, as handlers: who is struck, by what, and what the others get."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gatekit.task.synth import synth_questions
from raw_server import Request, Reset, completion, http
from right_answers import reference, right

Fault = Callable[[Request], "bytes | Iterable[bytes] | Reset | None"]
NUMBERS = {question.text: number for number, question in enumerate(synth_questions(1319, "test"))}


def question_of(request: Request) -> int | None:
    """The number of the dataset question that is asked; None for the warm-up and for other paths."""
    if request.method != "POST":
        return None
    data = request.data
    text = data["prompt"] if "prompt" in data else data["messages"][-1]["content"]
    return NUMBERS.get(text.rpartition("Question: ")[2].removesuffix("\nAnswer:"))


def striking(
    fault: Fault, *, every: int = 1, first: int | None = None, otherwise: Callable[[Request], Any] = right
) -> Fault:
    """Strikes every so many questions, their `first` attempts only if given; all else gets `otherwise`."""
    attempts: Counter[int] = Counter()

    def handle(request: Request) -> bytes | Iterable[bytes] | Reset | None:
        number = question_of(request)
        if number is None or number % every:
            return otherwise(request)  # type: ignore[no-any-return]  # a handler's answer, whatever it is
        attempts[number] += 1
        if first is not None and attempts[number] > first:
            return otherwise(request)  # type: ignore[no-any-return]
        return fault(request)

    return handle


def saying(answer: bytes) -> Fault:
    """Says always the same."""
    return lambda request: answer


def headed(*lines: str) -> bytes:
    """The head of a 200 response with these lines."""
    return "\r\n".join(("HTTP/1.1 200 OK", "Content-Type: application/json", *lines)).encode() + b"\r\n\r\n"


def dripping(request: Request) -> Iterator[bytes]:
    """One byte now and then, for ever: no pause between two is long."""
    yield headed("Content-Length: 100000")
    while True:
        yield b" "
        time.sleep(0.1)


def huge(request: Request) -> Iterator[bytes]:
    """A content string of 50 MB, of unstated length."""
    yield headed("Connection: close") + b'{"model": "m", "choices": [{"finish_reason": "stop", "text": "'
    for _ in range(50):
        yield b"x" * 1_000_000
    yield b'"}]}'


def bomb(request: Request) -> Iterator[bytes]:
    """A gzip stream that would grow to gigabytes."""
    block = bytes.fromhex("ecc1010d000000c2a0f74f6d0e37a0") + b"\x00" * 1000
    yield headed("Connection: close", "Content-Encoding: gzip") + bytes.fromhex("1f8b0800000000000003")
    for _ in range(20_000):
        yield block


def many_headers(request: Request) -> Iterator[bytes]:
    """200,000 response headers before an answer."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    for block in range(200):
        yield b"".join(b"X-Header-%d: %d\r\n" % (block * 1000 + number, number) for number in range(1000))
    body = completion(reference(request.data["prompt"]))
    yield http(200, body).partition(b"\r\n")[2]


def endless_header(request: Request) -> Iterator[bytes]:
    """One header line that never ends."""
    yield b"HTTP/1.1 200 OK\r\nX-Long: "
    for _ in range(100):
        yield b"x" * 1_000_000


def endless_hints(request: Request) -> Iterator[bytes]:
    """Interim responses (103) for ever, and never a final one."""
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" * 100
        time.sleep(0.01)


def cut_short(request: Request) -> Iterator[bytes]:
    """A body shorter than its stated length."""
    whole = right(request)
    yield whole[:-10]


def reset_midway(request: Request) -> Reset:
    """A connection that is reset in the middle of the body."""
    return Reset(right(request)[:-10])


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody vouches for, and its key; without openssl the test is skipped."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    return certificate, key


@contextmanager
def over_tls(certificate: Path, key: Path) -> Iterator[str]:
    """The base URL of a server with this certificate that greets whoever accepts it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as safe:
                safe.recv(4096)
                safe.sendall(http(503, {}, "Connection: close"))

    threading.Thread(target=greet, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
