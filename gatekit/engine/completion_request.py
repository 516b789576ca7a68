"""What a request body asks for, and what is wrong with it, in the words of vLLM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus

from gatekit.engine.generation import Limits
from gatekit.records.canonical import Plain
from gatekit.records.spec import Api

_DEFAULT_MAX_TOKENS = 16  # of the completions route, in vLLM as in OpenAI's API; the chat route has none
_LONGEST_ECHO = 200


class RequestError(Exception):
    """A request that is refused: HTTP status, message, type, and the parameter at fault."""

    def __init__(self, status: HTTPStatus, message: str, *, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": int(status)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """The prompt as one text (of a chat: all messages, one after the other), the limits of the answer, and its form.

    `seed` is that of its sampling, None where it has none.
    """

    prompt: str
    limits: Limits
    streams: bool = False
    seed: int | None = None


def parse(content: bytes, *, api: Api, served_model: str) -> CompletionRequest:
    """The request behind a body. Raises RequestError: 404 for another model, 400 for anything malformed."""
    body = _document(content)
    model = body.get("model")
    if model is not None and model != served_model:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            f"The model `{str(model)[:_LONGEST_ECHO]}` does not exist. Valid aliases: {served_model}.",
            kind="NotFoundError",
            param="model",
        )
    if body.get("n") not in (None, 1):
        raise _invalid("n", "n must be 1 here")
    streams = body.get("stream") or False
    if not isinstance(streams, bool):
        raise _mistyped("stream", "Input should be a valid boolean")
    prompt = _chat_prompt(body) if api is Api.CHAT else _text_prompt(body)
    limits = Limits(stop=_stop(body), max_tokens=_max_tokens(body, api))
    return CompletionRequest(prompt=prompt, limits=limits, streams=streams, seed=_seed(body))


def _document(content: bytes) -> dict[str, Plain]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise RequestError(
            HTTPStatus.BAD_REQUEST,
            "1 validation error:\n  JSON decode error",
            kind="Bad Request",
            param="body",
        ) from None
    if not isinstance(body, dict):
        raise _mistyped("", "Input should be a valid dictionary")
    return body


def _text_prompt(body: dict[str, Plain]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if prompt in (None, "", []):
        raise _invalid("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
    if not isinstance(prompt, str):
        raise _mistyped("prompt", "Input should be one valid string")
    return prompt


def _chat_prompt(body: dict[str, Plain]) -> str:
    if "messages" not in body:
        raise _mistyped("messages", "Field required")
    messages = body["messages"]
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _mistyped("messages", "Input should be a valid list")
    if not messages:
        raise RequestError(
            HTTPStatus.BAD_REQUEST,
            "Cannot apply chat template to an empty conversation. Provide at least one message.",
            kind="BadRequestError",
        )
    return "\n".join(_content(message.get("content")) for message in messages)


def _content(content: Plain) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    known = [text for text in texts if isinstance(text, str)]
    if len(known) < len(texts):
        raise _mistyped("messages", "Content should be a valid string or a list of text parts")
    return "".join(known)


def _stop(body: dict[str, Plain]) -> tuple[str, ...]:
    stop = body.get("stop")
    words = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _mistyped("stop", "Input should be a valid string or list of strings")
    return tuple(words)


def _max_tokens(body: dict[str, Plain], api: Api) -> int | None:
    given = body.get("max_completion_tokens") if api is Api.CHAT else None
    given = body.get("max_tokens") if given is None else given
    if given is None:
        return None if api is Api.CHAT else _DEFAULT_MAX_TOKENS
    if not isinstance(given, int) or isinstance(given, bool):
        raise _mistyped("max_tokens", "Input should be a valid integer")
    if given < 1:
        raise _invalid("max_tokens", f"max_tokens must be at least 1, got {str(given)[:_LONGEST_ECHO]}.")
    return given


def _seed(body: dict[str, Plain]) -> int | None:
    seed = body.get("seed")
    if seed is None or (isinstance(seed, int) and not isinstance(seed, bool)):
        return seed
    raise _mistyped("seed", "Input should be a valid integer")


def _invalid(param: str, message: str) -> RequestError:
    message = f"{message} (parameter={param})"
    return RequestError(HTTPStatus.BAD_REQUEST, message, kind="BadRequestError", param=param)


def _mistyped(field: str, message: str) -> RequestError:
    place = f"body.{field}".rstrip(".")
    message = f"1 validation error:\n  {place}: {message}"
    return RequestError(HTTPStatus.BAD_REQUEST, message, kind="Bad Request", param=place)
