"""The bundled question set."""

from __future__ import annotations

import hashlib
import json

import pytest

from gatekit.task.numbers import read_reference
from gatekit.task.synth import synth_questions


@pytest.mark.parametrize(
    ("n", "split", "seed", "sha256"),
    [
        (1319, "test", 0, "ce0922fc7f807844cb1c8eef66f22e151a1132f6de2a26b207f6386a01ab8413"),
        (500, "train", 0, "820c7cc9d28a942f8cde9026464ece667ff2268c0fe59c844555b58040d11c97"),
        (5, "train", 99, "c105e5c9017d71f7e383c905d6ebe7bf52fa85467e8bd5a8dab59ca8468aa984"),
        (1000, "train", 0, "80a637b7e8dc667998550bd0e28eb0680b4d20d8cd322003a50d03bf33a94dd7"),
    ],
)
def test_the_distribution_is_frozen(n: int, split: str, seed: int, sha256: str) -> None:
    """The same seed gives the same questions and answers, bit for bit, for ever."""
    rows = [[question.text, question.reference] for question in synth_questions(n, split, seed)]
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest() == sha256


def test_test_and_train_share_no_question() -> None:
    """A worked example can never be a test question, whatever the seed."""
    test = {question.text for question in synth_questions(1319, "test")}
    assert len(test) == 1319
    for seed in (0, 99):
        assert not test & {question.text for question in synth_questions(500, "train", seed)}


def test_every_answer_follows_from_its_steps() -> None:
    """The number after #### is the result of the last step."""
    for question in synth_questions(1319, "test"):
        steps, _, answer = question.reference.partition("\n#### ")
        assert steps.endswith(f"= {answer}.")
        assert read_reference(question.reference) == int(answer)
