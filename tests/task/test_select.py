"""Selection of questions and shots."""

from __future__ import annotations

import dataclasses

import pytest

from gatekit.errors import ConfigError
from gatekit.records.answers import Question
from gatekit.records.spec import Api, Protocol, ShotOverlap, ShotSource, Task
from gatekit.task.dataset import QuestionSet
from gatekit.task.select import needs_train, select

TASK = Task(name="t", dataset="gsm8k", files={})
PROTOCOL = Protocol(
    name="p",
    api=Api.COMPLETIONS,
    shots=5,
    shots_source=ShotSource.TRAIN,
    shots_overlap=ShotOverlap.REFUSE,
    shot_template="{question}{answer}",
    question_template="{question}",
    stop=(),
    max_tokens=256,
    extractor="gatekit",
)


def rows(n: int, label: str) -> tuple[Question, ...]:
    return tuple(Question(id=k, text=f"{label} {k}?", reference=f"#### {k}") for k in range(n))


QUESTIONS = QuestionSet(name="gsm8k", test=rows(1319, "test"), train=rows(20, "train"), digests={})


def ids(questions: tuple[Question, ...]) -> list[int]:
    return [question.id for question in questions]


def head(overlap: ShotOverlap) -> Protocol:
    return dataclasses.replace(PROTOCOL, shots_source=ShotSource.TEST_HEAD, shots_overlap=overlap)


def test_the_first_n_in_file_order_twice_the_same() -> None:
    """A subset is the head of the file, and the same on every run."""
    task = dataclasses.replace(TASK, n=200)
    first, second = select(QUESTIONS, task, PROTOCOL), select(QUESTIONS, task, PROTOCOL)
    assert first == second
    assert ids(first.questions) == list(range(200))
    assert [shot.text for shot in first.shots] == [f"train {k}?" for k in range(5)]
    assert first.warnings == ()


def test_an_order_seed_changes_the_order_and_nothing_else() -> None:
    """The seed permutes the same n questions, and is the same permutation each time."""
    task = dataclasses.replace(TASK, n=200, order_seed=3)
    asked = ids(select(QUESTIONS, task, PROTOCOL).questions)
    assert asked != list(range(200))
    assert sorted(asked) == list(range(200))
    assert asked == ids(select(QUESTIONS, task, PROTOCOL).questions)
    assert asked != ids(select(QUESTIONS, dataclasses.replace(task, order_seed=4), PROTOCOL).questions)


@pytest.mark.parametrize("n", [2000, 1320, 0, -5])
def test_more_than_there_is_is_refused(n: int) -> None:
    """n is never capped in silence."""
    with pytest.raises(ConfigError, match="dataset has 1,319") as caught:
        select(QUESTIONS, dataclasses.replace(TASK, n=n), PROTOCOL)
    assert caught.value.reason == "n-out-of-range"


def test_shots_that_would_be_evaluated_are_refused() -> None:
    """Showing test rows 0-4 and scoring them is refused, and the overlap named."""
    with pytest.raises(ConfigError, match=r"5 of the worked examples would also be evaluated \(test rows 0-4\)"):
        select(QUESTIONS, TASK, head(ShotOverlap.REFUSE))


def test_skip_starts_after_the_shots() -> None:
    """Skipping leaves the shots out, so that at most 1,314 questions remain."""
    everything = select(QUESTIONS, TASK, head(ShotOverlap.SKIP))
    assert ids(everything.questions) == list(range(5, 1319))
    assert ids(everything.shots) == list(range(5))
    with pytest.raises(ConfigError, match="1,314"):
        select(QUESTIONS, dataclasses.replace(TASK, n=1315), head(ShotOverlap.SKIP))


def test_leak_is_allowed_and_said() -> None:
    """A knowing leak runs with a warning that names the rows."""
    selection = select(QUESTIONS, dataclasses.replace(TASK, n=200), head(ShotOverlap.LEAK))
    assert ids(selection.questions) == list(range(200))
    assert len(selection.warnings) == 1
    assert "5 of the 200" in selection.warnings[0]
    assert "rows 0-4" in selection.warnings[0]


def test_a_train_row_equal_to_a_test_question_is_an_overlap_too() -> None:
    """What counts is the question shown, not the file it came from."""
    contaminated = dataclasses.replace(QUESTIONS, train=QUESTIONS.test[7:8])
    with pytest.raises(ConfigError, match="test row 7"):
        select(contaminated, TASK, dataclasses.replace(PROTOCOL, shots=1))


def test_too_many_shots_are_refused() -> None:
    """Shots are never fewer than asked for."""
    with pytest.raises(ConfigError, match="has 20 train rows"):
        select(QUESTIONS, TASK, dataclasses.replace(PROTOCOL, shots=21))


def test_train_is_needed_only_for_shots_from_train() -> None:
    """A zero-shot run and one with shots from test need no train file."""
    assert needs_train(PROTOCOL)
    assert not needs_train(dataclasses.replace(PROTOCOL, shots=0))
    assert not needs_train(head(ShotOverlap.SKIP))
