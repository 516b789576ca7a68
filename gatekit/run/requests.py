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
    return tuple(_body(prompt, common) for prompt in prompts)


def _common(protocol: Protocol, model: str) -> dict[str, Any]:
    optional = {
        "temperature": protocol.temperature,
        "top_p": protocol.top_p,
        "top_k": protocol.top_k,
        "seed": protocol.seed,
        "stop": list(protocol.stop) or None,
    }
    sent = {name: value for name, value in optional.items() if value is not None}
    return {"model": model, "max_tokens": protocol.max_tokens, **sent}


def _body(prompt: Prompt, common: dict[str, Any]) -> bytes:
    if prompt.messages is not None:
        messages = [{"role": role, "content": content} for role, content in prompt.messages]
        return json.dumps({**common, "messages": messages}, ensure_ascii=False).encode()
    return json.dumps({**common, "prompt": prompt.text}, ensure_ascii=False).encode()
