"""A real server on a raw socket that says exactly what a test tells it to, byte for byte."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Request"], "bytes | Iterable[bytes] | Reset | None"]
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Reset:
    """These bytes, and then a connection that is reset instead of closed."""

    first: bytes


@dataclass(frozen=True)
class Request:
    """One request as it came; `number` counts the requests to the same path from 1."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    number: int

    @property
    def data(self) -> Any:
        """The JSON body."""
        return json.loads(self.body)


@dataclass
class RawServer:
    """Answers each request with the bytes its handler returns; None keeps the connection open and silent.

    Pieces of bytes are sent one by one, as they come; then the connection is closed, whatever was promised.
    """

    handler: Handler
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [request.path for request in self.requests]

    def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection, as a killed process does."""
        if self._over.is_set():
            return
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while (request := self._read(stream)) is not None:
                    answer = self.handler(request)
                    if answer is None:
                        self._over.wait()
                        return
                    if not isinstance(answer, bytes):
                        self._send_pieces(connection, answer)
                        return
                    connection.sendall(answer)
                    if not answer.startswith(b"HTTP/1.1") or b"onnection: close" in answer[:2000]:
                        return
            except OSError:
                return

    def _send_pieces(self, connection: socket.socket, answer: Iterable[bytes] | Reset) -> None:
        if isinstance(answer, Reset):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            connection.sendall(answer.first)
            return
        for piece in answer:
            if self._over.is_set():
                return
            connection.sendall(piece)

    def _read(self, stream: Any) -> Request | None:
        line = stream.readline().decode()
        if not line.strip():
            return None
        method, path, _ = line.split(" ", 2)
        headers = {}
        while (header := stream.readline().decode().strip()) != "":
            name, _, value = header.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        number = self.paths().count(path) + 1
        request = Request(method=method, path=path, headers=headers, body=body, number=number)
        self.requests.append(request)
        return request


Start = Callable[[Handler], RawServer]
"""What the fixture `raw_server` is: it starts one, which is stopped after the test."""


def in_place_of(gone: RawServer, handler: Handler) -> RawServer:
    """Another server on the port of one that is gone."""
    server = RawServer(handler, port=gone.port)
    deadline = time.monotonic() + 30
    while True:
        try:
            server.start()
        except OSError:  # the kernel has not given up the port yet
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return server


def http(status: int, body: bytes | str | dict[str, Any], *extra: str, content_type: str = "application/json") -> bytes:
    """A whole HTTP response."""
    text = json.dumps(body) if isinstance(body, dict) else body
    raw = text.encode() if isinstance(text, str) else text
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {content_type}", f"Content-Length: {len(raw)}", *extra]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def completion(text: str | None, *, finish: str = "stop", model: str = "m", tokens: int = 9) -> dict[str, Any]:
    """The body of a text completion."""
    usage = {"prompt_tokens": 7, "completion_tokens": tokens}
    return {"model": model, "choices": [{"text": text, "finish_reason": finish}], "usage": usage}


def chat(
    content: str | None,
    *,
    finish: str = "stop",
    model: str = "m",
    tokens: int = 9,
    more: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """The body of a chat completion; `more` goes into its message."""
    message = {"role": "assistant", "content": content, **(more or {})}
    usage = {"prompt_tokens": 7, "completion_tokens": tokens}
    return {"model": model, "choices": [{"message": message, "finish_reason": finish}], "usage": usage}
