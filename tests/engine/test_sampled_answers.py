"""The bundled server asked several times: its chances, and which repeat a request is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.engine.answer_config import AnswerConfig
from gatekit.engine.answerer import Sampling
from gatekit.engine.generation import Limits
from gatekit.engine.repeats import Repeats
from gatekit.engine.sim import chances
from gatekit.records.answers import Question
from gatekit.records.spec import EngineKind
from gatekit.stats.chances import beta_chances
from gatekit.task.score import EXTRACTORS

TEXTS = [f"How many are {i} and {i + 1}?" for i in range(400)]
QUESTIONS = [Question(id=i, text=text, reference=f"It is this.\n#### {2 * i + 1}") for i, text in enumerate(TEXTS)]


def sampling(**more: object) -> Sampling:
    config = {"accuracy": 0.9, "dispersion": 0.3, "seed": 1, "flip_seed": 2, "repeats": 4} | more
    return Sampling(
        AnswerConfig(kind=EngineKind.SIM, served_model="m", build="b", questions="", **config),  # type: ignore[arg-type]
        QUESTIONS,
    )


def right(model: Sampling, repeat: int, extractor: str = "gatekit") -> Sequence[bool]:
    read = EXTRACTORS[extractor]
    return [
        read.score(model.answer(question, Limits(), repeat).completion, question).status.value == "correct"
        for question in QUESTIONS
    ]


@pytest.mark.parametrize(("accuracy", "dispersion"), [(0.9, 0.2), (0.8, 0.5), (0.95, 0.05), (0.6, 0.99)])
def test_chances_have_the_stated_mean_and_scatter(accuracy: float, dispersion: float) -> None:
    """Mean and sum of p (1 - p) are as stated to within one question, and chances are not all alike."""
    found = beta_chances(1319, accuracy, dispersion)
    assert abs(sum(found) - 1319 * accuracy) < 1
    assert abs(sum(p * (1 - p) for p in found) - dispersion * 1319 * accuracy * (1 - accuracy)) < 1
    assert len(set(found)) > 100


@given(st.tuples(st.floats(0, 1), st.floats(0, 1)), st.floats(0, 1))
def test_a_worse_model_has_no_better_chance(accuracies: tuple[float, float], dispersion: float) -> None:
    """Lowering the accuracy alone raises no question's chance."""
    low, high = (beta_chances(60, accuracy, dispersion) for accuracy in sorted(accuracies))
    assert all(worse <= better + 1e-5 for worse, better in zip(low, high, strict=True))


def test_repeats_are_draws_of_each_question() -> None:
    """Over repeats each question is right about as often as its chance says, and no two passes are the same."""
    model, passes = sampling(), 60
    drawn = [right(model, repeat) for repeat in range(passes)]
    chance = chances(TEXTS, accuracy=0.9, dispersion=0.3, seed=1)
    z = [
        (sum(column) - passes * p) / max((passes * p * (1 - p)) ** 0.5, 0.1)
        for column, p in zip(zip(*drawn, strict=True), (chance[text] for text in TEXTS), strict=True)
        if 0.05 < p < 0.95
    ]
    assert len(z) > 50
    assert abs(statistics.fmean(z)) < 0.5
    assert 0.7 < statistics.stdev(z) < 1.3
    assert len(set(map(tuple, drawn))) == passes
    assert right(sampling(), 0) == drawn[0]
    assert right(sampling(first_seed=1), 0) == drawn[1]  # the request's own seed decides


@pytest.mark.parametrize("extractor", sorted(EXTRACTORS))
def test_sampled_words_change_no_number(extractor: str) -> None:
    """Whichever extractor reads them, sampled answers are right as often as they are meant to be."""
    assert right(sampling(), 0, extractor) == right(sampling(), 0)


def test_sampled_answers_are_seldom_one_text() -> None:
    """The same content is worded anew each time."""
    model, question = sampling(), QUESTIONS[0]
    assert len({model.answer(question, Limits(), repeat).completion.text for repeat in range(40)}) == 40


def test_a_seed_names_its_repeat() -> None:
    """In any order, and again after a failure."""
    repeats = Repeats(first_seed=10)
    for seed in (12, 10, 12, 9):
        with repeats.asked(7, seed) as number:
            assert number == seed - 10


def test_without_seeds_the_lowest_free_repeat_is_next() -> None:
    """Each question counts for itself; what was answered before the start is taken."""
    repeats = Repeats(first_seed=None, answered=((7, 0), (7, 2)))
    found = []
    for _ in range(3):
        with repeats.asked(7, None) as number:
            found.append(number)
    with repeats.asked(8, None) as number:
        found.append(number)
    assert found == [1, 3, 4, 0]


def test_a_request_that_fails_gives_its_repeat_back() -> None:
    """Two at once have two numbers; the one that brought no answer is asked for again."""
    repeats = Repeats(first_seed=None)
    with repeats.asked(7, None) as first, suppress(KeyError), repeats.asked(7, None) as second:
        assert (first, second) == (0, 1)
        raise KeyError
    with repeats.asked(7, None) as again:
        assert again == 1
