"""Connections that are kept for the next request: which one a request took, and which are not used again."""

from __future__ import annotations

import socket
from contextvars import ContextVar
from weakref import WeakSet

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

# What one read of a socket brings is bounded.
SOCKET_BYTES = 16 * 1024
# A request on a connection that the server has closed already ends with one of these, before a byte came.
HANG_UPS = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)


class Use:
    """The connection that one request took, and how far the request came on it."""

    __slots__ = ("answer_began", "had_been_used", "must_be_new", "protocol")

    def __init__(self, *, must_be_new: bool = False) -> None:
        self.must_be_new = must_be_new
        self.protocol: ResponseHandler | None = None
        self.had_been_used = False
        self.answer_began = False

    def close(self) -> None:
        """No other request takes this connection; one that has just taken it is asked again on another."""
        if self.protocol is not None:
            self.protocol.close()

    def is_hang_up(self, error: BaseException) -> bool:
        """Whether the server had hung up on a connection that was kept: it may never have seen the request."""
        if not self.had_been_used or self.answer_began:
            return False
        # What is no text is a head of a response that was cut off.
        return not isinstance(error, aiohttp.ServerDisconnectedError) or isinstance(error.message, str)


_USE: ContextVar[Use | None] = ContextVar("use", default=None)


def using(*, must_be_new: bool = False) -> Use:
    """The use that the next request of this task fills in; with `must_be_new` it takes no connection that was kept."""
    use = Use(must_be_new=must_be_new)
    _USE.set(use)
    return use


class Connector(aiohttp.TCPConnector):
    """Keeps connections, but none on which bytes came while nobody asked: they would be the next one's answer."""

    def __init__(self) -> None:
        super().__init__(limit=0, socket_factory=_socket)
        self._known: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection that may be used, kept or new."""
        use = _USE.get() or Use()
        while True:
            connection = await super().connect(req, traces, timeout)
            use.protocol = protocol = connection.protocol
            use.had_been_used = protocol is not None and protocol in self._known
            if not use.had_been_used:
                if protocol is not None:
                    self._known.add(protocol)
                return connection
            if protocol is not None and not protocol.should_close and not use.must_be_new:
                return connection
            connection.close()


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with a small buffer, so that a fast server cannot bring much at once; answers are small."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    return made
