"""One request and its typed outcome. The only room that speaks HTTP to a server under test."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self

import aiohttp

from gatekit.records.answers import Completion, Failure, FailureKind
from gatekit.records.spec import Api
from gatekit.run.completion import BadShapeError, is_error, parse_completion
from gatekit.run.connections import HANG_UPS, SOCKET_BYTES, Connector, Use, using
from gatekit.run.deadline import Deadlines
from gatekit.run.fingerprint import Fingerprints
from gatekit.run.json_text import decoded
from gatekit.run.masking import Masking
from gatekit.run.same_response import Responses
from gatekit.run.streaming import Room, Stream, StreamError

MAX_BODY_BYTES = 8 * 1024 * 1024
# With 64 requests in flight at most 2 * 8 + 64 / 16 = 20 MiB of bodies are in memory, and less in buffers: what
# one read of a socket brings is bounded too, since a few bytes (an interim response) may grow to many when parsed.
_SMALL_BODY_BYTES = 64 * 1024
_LARGE_BODIES = 2
_NAMES_KEPT = 4
_CHUNK_BYTES = 64 * 1024
_DETAIL_CHARACTERS = 200
_END_OF_STREAM_S = 0.5
_STREAM = "text/event-stream"

ROUTES = {Api.COMPLETIONS: "/v1/completions", Api.CHAT: "/v1/chat/completions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that brought no answer, the HTTP status if there was one, and how long the server asked to wait."""

    failure: Failure
    status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A JSON object that a server sent with status 200; of a stream, when its first piece came."""

    data: Mapping[str, Any]
    first_token_s: float | None = None


class Client:
    """Requests to one server: no proxies, no redirects, no compression, bounded bodies, one deadline each.

    `models_answered` are the model names that completions carried, `fingerprints` how they were signed; `unended` is
    how many did not say why they ended, after a first one that did not either. With `streams`, completions come as
    streams.

    A request on a connection that the server had closed meanwhile is sent again at once, on a new one: it counts
    nowhere, and `hung_up` is the last such failure.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        request_timeout_s: float,
        streams: bool = False,
        hidden: Sequence[str] = (),
    ) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._masking = Masking((api_key or "", *hidden))
        self._deadlines = Deadlines(request_timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._large_bodies = asyncio.Semaphore(_LARGE_BODIES)
        self._streams = streams
        self._room = Room()
        self._responses = Responses()
        self._tells_ends: bool | None = None
        self._hangs_up_on_streams = False
        self.models_answered: set[str] = set()
        self.fingerprints = Fingerprints()
        self.unended = 0
        self.hung_up: Failure | None = None

    async def __aenter__(self) -> Self:
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if self._api_key is not None:
            headers["Authorization"] = f"Bearer {self._api_key}"
        self._session = aiohttp.ClientSession(
            connector=Connector(),
            read_bufsize=SOCKET_BYTES,
            timeout=aiohttp.ClientTimeout(total=None),
            headers=headers,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, *, timeout_s: float) -> Reply | Refusal:
        """The JSON object at `path`, or why there is none."""
        return await self._request("GET", path, None, timeout_s)

    async def status(self, path: str, *, timeout_s: float) -> int | Refusal:
        """The HTTP status at `path`, whatever the body; or why there is none."""
        assert self._session is not None, "use the client as a context manager"
        try:
            async with asyncio.timeout(timeout_s):
                async with self._session.get(self.base_url + path, allow_redirects=False) as response:
                    return response.status
        except Exception as error:
            return self._refusal(*_classify(error, timeout_s))

    async def text(self, path: str, *, timeout_s: float) -> str | None:
        """The body at `path`, whatever its type, at most 8 MiB; None where there is none with status 200."""
        assert self._session is not None, "use the client as a context manager"
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.get(self.base_url + path, allow_redirects=False) as response,
            ):
                raw = await self._bounded_body(response)
        except Exception as error:
            _classify(error, timeout_s)
            return None
        return self._masking.text(raw.decode("utf-8", errors="replace")) if response.status == 200 else None

    async def ask(
        self, api: Api, body: bytes, *, expected_model: str | None, timeout_s: float | None = None
    ) -> Completion | Refusal:
        """The completion for a request body, or why there is none. Never raises for what a server does."""
        reply = await self._request("POST", ROUTES[api], body, timeout_s, streamed=api if self._streams else None)
        if isinstance(reply, Refusal):
            return reply
        try:
            return self._completion(api, reply, expected_model)
        except BadShapeError as error:
            return self._refusal(error.kind, str(error))
        except Exception as error:
            return self._refusal(*_classify(error, self._deadlines.limit_s))

    def _completion(self, api: Api, reply: Reply, expected_model: str | None) -> Completion | Refusal:
        """The completion in a reply. Raises BadShapeError where there is none."""
        model = reply.data.get("model")
        if isinstance(model, str) and len(self.models_answered) < _NAMES_KEPT:
            self.models_answered.add(model)
        if expected_model is not None and isinstance(model, str) and model != expected_model:
            detail = f"expected model {expected_model}, the answer comes from {model}"
            return self._refusal(FailureKind.WRONG_MODEL, detail)
        completion = parse_completion(api, reply.data)
        self._refuse_unended(completion)
        self.fingerprints.take(reply.data.get("system_fingerprint"))
        return completion if not self._streams else replace(completion, first_token_s=reply.first_token_s)

    def _refuse_unended(self, completion: Completion) -> None:
        """An answer that does not say why it ended may be half of one; but some servers say that of none."""
        if self._tells_ends is None:
            self._tells_ends = completion.finish_reason is not None
        elif completion.finish_reason is None and self._tells_ends:
            raise BadShapeError("the answer does not say why it ended (finish_reason), and the first one did")
        elif completion.finish_reason is None:
            self.unended += 1

    async def _request(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None, *, streamed: Api | None = None
    ) -> Reply | Refusal:
        began_s = time.monotonic()
        try:
            # The clock starts here: the connector has no queue, and waiting for a turn happens before.
            with Deadlines(timeout_s).begin() if timeout_s is not None else self._deadlines.begin():
                use = using()
                try:
                    return await self._exchange(method, path, body, streamed, began_s, use)
                except HANG_UPS as error:
                    if not use.is_hang_up(error):
                        raise
                    self._was_hung_up(error)
                return await self._exchange(method, path, body, streamed, began_s, using(must_be_new=True))
        except _TooLargeError:
            return self._refusal(FailureKind.TOO_LARGE, f"{path}: body over {MAX_BODY_BYTES // 2**20} MiB")
        except Exception as error:
            return self._refusal(*_classify(error, self._deadlines.limit_s if timeout_s is None else timeout_s))

    def _was_hung_up(self, error: BaseException) -> None:
        self.hung_up = self._refusal(*_classify(error, self._deadlines.limit_s)).failure
        self._hangs_up_on_streams = self._streams

    async def _exchange(
        self, method: str, path: str, body: bytes | None, streamed: Api | None, began_s: float, use: Use
    ) -> Reply | Refusal:
        """One request on one connection. Raises whatever is wrong with that, or with reading what came."""
        assert self._session is not None, "use the client as a context manager"
        async with self._session.request(method, self.base_url + path, data=body, allow_redirects=False) as response:
            use.answer_began = True
            if response.status != 200:
                return self._not_ok(response, await _beginning(response), path)
            refused = self._refused_unread(response, path, may_stream=streamed is not None)
            if refused is not None:
                response.close()
                return refused
            if streamed is not None and _content_type(response) == _STREAM:
                reply = await self._read_stream(response, path, Stream(streamed, self._room), began_s)
                if self._hangs_up_on_streams:
                    use.close()
                return reply if body is None else self._new(reply, body, path, use)
            raw = await self._bounded_body(response)
            reply = self._read(raw, path)
            if streamed is not None:
                return self._unstreamed(reply, path)
            return reply if body is None else self._new(reply, body, path, use, raw)

    def _new(
        self, reply: Reply | Refusal, body: bytes, path: str, use: Use, raw: bytearray | None = None
    ) -> Reply | Refusal:
        """The reply, or that another request brought it already: then nothing more is read from its connection."""
        if isinstance(reply, Refusal):
            return reply
        came = hash(bytes(raw)) if raw is not None else hash(str(reply.data))
        if not self._responses.came_before(reply.data.get("id"), came, hash(body)):
            return reply
        use.close()
        return self._refusal(FailureKind.BAD_SHAPE, f"{path}: the same response came twice, to another question before")

    async def _read_stream(
        self, response: aiohttp.ClientResponse, path: str, stream: Stream, began_s: float
    ) -> Reply | Refusal:
        """What the pieces come to; a stream that is no answer is left where it is."""
        first_token_s: float | None = None
        try:
            while not stream.is_over and (piece := await response.content.read(_CHUNK_BYTES)):
                stream.feed(piece)
                if first_token_s is None and stream.has_begun:
                    first_token_s = time.monotonic() - began_s
            data = stream.body()
        except StreamError as error:
            response.close()
            return self._refusal(error.kind, f"{path}: {error}")
        finally:
            stream.release()
        if not await _has_ended(response):
            response.close()
        return Reply(data=self._masking.data(data) if self._masking else data, first_token_s=first_token_s)

    def _unstreamed(self, reply: Reply | Refusal, path: str) -> Reply | Refusal:
        """A body in one piece, where a stream was asked for: an error is told as such, an answer is none."""
        if isinstance(reply, Refusal) or is_error(reply.data):
            return reply
        return self._refusal(FailureKind.REJECTED, f"{path}: the server does not stream, and protocol.stream is true")

    async def _bounded_body(self, response: aiohttp.ClientResponse) -> bytearray:
        """The body, within the limit; what is more than an answer's usual size waits for its turn."""
        if (response.content_length or 0) > MAX_BODY_BYTES:
            response.close()
            raise _TooLargeError
        body = bytearray()
        if not await _read_up_to(_SMALL_BODY_BYTES, response, body):
            # Whoever has a turn waits for nobody else, and its own deadline ends it: no deadlock.
            async with self._large_bodies:
                if not await _read_up_to(MAX_BODY_BYTES, response, body):
                    response.close()
                    raise _TooLargeError
                return body
        return body

    def _not_ok(self, response: aiohttp.ClientResponse, beginning: bytes, path: str) -> Refusal:
        detail = f"{path}: HTTP {response.status}: {beginning.decode('utf-8', errors='replace')}"
        wait_s = _retry_after(response.headers.get("Retry-After"), response.headers.get("Date"))
        kind = _kind_of_status(response.status)
        return self._refusal(kind, detail, status=response.status, retry_after_s=wait_s)

    def _refused_unread(
        self, response: aiohttp.ClientResponse, path: str, *, may_stream: bool = False
    ) -> Refusal | None:
        """What the head of a response already says is no answer; its body is not worth reading."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            return self._refusal(FailureKind.BAD_SHAPE, f"{path}: compressed body although none was asked for")
        kind = _content_type(response)
        if kind != "application/json" and not (may_stream and kind == _STREAM):
            hint = " (a stream although stream is off)" if kind == _STREAM else ""
            return self._refusal(FailureKind.NOT_JSON, f"{path}: content type {kind}{hint}")
        return None

    def _read(self, raw: bytes | bytearray, path: str) -> Reply | Refusal:
        try:
            data = decoded(raw.decode("utf-8"))
            if self._masking:
                data = self._masking.data(data)  # JSON can spell a key with escapes
        except (ValueError, RecursionError) as error:
            why = f"body is not JSON: {error}" if raw else "empty body"
            return self._refusal(FailureKind.NOT_JSON, f"{path}: {why}")
        if not isinstance(data, dict):
            return self._refusal(FailureKind.BAD_SHAPE, f"{path}: body is not a JSON object")
        return Reply(data=data)

    def _refusal(
        self, kind: FailureKind, detail: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> Refusal:
        """What is shown of it is masked and cut here, and nowhere before: a cut may leave the beginning of a key."""
        shown = self._masking.shown(detail, _DETAIL_CHARACTERS)
        return Refusal(failure=Failure(kind=kind, detail=shown), status=status, retry_after_s=retry_after_s)


class _TooLargeError(Exception):
    pass


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """As much of a body as is shown; where it is short all of it, so that the connection can be used again."""
    body = bytearray()
    if not await _read_up_to(_SMALL_BODY_BYTES, response, body):
        response.close()
    return bytes(body)


async def _read_up_to(limit: int, response: aiohttp.ClientResponse, body: bytearray) -> bool:
    """Reads on into `body`; whether the response ended within `limit` bytes."""
    while chunk := await response.content.read(_CHUNK_BYTES):
        body += chunk
        if len(body) > limit:
            return False
        if response.content.at_eof():  # as good as another read, and most answers come in one
            break
    return True


async def _has_ended(response: aiohttp.ClientResponse) -> bool:
    """Whether a stream ends where it says so; then the connection can be used again."""
    try:
        async with asyncio.timeout(_END_OF_STREAM_S):
            return not await response.content.read(_CHUNK_BYTES)
    except (TimeoutError, aiohttp.ClientError, OSError):
        return False


def _content_type(response: aiohttp.ClientResponse) -> str:
    """The type that a body has by its head, whatever stands there; aiohttp's own reading of it may raise anything."""
    return response.headers.get("Content-Type", "none").partition(";")[0].strip().lower()


def _kind_of_status(status: int) -> FailureKind:
    special = {
        401: FailureKind.UNAUTHORIZED,
        403: FailureKind.UNAUTHORIZED,
        404: FailureKind.NOT_FOUND,
        405: FailureKind.NOT_FOUND,
        408: FailureKind.SERVER_ERROR,
        429: FailureKind.RATE_LIMITED,
    }
    if status in special:
        return special[status]
    if 300 <= status < 400:
        return FailureKind.REDIRECT
    return FailureKind.REJECTED if 400 <= status < 500 else FailureKind.SERVER_ERROR


def _retry_after(value: str | None, sent_at: str | None) -> float | None:
    """The seconds that a Retry-After asks for; a date counts from the server's own clock where it tells that."""
    try:
        seconds = float(value or "")
    except ValueError:
        until = _moment(value)
        if until is None:
            return None
        now = _moment(sent_at) or datetime.now(UTC)
        return max((until - now).total_seconds(), 0.0)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _moment(value: str | None) -> datetime | None:
    """An HTTP date; None for what is none. One without a zone is UTC (RFC 9110, 5.6.7)."""
    try:
        moment = parsedate_to_datetime(value or "")
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _classify(error: BaseException, limit_s: float) -> tuple[FailureKind, str]:
    """What went wrong with one request: whatever it was, reading what a server sends ends no run."""
    if isinstance(error, TimeoutError):
        return FailureKind.TIMEOUT, f"no answer within {limit_s:g} s"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return FailureKind.DNS, f"host name does not resolve: {error.host}"
    if isinstance(error, (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError)):
        return FailureKind.TLS, f"TLS: {error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return FailureKind.REFUSED, f"cannot connect to {error.host}:{error.port}: {error.strerror}"
    if isinstance(error, (*HANG_UPS, aiohttp.ClientPayloadError)):
        return FailureKind.DISCONNECTED, f"connection lost: {error or type(error).__name__}"
    if isinstance(error, (aiohttp.ClientError, OSError, ValueError)):
        return FailureKind.BAD_SHAPE, f"not proper HTTP: {type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and not isinstance(error, RecursionError)):
        raise error  # the machine's, not the server's
    return FailureKind.BAD_SHAPE, f"a response that cannot be read: {type(error).__name__}: {error}"
