"""A way to a PostgreSQL server that breaks at the worst moment."""

from __future__ import annotations

import select
import socket
import threading
from enum import Enum


class Cut(Enum):
    """When the connection breaks: COMMIT never arrives, or its answer does not."""

    BEFORE_COMMIT = "before"
    AFTER_COMMIT = "after"


class CuttingProxy:
    """Forwards bytes between clients and a server, and cuts the first `times` connections at their COMMIT."""

    def __init__(self, port: int, cut: Cut, *, times: int = 1) -> None:
        self._target, self._cut, self.left = port, cut, times
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def stop(self) -> None:
        """Accept nothing more."""
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [], 10)
                for one in ready:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    if one is client and self.left and b"COMMIT" in data:
                        self.left -= 1
                        if self._cut is Cut.AFTER_COMMIT:
                            server.sendall(data)
                            answer = server.recv(1 << 16)
                            assert b"COMMIT" in answer, answer
                        return
                    (server if one is client else client).sendall(data)
