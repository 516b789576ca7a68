"""Prompts: worked examples and the question, put into a protocol's templates."""

from __future__ import annotations

import re

from gatekit.errors import ConfigError
from gatekit.records.answers import Prompt, Question
from gatekit.records.spec import Api, Protocol
from gatekit.task.select import Selection

_PLACEHOLDER = re.compile(r"\{(question|answer)\}")


def build_prompts(selection: Selection, protocol: Protocol) -> tuple[Prompt, ...]:
    """One prompt a question, in asking order: the shots, then the question.

    A chat holds the same text in one user message, after the system prompt if there is one. Raises
    ConfigError for a question template that would not show the question, or would show its answer.
    """
    check_template(protocol.question_template)
    shots = "".join(_fill(protocol.shot_template, shot) for shot in selection.shots)
    return tuple(
        _prompt(shots + _fill(protocol.question_template, question), question, protocol)
        for question in selection.questions
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


def _prompt(text: str, question: Question, protocol: Protocol) -> Prompt:
    if protocol.api is Api.COMPLETIONS:
        return Prompt(question_id=question.id, text=text)
    system = () if protocol.system_prompt is None else (("system", protocol.system_prompt),)
    return Prompt(question_id=question.id, messages=(*system, ("user", text)))
