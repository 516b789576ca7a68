"""The request bodies of a protocol: made once, before the clock runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gatekit.records.answers import Prompt
from gatekit.records.spec import Protocol


def bodies(prompts: Iterable[Prompt], protocol: Protocol, model: str) -> tuple[bytes, ...]:
    """One JSON body per prompt. Sampling fields that are None are left to the server."""
    common = _common(protocol, model)
    return tuple(_body(prompt, common, protocol) for prompt in prompts)


def _common(protocol: Protocol, model: str) -> dict[str, Any]:
    """What stands in every request; where a key of `extra_body` is one that gatekit sets, gatekit's is sent."""
    optional = {
        "model": model if protocol.send_model else None,
        "temperature": protocol.temperature,
        "top_p": protocol.top_p,
        "top_k": protocol.top_k,
        "seed": protocol.seed,
        "stop": list(protocol.stop) or None,
        "reasoning_effort": protocol.reasoning_effort,
        "chat_template_kwargs": dict(protocol.chat_template_kwargs or {}) or None,
        "stream": protocol.stream or None,
        "stream_options": {"include_usage": True} if protocol.stream else None,
    }
    sent = {name: value for name, value in optional.items() if value is not None}
    return {**(protocol.extra_body or {}), protocol.max_tokens_field.value: protocol.max_tokens, **sent}


def _body(prompt: Prompt, common: dict[str, Any], protocol: Protocol) -> bytes:
    if prompt.messages is None:
        return json.dumps({**common, "prompt": prompt.text}, ensure_ascii=False).encode()
    messages = [{"role": role, "content": content} for role, content in prompt.messages]
    asked: dict[str, Any] = {**common, "messages": messages}
    if protocol.gen_prefix is not None:
        # The last message is the assistant's and goes on, instead of being closed and answered.
        asked |= {"continue_final_message": True, "add_generation_prompt": False}
    return json.dumps(asked, ensure_ascii=False).encode()
