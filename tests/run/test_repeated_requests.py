"""Bodies and journals of questions that are asked several times."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.errors import ConfigError
from gatekit.records.answers import Observation, Question, Status, cells, statuses
from gatekit.records.spec import Api
from gatekit.run.journal_lines import BrokenLineError, Reading, ServerSeen, line_of
from gatekit.run.repeated_texts import same_every_time
from gatekit.run.requests import bodies
from gatekit.task.prompts import build_prompts
from gatekit.task.protocol_fits import check_protocol
from gatekit.task.select import Selection
from spec_builders import BASE

ASKED = tuple(Question(id=number, text=f"{number} + 1?", reference=f"#### {number + 1}") for number in (7, 3, 11))
SAMPLED = replace(BASE.protocol, api=Api.COMPLETIONS, shots=0, temperature=0.7)


def bodies_of(**changes: Any) -> Any:
    protocol = replace(SAMPLED, **changes)
    return bodies(build_prompts(Selection(questions=ASKED, shots=()), protocol), protocol, "m")


# Bodies


def test_repeats_without_a_seed_are_one_body() -> None:
    """A body is the same every time, pass by pass."""
    found = bodies_of(repeats=64)
    assert len(found) == 3 * 64
    assert list(found) == list(bodies_of()) * 64


@pytest.mark.parametrize("seed", [None, 42])
def test_repeats_take_no_memory(seed: int | None) -> None:
    """What is held grows with the questions alone: 192 bodies of 200,000 characters are far less than 38 MB."""
    tracemalloc.start()
    try:
        found = bodies_of(repeats=64, seed=seed, question_template="x" * 200_000 + "{question}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(map(len, found)) > 38_000_000
    assert held < 2_000_000


@given(seed=st.integers(-(2**63), 2**63 - 9), repeats=st.integers(2, 8), api=st.sampled_from(Api))
def test_a_repeat_is_the_body_of_its_seed(seed: int, repeats: int, api: Api) -> None:
    """Byte for byte: repeat r asks what a protocol of seed + r asks that repeats nothing."""
    prefix = {"api": api, "gen_prefix": "First," if api is Api.CHAT else None}
    found = bodies_of(seed=seed, repeats=repeats, **prefix)
    apart = [body for repeat in range(repeats) for body in bodies_of(seed=seed + repeat, **prefix)]
    assert list(found) == apart
    assert (found[-1], found[1:4], len(found)) == (apart[-1], tuple(apart[1:4]), len(apart))
    with pytest.raises(IndexError):
        found[len(apart)]


def test_a_protocol_that_repeats_what_is_not_sampled() -> None:
    """Both ways of asking greedily are named, and a sampled protocol is let alone."""
    for greedy in ({"temperature": 0.0}, {"top_k": 1}):
        with pytest.raises(ConfigError, match="every answer would come again"):
            check_protocol(replace(SAMPLED, repeats=2, **greedy))
        check_protocol(replace(SAMPLED, **greedy))
    for sampled in ({}, {"temperature": None}, {"top_k": 20}, {"top_k": -1}):
        check_protocol(replace(SAMPLED, repeats=2, **sampled))


# Journals


def seen(question_id: int, repeat: int, status: Status = Status.WRONG, **more: Any) -> Observation:
    return Observation(question_id=question_id, repeat=repeat, status=status, attempts=1, **more)


def test_a_journal_line_names_its_repeat() -> None:
    """From the second answer on; the first is written as ever."""
    assert b'"repeat":2' in line_of("answer", seen(7, 2))
    assert b"repeat" not in line_of("answer", seen(7, 0))


def test_a_second_answer_to_one_repeat_is_broken() -> None:
    """The same question may be answered again, the same repeat of it may not."""
    reading = Reading(None, 0)  # type: ignore[arg-type]  # no header is looked at
    reading.add(line_of("server", ServerSeen()))
    for repeat in range(3):
        reading.add(line_of("answer", seen(7, repeat)))
    with pytest.raises(BrokenLineError, match=r"question 7 \(repeat 2\) a second time"):
        reading.add(line_of("answer", seen(7, 2)))
    with pytest.raises(BrokenLineError, match="question 7 a second time"):
        reading.add(line_of("answer", seen(7, 0)))


# Records


@given(st.lists(st.integers(0, 5), max_size=12))
def test_an_id_that_is_named_again_is_the_next_repeat(ids: list[int]) -> None:
    """Every planned answer has a name of its own, counted from 0 for each question."""
    found = list(cells(ids))
    assert len(set(found)) == len(ids)
    assert [number for number, _ in found] == ids
    last = {number: max(repeat for one, repeat in found if one == number) for number in ids}
    assert Counter(ids) == {number: repeat + 1 for number, repeat in last.items()}


def test_statuses_are_those_of_their_repeat() -> None:
    """Also where answers came in another order, and some did not come."""
    observations = [seen(3, 1), seen(7, 0, Status.CORRECT), seen(7, 1)]
    assert statuses(observations, (7, 3, 7, 3)) == (Status.CORRECT, None, Status.WRONG, Status.WRONG)


# Texts


@pytest.mark.parametrize(
    ("same", "other", "length", "is_told"),
    [(10, 10, 201, True), (9, 10, 201, False), (10, 0, 200, False), (20, 0, 5000, True), (0, 10, 201, False)],
)
def test_half_of_the_questions_the_same_is_told(same: int, other: int, length: int, is_told: bool) -> None:
    """At least half, and longer than 200 characters at the median."""
    texts = [("x" * length,) * 3] * same + [("x" * length, "y" * length, "x" * length)] * other
    found = [seen(number, repeat, text=text) for number, each in enumerate(texts) for repeat, text in enumerate(each)]
    assert bool(list(same_every_time(found))) is is_told
    assert not list(same_every_time([one for one in found if one.repeat == 0]))
