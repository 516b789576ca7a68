"""A streamed answer put together: server-sent events of an OpenAI-style server, within bounds, into one response body.

Every line of data is an event by itself: no server breaks its JSON, and some leave out the empty lines between. A
stream is whole once it has said why it ended, with `[DONE]` behind it or not; without that it is cut off, however
much there is of it.
"""

from __future__ import annotations

from io import StringIO
from typing import Any

from gatekit.records.answers import FailureKind
from gatekit.records.spec import Api
from gatekit.run.json_text import decoded

MAX_STREAM_BYTES = 128 * 2**20
MAX_STREAM_LINES = 2**20
MAX_LINE_BYTES = 2**18
MAX_STREAM_CHARACTERS = 2**20
MAX_HELD_BYTES = 32 * 2**20
_SMALL_BYTES = 2**16
_DONE = "[DONE]"
_MARK = "\ufeff"
# An "error" field is no part of server-sent events, and how some builds of llama-server told one.
_IGNORED = frozenset({"event", "id", "retry"})
_REASONING = ("reasoning", "reasoning_content")


class StreamError(Exception):
    """Why a stream is no answer, as a failure of this kind."""

    def __init__(self, what: str, kind: FailureKind = FailureKind.BAD_SHAPE) -> None:
        super().__init__(what)
        self.kind = kind


class Room:
    """The memory that the larger streams of one client share."""

    def __init__(self) -> None:
        self.held = 0

    def take(self, size: int) -> None:
        """Hold so many bytes more. Raises StreamError when there is no room."""
        if self.held + size > MAX_HELD_BYTES:
            what = f"long answers of over {MAX_HELD_BYTES // 2**20} MiB at once: lower client.concurrency"
            raise StreamError(what, FailureKind.TOO_LARGE)
        self.held += size


class Stream:
    """Takes the bytes of one stream as they come. Every method raises StreamError for what is no answer."""

    def __init__(self, api: Api, room: Room) -> None:
        self.is_over = False
        self.has_begun = False
        self._is_chat = api is Api.CHAT
        self._room = room
        self._taken = 0
        self._bytes = 0
        self._lines = 0
        self._line = bytearray()
        self._written = {"text": StringIO(), "reasoning": StringIO()}
        self._size = 0
        self._has_text = False
        self._has_tool_calls = False
        self._finish_reason: Any = None
        self._usage: dict[str, Any] | None = None
        self._model: str | None = None
        self._fingerprint: str | None = None
        self._id: Any = None
        self._error: dict[str, Any] | None = None

    def feed(self, piece: bytes) -> None:
        """Take what came next; nothing of what follows the end."""
        self._bytes += len(piece)
        if self._bytes > MAX_STREAM_BYTES:
            raise StreamError(f"a stream of over {MAX_STREAM_BYTES // 2**20} MiB", FailureKind.TOO_LARGE)
        first, *rest = piece.split(b"\n")
        self._extend(first)
        for part in rest:
            self._take_line()
            if self.is_over:
                return
            self._extend(part)
        self._hold()

    def release(self) -> None:
        """Give back the shared memory."""
        self._room.held -= self._taken
        self._taken = 0

    def body(self) -> dict[str, Any]:
        """What an answer in one piece would have been, an error that came instead included."""
        if not self.is_over and self._line:
            self._take_last_line()
        if self._error is not None:
            return self._error
        if self._finish_reason is None:
            told = f"after {self._size} characters" if self.has_begun else "before the first piece"
            raise StreamError(f"the stream ends {told}, without a finish_reason", FailureKind.DISCONNECTED)
        text = self._written["text"].getvalue() if self._has_text else None
        choice: dict[str, Any] = {"finish_reason": self._finish_reason}
        message: dict[str, Any] = choice
        if self._is_chat:
            message = choice["message"] = {"content": text, "tool_calls": self._has_tool_calls}
        else:
            message["text"] = text
        message["reasoning"] = self._written["reasoning"].getvalue() or None
        signed = {"id": self._id, "model": self._model, "system_fingerprint": self._fingerprint}
        return {**signed, "choices": [choice], "usage": self._usage}

    def _take_last_line(self) -> None:
        """What no line feed ended is a line all the same, unless only its beginning came."""
        try:
            self._take_line()
        except StreamError as error:
            if error.kind is not FailureKind.NOT_JSON:
                raise
            raise StreamError("the stream ends within a line", FailureKind.DISCONNECTED) from None

    def _extend(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > MAX_LINE_BYTES:
            raise StreamError(f"a line of over {MAX_LINE_BYTES // 2**10} KiB", FailureKind.TOO_LARGE)

    def _hold(self) -> None:
        """Small streams are free; what a larger one needs it shares with the others."""
        more = len(self._line) + self._size - _SMALL_BYTES - self._taken
        if more > 0:
            self._room.take(more)
            self._taken += more

    def _take_line(self) -> None:
        self._lines += 1
        if self._lines > MAX_STREAM_LINES:
            raise StreamError(f"a stream of over {MAX_STREAM_LINES} lines", FailureKind.TOO_LARGE)
        try:
            line = self._line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError:
            raise StreamError("the stream is not UTF-8", FailureKind.NOT_JSON) from None
        self._line.clear()
        if self._lines == 1:
            line = line.removeprefix(_MARK)
        if not line or line.startswith(":"):
            return
        field, sign, value = line.partition(":")
        if field == "data" and sign:
            self._take_data(value.strip())
        elif field == "error" and sign:
            self._take_error({"error": _parsed(value)})
        elif field not in _IGNORED:
            raise StreamError(f"a line that no stream has: {line}", FailureKind.NOT_JSON)

    def _take_data(self, value: str) -> None:
        if value == _DONE:
            self.is_over = True
            return
        chunk = _parsed(value)
        if not isinstance(chunk, dict):
            raise StreamError("a piece of the stream is not a JSON object")
        if chunk.get("error") is not None or chunk.get("object") == "error":
            self._take_error(chunk)
            return
        self._take_model(chunk.get("model"))
        self._id = self._id or chunk.get("id")
        if isinstance(fingerprint := chunk.get("system_fingerprint"), str):
            self._fingerprint = fingerprint or self._fingerprint
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage
        choices = chunk.get("choices")
        if choices is None or choices == []:
            return
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise StreamError("a piece of the stream has not one choice")
        self._take_choice(choices[0])

    def _take_error(self, error: dict[str, Any]) -> None:
        self._error, self.is_over = error, True

    def _take_model(self, model: object) -> None:
        if not isinstance(model, str):
            return
        if self._model is not None and model != self._model:
            raise StreamError("the pieces of one stream name two models", FailureKind.WRONG_MODEL)
        self._model = model

    def _take_choice(self, choice: dict[str, Any]) -> None:
        if choice.get("index") not in (None, 0):
            raise StreamError("a piece of another answer than the one asked for")
        delta = choice.get("delta", {}) if self._is_chat else choice
        if not isinstance(delta, dict):
            raise StreamError("a piece of the stream has no delta")
        text = _text(delta, "content" if self._is_chat else "text")
        thought = next(filter(None, (_text(delta, name) for name in _REASONING)), None)
        calls = bool(delta.get("tool_calls") or delta.get("function_call"))
        if self._finish_reason is not None and (text or thought or calls):
            raise StreamError("the stream goes on after its finish_reason")
        self._has_text |= text is not None
        self._has_tool_calls |= calls
        self.has_begun |= bool(text or thought or calls)
        self._write("text", text)
        self._write("reasoning", thought)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def _write(self, where: str, piece: str | None) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size > MAX_STREAM_CHARACTERS:
            raise StreamError(f"a text of over {MAX_STREAM_CHARACTERS // 2**20} Mi characters", FailureKind.TOO_LARGE)
        self._written[where].write(piece)


def _text(delta: dict[str, Any], key: str) -> str | None:
    value = delta.get(key)
    if value is None or isinstance(value, str):
        return value
    raise StreamError(f"{key} is not a text")


def _parsed(value: str) -> Any:
    try:
        return decoded(value)
    except (ValueError, RecursionError) as error:
        raise StreamError(f"a piece of the stream is not JSON: {error}", FailureKind.NOT_JSON) from None
