"""The completion in a response body, or why there is none in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gatekit.records.answers import Completion, FailureKind
from gatekit.records.spec import Api

MAX_TEXT_BYTES = 1024 * 1024
_MOST_TOKENS = 2**31 - 1

# How an answer ends by the model's own doing; anything else is the server's.
_STOPPED = frozenset({"stop", "eos", "eos_token", "stop_sequence", "end_turn"})
_FINISHED = _STOPPED | {"length", "tool_calls", "function_call"}
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class BadShapeError(Exception):
    """A response body that is JSON and yet no completion, as a failure of this kind."""

    def __init__(self, what: str, kind: FailureKind = FailureKind.BAD_SHAPE) -> None:
        super().__init__(what)
        self.kind = kind


def parse_completion(api: Api, data: Mapping[str, Any]) -> Completion:
    """The completion in an OpenAI-style response body. Raises BadShapeError when it is none."""
    if is_error(data):
        raise BadShapeError(f"an error with status 200: {_told(data)}")
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BadShapeError("no choices in the response")
    if len(choices) != 1 or choices[0].get("index") not in (None, 0):
        raise BadShapeError("not one choice, the first, as was asked for")
    choice = choices[0]
    message = choice.get("message") if api is Api.CHAT else choice
    if not isinstance(message, dict):
        raise BadShapeError("no message in the response")
    raw_usage = data.get("usage")
    usage = raw_usage if isinstance(raw_usage, dict) else {}
    completion = Completion(
        text=_text(message, "content" if api is Api.CHAT else "text"),
        reasoning=_text(message, "reasoning") or _text(message, "reasoning_content"),
        finish_reason=_text(choice, "finish_reason"),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        has_tool_calls=bool(message.get("tool_calls") or message.get("function_call")),
    )
    _refuse_unfinished(completion)
    _refuse_swallowed_text(completion)
    return completion


def is_error(data: Mapping[str, Any]) -> bool:
    """Whether a body is an error, in either shape of real servers: wrapped, or flat as SGLang's."""
    return data.get("error") is not None or data.get("object") == "error"


def _told(data: Mapping[str, Any]) -> str:
    """What an error body says, in either shape of real servers; values of any other type are not spelled out."""
    error = data.get("error")
    said = error.get("message") if isinstance(error, dict) else error or data.get("message")
    return said if isinstance(said, str) else "without a message"


def _refuse_unfinished(completion: Completion) -> None:
    """An answer that the server broke off is none of the model's."""
    reason = completion.finish_reason
    if reason is not None and reason not in _FINISHED:
        raise BadShapeError(f"finish_reason {reason}", FailureKind.ABORTED)


def _refuse_swallowed_text(completion: Completion) -> None:
    """No text of any kind, and no plain word that none was made: the server lost the answer.

    A null text is an empty answer only when the server says that it stopped without making a token; an empty
    text also when it made one (the end of the answer) or does not say. At the limit either is a truncated answer.
    """
    if completion.text or completion.reasoning or completion.has_tool_calls or completion.finish_reason == "length":
        return
    made, reason = completion.completion_tokens, completion.finish_reason
    is_empty = made == 0 if completion.text is None else made is None or made <= 1
    if not is_empty or reason not in _STOPPED:
        told = "unknown" if made is None else made
        raise BadShapeError(f"no text in the response ({told} tokens, finish_reason {reason})")


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadShapeError(f"{key} is not a text")
    is_ascii = value.isascii()
    text = value if is_ascii else _LONE_SURROGATE.sub("\ufffd", value)
    if (len(text) if is_ascii else len(text.encode())) > MAX_TEXT_BYTES:
        raise BadShapeError(f"{key} over {MAX_TEXT_BYTES // 2**20} MiB", FailureKind.TOO_LARGE)
    return text


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if isinstance(value, int) and is_count else None
