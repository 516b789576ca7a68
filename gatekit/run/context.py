"""Answers and the context that they had to fit into: not every server looks whether they do."""

from __future__ import annotations

from collections.abc import Sequence

from gatekit.records.answers import Completion, Failure, FailureKind, Observation
from gatekit.records.spec import Spec

# The last token that is written need not be read, so that some engines write it beside the context.
_BESIDE = 1


def within_context(completion: Completion, spec: Spec) -> Completion | Failure:
    """The completion, or why it is none: what a model writes past its context, or of half a prompt, is not its answer.

    Nothing is said where the engine's context or the server's count of tokens is unknown.
    """
    context, read, written = spec.engine.max_model_len, completion.prompt_tokens, completion.completion_tokens
    if context is None or read is None or read + (written or 0) <= context + _BESIDE:
        return completion
    what = f"{read} tokens of prompt and {written or 0} of answer, past engine.max_model_len={context}"
    return Failure(kind=FailureKind.TOO_LARGE, detail=what)


def tight_contexts(observations: Sequence[Observation], spec: Spec) -> tuple[str, ...]:
    """A warning where prompts leave less of the context than the longest answer may take; nothing elsewhere."""
    context, longest = spec.engine.max_model_len, spec.protocol.max_tokens
    known = [seen.prompt_tokens for seen in observations if seen.prompt_tokens is not None]
    tight = [] if context is None else [read for read in known if read + longest > context]
    if not tight:
        return ()
    room = f"protocol.max_tokens={longest} and engine.max_model_len={context}"
    return (f"{len(tight)} of {len(known)} prompts (up to {max(tight)} tokens) leave too little room: {room}",)
