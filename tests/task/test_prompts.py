"""Prompts."""

from __future__ import annotations

import dataclasses

import pytest

from gatekit.errors import ConfigError
from gatekit.records.answers import Question
from gatekit.records.spec import Api, Protocol, ShotOverlap, ShotSource
from gatekit.task.prompts import build_prompts
from gatekit.task.select import Selection

PROTOCOL = Protocol(
    name="p",
    api=Api.COMPLETIONS,
    shots=1,
    shots_source=ShotSource.TRAIN,
    shots_overlap=ShotOverlap.REFUSE,
    shot_template="Question: {question}\nAnswer: {answer}\n\n",
    question_template="Question: {question}\nAnswer:",
    stop=("Question",),
    max_tokens=256,
    extractor="gatekit",
)
SHOT = Question(id=0, text="1 + 1?", reference="It is 2.\n#### 2")
HOSTILE = Question(id=7, text="{answer} {question} {0.__class__} %s {", reference="#### 1")


def test_completion_prompt_is_shots_then_question() -> None:
    """The text is vLLM's: each shot with its answer as written, then the question, open-ended."""
    (prompt,) = build_prompts(Selection(questions=(HOSTILE,), shots=(SHOT,)), PROTOCOL)
    assert prompt.text == (
        "Question: 1 + 1?\nAnswer: It is 2.\n#### 2\n\nQuestion: {answer} {question} {0.__class__} %s {\nAnswer:"
    )
    assert (prompt.question_id, prompt.messages) == (7, None)


def test_placeholders_inside_shots_stay_as_they_are() -> None:
    """What is put into a template is never looked at again, nor is anything else in braces."""
    protocol = dataclasses.replace(PROTOCOL, shot_template="{x}{{{answer}|{question}} ")
    (prompt,) = build_prompts(Selection(questions=(SHOT,), shots=(HOSTILE,)), protocol)
    assert prompt.text == "{x}{{#### 1|" + HOSTILE.text + "} Question: 1 + 1?\nAnswer:"


def test_chat_is_one_user_message_after_the_system_prompt() -> None:
    """A chat holds the same text as the completion, in one user message."""
    selection = Selection(questions=(SHOT,), shots=(SHOT,))
    (completion,) = build_prompts(selection, PROTOCOL)
    (chat,) = build_prompts(selection, dataclasses.replace(PROTOCOL, api=Api.CHAT))
    assert chat.messages == (("user", completion.text),)
    (with_system,) = build_prompts(selection, dataclasses.replace(PROTOCOL, api=Api.CHAT, system_prompt="Be brief."))
    assert with_system.messages == (("system", "Be brief."), ("user", completion.text))


@pytest.mark.parametrize(
    ("template", "reason"),
    [("Answer:", "template-without-question"), ("{question} {answer}", "template-shows-answer")],
)
def test_useless_question_templates_are_refused(template: str, reason: str) -> None:
    """A prompt without its question, or with its answer, is the user's mistake."""
    with pytest.raises(ConfigError) as caught:
        build_prompts(Selection(questions=(SHOT,), shots=()), dataclasses.replace(PROTOCOL, question_template=template))
    assert caught.value.reason == reason
