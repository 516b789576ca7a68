"""Whether a protocol is of one piece: what goes with its route, and what requests hold beside what gatekit sets."""

from __future__ import annotations

from collections.abc import Iterator

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Api, MaxTokensField, Protocol, ShotsAs

_ANSWER = "{answer}"
# What stands in every request, and the key that sets it; the rest would change what a response is, or how many.
_SET_BY = {
    "model": "protocol.send_model",
    "prompt": "protocol.question_template",
    "messages": "protocol.question_template",
    "max_tokens": "protocol.max_tokens",
    "max_completion_tokens": "protocol.max_tokens_field",
    "temperature": "protocol.temperature",
    "top_p": "protocol.top_p",
    "top_k": "protocol.top_k",
    "seed": "protocol.seed",
    "stop": "protocol.stop",
    "stream": "protocol.stream",
    "stream_options": "protocol.stream",
    "reasoning_effort": "protocol.reasoning_effort",
    "chat_template_kwargs": "protocol.chat_template_kwargs",
    "continue_final_message": "protocol.gen_prefix",
    "add_generation_prompt": "protocol.gen_prefix",
}
_HIGHEST_SEED = 2**63 - 1
_ONE_ANSWER = frozenset({"n", "best_of", "echo", "suffix"})


def check_protocol(protocol: Protocol) -> None:
    """Raises ConfigError, with all that is wrong, for a protocol that contradicts itself."""
    found = [
        *_chat_only(protocol),
        *_tags(protocol),
        *_overriding(protocol),
        *_unsplit(protocol),
        *_the_same_again(protocol),
    ]
    if found:
        raise ConfigError(tuple(found))


def turns(shot_template: str) -> tuple[str, str]:
    """What a user says and what an assistant answers in a worked example: the template, parted before {answer}.

    White space at the seam and at the end belongs to neither.

    >>> turns("Question: {question}\\nAnswer: {answer}\\n\\n")
    ('Question: {question}\\nAnswer:', '{answer}')
    """
    user, answer, rest = shot_template.partition(_ANSWER)
    return user.rstrip(), (answer + rest).rstrip()


def _chat_only(protocol: Protocol) -> Iterator[Problem]:
    if protocol.api is Api.CHAT:
        return
    said = {
        "shots_as": protocol.shots_as is ShotsAs.TURNS,
        "reasoning_effort": protocol.reasoning_effort is not None,
        "chat_template_kwargs": bool(protocol.chat_template_kwargs),
        "max_tokens_field": protocol.max_tokens_field is not MaxTokensField.MAX_TOKENS,
    }
    for name, is_said in said.items():
        if is_said:
            yield Problem(
                where=f"protocol.{name}",
                what=f"protocol.{name} is for chat alone, and protocol.api is {protocol.api.value}",
                reason="chat-only-key",
                hint="set protocol.api: chat, or leave it out",
            )


def _tags(protocol: Protocol) -> Iterator[Problem]:
    if protocol.think_tags is not None and len(set(protocol.think_tags)) < len(protocol.think_tags):
        yield Problem(
            where="protocol.think_tags",
            what="protocol.think_tags are the same, so that nothing tells where reasoning ends",
            reason="same-think-tags",
            hint='such as ["<think>", "</think>"]',
        )


def _overriding(protocol: Protocol) -> Iterator[Problem]:
    for name in protocol.extra_body or {}:
        if name in _SET_BY:
            what, hint = "is set by gatekit", f"it follows from {_SET_BY[name]}"
        elif name in _ONE_ANSWER:
            what, hint = "would change what an answer is: one a question, and without its prompt", "leave it out"
        else:
            continue
        where = f"protocol.extra_body.{name}"
        yield Problem(where=where, what=f"{where} {what}", reason="extra-body-overrides", hint=hint)


def _unsplit(protocol: Protocol) -> Iterator[Problem]:
    if protocol.shots_as is not ShotsAs.TURNS or protocol.shots == 0:
        return
    user, assistant = turns(protocol.shot_template)
    if not assistant or "{question}" not in user or "{question}" in assistant:
        yield Problem(
            where="protocol.shot_template",
            what="protocol.shot_template has no {answer} after {question}, where the assistant's turn would begin",
            reason="shot-not-in-turns",
            hint='such as "Question: {question}\\nAnswer: {answer}"',
        )


def _the_same_again(protocol: Protocol) -> Iterator[Problem]:
    """Repeats of what is not sampled, or that would need seeds which no request can hold."""
    if protocol.repeats == 1:
        return
    greedy = "temperature is 0" if protocol.temperature == 0 else "top_k is 1" if protocol.top_k == 1 else None
    if greedy is not None:
        yield Problem(
            where="protocol.repeats",
            what=f"protocol.repeats is {protocol.repeats} and protocol.{greedy}: every answer would come again",
            reason="repeats-without-sampling",
            hint="set a temperature above 0 as the model's own card says, or protocol.repeats=1",
        )
    if protocol.seed is not None and protocol.seed + protocol.repeats - 1 > _HIGHEST_SEED:
        yield Problem(
            where="protocol.seed",
            what=f"protocol.seed leaves no room: each of {protocol.repeats} repeats takes the next seed",
            reason="repeats-without-seeds",
            hint=f"set protocol.seed to {_HIGHEST_SEED - protocol.repeats + 1} or less",
        )
