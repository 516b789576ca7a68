"""The request bodies of a protocol: made once, before the clock runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, overload

from gatekit.records.answers import Prompt
from gatekit.records.spec import Protocol
from gatekit.run.alike import Alike


def bodies(prompts: Iterable[Prompt], protocol: Protocol, model: str) -> Sequence[bytes]:
    """One JSON body per prompt and repeat, pass by pass. Sampling fields that are None are left to the server.

    Without a seed the repeats of a question share one body, with one its rest: what is held grows with the questions
    alone.
    """
    common = _common(protocol, model)
    if protocol.repeats == 1 or protocol.seed is None:
        return Alike((_body(prompt, common, protocol) for prompt in prompts), times=protocol.repeats)
    passes = [_common(replace(protocol, seed=protocol.seed + repeat), model) for repeat in range(protocol.repeats)]
    return _Seeded(
        heads=tuple(_json(own)[:-1] + b", " for own in passes),
        rests=Alike(_body(prompt, {}, protocol)[1:] for prompt in prompts),
    )


class _Seeded(Sequence[bytes]):
    """Bodies that differ from pass to pass in their head alone, put together when they are asked for."""

    def __init__(self, *, heads: tuple[bytes, ...], rests: Sequence[bytes]) -> None:
        self._heads = heads
        self._rests = rests

    def __len__(self) -> int:
        return len(self._heads) * len(self._rests)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        repeat, question = divmod(range(len(self))[index], len(self._rests))
        return self._heads[repeat] + self._rests[question]


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
        return _json({**common, "prompt": prompt.text})
    messages = [{"role": role, "content": content} for role, content in prompt.messages]
    asked: dict[str, Any] = {**common, "messages": messages}
    if protocol.gen_prefix is not None:
        # The last message is the assistant's and goes on, instead of being closed and answered.
        asked |= {"continue_final_message": True, "add_generation_prompt": False}
    return _json(asked)


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
