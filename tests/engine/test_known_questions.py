"""Finding the question that a prompt asks."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gatekit.engine.questions import index
from gatekit.records.answers import Question


def load(path: Path) -> list[Question]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Question(id=i, text=row["question"], reference=row["answer"]) for i, row in enumerate(rows)]


@pytest.mark.parametrize(
    "template",
    [
        "Question: {}\nAnswer:",
        "{}",
        "Q: {} A:",
        "Solve this:\n\n{}\n\nThink. End with '#### number'.",
        "{}\r\n",
    ],
)
def test_the_last_question_of_a_prompt(gsm8k_dir: Path, template: str) -> None:
    """After worked examples of known questions the last question is found, whatever the template."""
    known = load(gsm8k_dir / "test.jsonl")
    table = index(known)
    shots = "\n\n".join(f"Question: {q.text}\nAnswer: {q.reference}" for q in known[:5])
    for question in known[5:200]:
        assert table.asked_in(f"{shots}\n\n{template.format(question.text)}") == question


def test_looking_up_is_fast(gsm8k_dir: Path) -> None:
    """Among 1319 questions a lookup in a five-shot prompt takes less than a millisecond."""
    known = load(gsm8k_dir / "test.jsonl")
    table = index(known)
    shots = "\n\n".join(f"Question: {q.text}\nAnswer: {q.reference}" for q in known[:5])
    prompts = [f"{shots}\n\nQuestion: {q.text}\nAnswer:" for q in known]
    started = time.process_time()
    assert [table.asked_in(prompt) for prompt in prompts] == known
    assert time.process_time() - started < 1.319


def test_a_question_inside_another() -> None:
    """Of two known questions that end at the same place the longer one is asked."""
    inner, outer = "How many are left?", "Bo has 3 kites. How many are left?"
    table = index([Question(id=0, text=inner, reference=""), Question(id=1, text=outer, reference="")])
    asked = [table.asked_in(text) for text in (f"Q: {outer} A:", f"Q: {inner} A:", "Q: How many?", "")]
    assert [question and question.id for question in asked] == [1, 0, None, None]


def test_a_question_without_text() -> None:
    """An empty question, which every prompt would contain, is refused; no questions at all are fine."""
    with pytest.raises(ValueError, match="question 4 has no text"):
        index([Question(id=4, text=" \n", reference="1")])
    assert index([]).asked_in("anything") is None
