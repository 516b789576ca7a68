"""Prompts: worked examples and the question, put into a protocol's templates, and the words the answer begins with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatekit.errors import ConfigError
from gatekit.records.answers import Prompt, Question
from gatekit.records.spec import Api, Protocol, ShotsAs
from gatekit.task.protocol_fits import check_protocol, turns
from gatekit.task.select import Selection

_PLACEHOLDER = re.compile(r"\{(question|answer)\}")


def build_prompts(selection: Selection, protocol: Protocol) -> Iterator[Prompt]:
    """One prompt a question, in asking order: the shots, then the question, then what the answer begins with.

    Checked at once and made one by one: all of them are large.

    A chat holds the same text in one user message, after the system prompt if there is one; or each shot as the turns
    of a user and an assistant. Raises ConfigError for a question template that would not show the question, or would
    show its answer, and for a protocol that contradicts itself.
    """
    check_template(protocol.question_template)
    check_protocol(protocol)
    examples = _turns(selection, protocol)
    shots = "" if examples else "".join(_fill(protocol.shot_template, shot) for shot in selection.shots)
    return (
        prompt_of(shots + _fill(protocol.question_template, question), protocol, question.id, examples)
        for question in selection.questions
    )


def prompt_of(text: str, protocol: Protocol, question_id: int, examples: tuple[tuple[str, str], ...] = ()) -> Prompt:
    """The prompt that shows this text on the protocol's route, a chat's after the `examples` that are turns."""
    if protocol.api is Api.COMPLETIONS:
        return Prompt(question_id=question_id, text=text + (protocol.gen_prefix or ""))
    system = () if protocol.system_prompt is None else (("system", protocol.system_prompt),)
    begun = () if protocol.gen_prefix is None else (("assistant", protocol.gen_prefix),)
    return Prompt(question_id=question_id, messages=(*system, *examples, ("user", text), *begun))


def _turns(selection: Selection, protocol: Protocol) -> tuple[tuple[str, str], ...]:
    """The shots as messages; none where they are text."""
    if protocol.shots_as is not ShotsAs.TURNS:
        return ()
    user, assistant = turns(protocol.shot_template)
    return tuple(
        message
        for shot in selection.shots
        for message in (("user", _fill(user, shot)), ("assistant", _fill(assistant, shot)))
    )


def check_template(template: str) -> None:
    """Raises ConfigError for a question template without the question, or with its answer."""
    if "{question}" not in template:
        raise ConfigError.one(
            "protocol.question_template does not contain {question}, so every prompt would be the same",
            reason="template-without-question",
            hint="add {question} to protocol.question_template",
        )
    if "{answer}" in template:
        raise ConfigError.one(
            "protocol.question_template contains {answer}, which would show the model the reference answer",
            reason="template-shows-answer",
            hint="use {answer} only in protocol.shot_template",
        )


def _fill(template: str, question: Question) -> str:
    """The template with its placeholders replaced in one pass: what is put in is never looked at again."""
    values = {"question": question.text, "answer": question.reference}
    return _PLACEHOLDER.sub(lambda placeholder: values[placeholder[1]], template)
