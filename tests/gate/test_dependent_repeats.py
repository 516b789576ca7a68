"""What repeats that hang together within a run make of a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gatekit.gate.decide import decide
from gatekit.gate.repeats import dependence
from gatekit.gate.settled import settled
from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Method, Spec
from gatekit.records.verdict import Outcome

QUESTIONS, REPEATS = 400, 4
Matrix = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def chances(seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """One a question, 0.9 in the mean."""
    return np.random.default_rng(seed).beta(1.8, 0.2, QUESTIONS)


def drawn(seed: int, chance: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    """A run: all questions once, then all again."""
    return (np.random.default_rng(seed).random((REPEATS, QUESTIONS)) < chance).astype(np.uint8).tobytes()


def cached(seed: int, chance: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    """A run in which every repeat of a question is the first one again."""
    return drawn(seed, chance)[:QUESTIONS] * REPEATS


def past(*runs: bytes) -> Past:
    return Past(
        runs=tuple(
            PastRun(
                run_id=f"r{number}",
                build=f"b{number}",
                hardware="b200",
                finished_at="2026-11-30T03:00:00Z",
                n=len(outcomes),
                correct=sum(outcomes),
                outcomes=outcomes,
            )
            for number, outcomes in enumerate(runs)
        )
    )


def statuses(outcomes: bytes) -> tuple[Status | None, ...]:
    return tuple(Status.CORRECT if right else Status.WRONG for right in outcomes)


@pytest.fixture
def spec(make_spec: Callable[..., Spec]) -> Spec:
    return make_spec(
        protocol={"repeats": REPEATS, "temperature": 0.7},
        gate={"method": Method.AUTO, "floor": None, "alpha": 0.001},
    )


HISTORY = past(*(drawn(number, chances()) for number in range(10, 13)))


def test_independent_repeats_pass(spec: Spec) -> None:
    """A healthy run keeps its verdict, at a z that is no surprise."""
    now = statuses(drawn(20, chances()))
    found = dependence(now, REPEATS, HISTORY.runs)
    assert found is not None
    assert abs(found.z) < 3
    assert decide(spec, now, HISTORY).outcome is Outcome.PASS


def test_a_cache_is_inconclusive(spec: Spec) -> None:
    """One answer that is given four times is not four answers: no verdict, by a reason of its own."""
    verdict = decide(spec, statuses(cached(20, chances())), HISTORY)
    assert (verdict.outcome, verdict.reason_code) == (Outcome.INCONCLUSIVE, "dependent-repeats")


def test_a_cache_in_all_runs_is_found(spec: Spec) -> None:
    """So is one that all builds share."""
    all_cached = past(*(cached(number, chances()) for number in range(10, 13)))
    verdict = decide(spec, statuses(cached(20, chances())), all_cached)
    assert (verdict.outcome, verdict.reason_code) == (Outcome.INCONCLUSIVE, "dependent-repeats")


def test_an_earlier_cache_is_named(spec: Spec) -> None:
    """Behind a cached run of the norm a healthy one is undecided, too: the hint names the run that it may be."""
    earlier = past(cached(10, chances()), drawn(11, chances()), drawn(12, chances()))
    verdict = decide(spec, statuses(drawn(20, chances())), earlier)
    assert verdict.reason_code == "dependent-repeats"
    assert verdict.hint.endswith("it may be that of run r0 instead: gatekit history quarantine r0 --reason ...")
    own = decide(spec, statuses(cached(20, chances())), HISTORY)
    assert "quarantine" not in own.hint
    only = decide(spec, statuses(cached(20, chances())), past(drawn(10, chances())))
    assert "it may be that of run r0" in only.hint


@pytest.mark.parametrize("lost", [0.08, 0.3])
def test_a_regression_that_moves_whole_questions_fails(spec: Spec, lost: float) -> None:
    """Questions that are lost in every repeat look like a cache, but for the direction: the FAIL stands."""
    broken = chances() * (np.random.default_rng(5).random(QUESTIONS) >= lost)
    now = statuses(drawn(20, broken))
    found = dependence(now, REPEATS, HISTORY.runs)
    assert found is not None
    assert found.z > 4
    assert decide(spec, now, HISTORY).outcome is Outcome.FAIL


def test_a_model_that_got_better_passes(spec: Spec) -> None:
    """Questions that became right in every repeat are no reason to distrust a PASS."""
    mended = np.where(chances() < 0.9, 1.0, chances())
    now = statuses(drawn(20, mended))
    found = dependence(now, REPEATS, HISTORY.runs)
    assert found is not None
    assert found.z > 4
    assert decide(spec, now, HISTORY).outcome is Outcome.PASS


def test_nothing_is_said_without_what_it_takes(spec: Spec) -> None:
    """No repeats, no earlier answers, only a total, or another number of answers: there is nothing to say."""
    now = statuses(cached(20, chances()))
    assert dependence(now, REPEATS, ()) is None
    assert dependence(now, 1, HISTORY.runs) is None
    total = replace(HISTORY.runs[0], outcomes=None)
    assert dependence(now, REPEATS, (total,)) is None
    assert dependence(now[:-REPEATS], REPEATS, HISTORY.runs) is None
    assert dependence(now[:-1], REPEATS, HISTORY.runs) is None


def test_questions_without_an_answer_are_left_out(spec: Spec) -> None:
    """A question that brought no answer at all is out; one that lacks some counts with the others."""
    now = list(statuses(drawn(20, chances())))
    now[0::QUESTIONS] = [Status.LOST, None] * (REPEATS // 2)
    now[1] = Status.LOST
    found = dependence(tuple(now), REPEATS, HISTORY.runs)
    assert found is not None
    assert found.questions == QUESTIONS - 1
    assert dependence((None,) * len(now), REPEATS, HISTORY.runs) is None


@pytest.mark.parametrize("missing", [Status.LOST, None])
def test_a_cache_that_loses_an_answer_of_each_question_is_found(spec: Spec, missing: Status | None) -> None:
    """Losses, or an end before the last repeats, do not hide that the others are one answer."""
    twice = 2 * REPEATS
    earlier = past(*(drawn(number, chances()) + drawn(number + 50, chances()) for number in range(10, 13)))
    apart = drawn(20, chances()) + drawn(70, chances())
    for run, is_found in ((apart[:QUESTIONS] * twice, True), (apart, False)):
        found = dependence((*statuses(run)[:-QUESTIONS], *[missing] * QUESTIONS), twice, earlier.runs)
        assert found is not None
        assert (found.z > 4) is is_found


def test_a_cache_settles_nothing(spec: Spec) -> None:
    """A count too low for single answers is no FAIL before the end, where whole questions do not carry it."""
    unlucky = next(run for run in (cached(seed, 0.985 * chances()) for seed in range(99)) if is_low(spec, run))
    stopped = (*statuses(unlucky)[: -QUESTIONS // 2], *[None] * (QUESTIONS // 2))
    verdict = decide(spec, statuses(unlucky), HISTORY)
    assert (verdict.outcome, verdict.reason_code) == (Outcome.INCONCLUSIVE, "dependent-repeats")
    assert settled(spec, stopped, HISTORY) is None
    dead = (*statuses(cached(20, 0.3 * chances()))[:QUESTIONS], *[None] * (REPEATS - 1) * QUESTIONS)
    assert settled(spec, dead[:QUESTIONS] + statuses(bytes(len(dead) - QUESTIONS)), HISTORY) is Outcome.FAIL


def is_low(spec: Spec, run: bytes) -> bool:
    """Whether a run would FAIL with its repeats counted each, although a fourth of its last pass is to come."""
    shuffled = np.random.default_rng(1).permuted(np.frombuffer(run, dtype=np.uint8).reshape(REPEATS, -1), axis=1)
    counted = decide(spec, statuses(shuffled.astype(np.uint8).tobytes()), HISTORY)
    return counted.outcome is Outcome.FAIL


def test_the_interval_is_that_of_the_questions(spec: Spec) -> None:
    """Repeats of one answer give the interval of the questions alone; answers of their own a narrower one."""
    widths = []
    for outcomes in (cached(20, chances()), drawn(20, np.full(QUESTIONS, 0.9)), drawn(20, chances())):
        interval = decide(spec, statuses(outcomes), HISTORY).interval
        assert interval is not None
        widths.append(interval.high - interval.low)
    assert widths[1] < widths[2] < widths[0]
    assert widths[0] == pytest.approx(2 * widths[1], rel=0.15)


def test_missing_answers_widen_both_ends(spec: Spec) -> None:
    """With lost answers the low end counts them wrong and the high end right."""
    whole = statuses(drawn(20, chances()))
    holes = tuple(Status.LOST if place % 50 == 0 else status for place, status in enumerate(whole))
    before, after = (decide(spec, each, HISTORY).interval for each in (whole, holes))
    assert before is not None
    assert after is not None
    assert after.low < before.low
    assert before.high < after.high
