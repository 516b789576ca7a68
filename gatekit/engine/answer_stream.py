"""A response body as the stream that vLLM would make of it: server-sent events, the counts last, then `[DONE]`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gatekit.records.canonical import Plain

CONTENT_TYPE = "text/event-stream"
_PIECES = 8


def stream_of(body: Plain) -> str:
    """All events of the answer in `body`, a completion or a chat completion."""
    (choice,) = body["choices"]
    shared = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    is_chat = "message" in choice
    if is_chat:
        shared["object"] = "chat.completion.chunk"
    ended = {"index": 0, "finish_reason": choice["finish_reason"], "stop_reason": choice["stop_reason"]}
    deltas = list(_chat_deltas(choice["message"]) if is_chat else _pieces("text", choice["text"]))
    chunks = [{**shared, "choices": [_choice(delta, is_chat)]} for delta in deltas]
    last = {} if is_chat else {"text": ""}
    chunks.append({**shared, "choices": [{**_choice(last, is_chat), **ended}]})
    chunks.append({**shared, "choices": [], "usage": body["usage"]})
    return "".join(f"data: {text}\n\n" for text in (*map(json.dumps, chunks), "[DONE]"))


def _choice(delta: Plain, is_chat: bool) -> Plain:
    return {"index": 0, "finish_reason": None, **({"delta": delta} if is_chat else delta)}


def _chat_deltas(message: Plain) -> Iterator[Plain]:
    yield {"role": message["role"]}
    yield from _pieces("reasoning", message["reasoning"])
    yield from _pieces("content", message["content"])
    if "tool_calls" in message:
        yield {"tool_calls": [{"index": number, **call} for number, call in enumerate(message["tool_calls"])]}


def _pieces(key: str, text: str | None) -> Iterator[Plain]:
    """The text in a few pieces; an empty one is said, one that is not there is not."""
    if text is None:
        return
    size = max(-(-len(text) // _PIECES), 1)
    yield from ({key: text[start : start + size]} for start in range(0, max(len(text), 1), size))
