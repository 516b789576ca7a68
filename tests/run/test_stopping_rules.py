"""When a run stops, what it says then, and how many requests it has in flight until it may."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gatekit.gate.early_stop import EarlyTest
from gatekit.records.answers import Status
from gatekit.records.spec import EarlyStop
from gatekit.records.verdict import Outcome
from gatekit.run.stopping import EarlyStopping, NeverStopping, Statuses
from gatekit.stats.wor_mixture import WorMixture, wor_counts

N = 1319
NEED = 1230
RIGHT, WRONG, LOST, CUT = Status.CORRECT, Status.WRONG, Status.LOST, Status.TRUNCATED


def settled(statuses: Statuses) -> Outcome | None:
    """A count rule: at least NEED right answers."""
    right = sum(status is RIGHT for status in statuses)
    open_ = sum(status is None for status in statuses)
    if right + open_ < NEED:
        return Outcome.FAIL
    return Outcome.PASS if right >= NEED else None


def early(*, sequential: bool = True, stop_on_pass: bool = False, decides: Outcome | None = None) -> EarlyStopping:
    found = WorMixture(N, *wor_counts(N, 0.95, 0.05), 0.003, 0.1)
    test = EarlyTest(method=EarlyStop.WOR_MIXTURE, test=found) if sequential else None
    return EarlyStopping(
        N,
        settled=settled,
        decides=lambda statuses: decides or (Outcome.FAIL if WRONG in statuses else Outcome.PASS),
        test=test,
        stop_on_pass=stop_on_pass,
    )


def ask(stopping: EarlyStopping, statuses: Sequence[Status]) -> int:
    """How many of the answers were taken before the run stopped."""
    for index, status in enumerate(statuses):
        stopping.dispatched(index)
        stopping.answered(index, status)
        if stopping.verdict() is not None:
            return index + 1
    return len(statuses)


def test_curtailment_stops_when_no_answer_can_change_the_fail() -> None:
    """90 wrong answers of 1319 are too many for 1230: found at the next look, every 32 answers."""
    stopping = early(sequential=False)
    assert ask(stopping, [WRONG] * N) == 96
    reason = stopping.verdict()
    assert reason is not None
    assert (reason.outcome, reason.rule) == (Outcome.FAIL, "curtailed")
    assert "after 96 answers (0 right), 96 of 1319 questions sent" in reason.text


def test_a_look_waits_for_a_few_wrong_answers() -> None:
    """Among many right answers the last few wrong ones are looked at together: the FAIL is a little late."""
    stopping = early(sequential=False)
    wrong_every_tenth = [WRONG if index % 10 == 9 else RIGHT for index in range(N)]
    assert 900 <= ask(stopping, wrong_every_tenth) <= 900 + 8 * 10 + 32


def test_a_passing_run_is_complete_unless_asked_otherwise() -> None:
    """A certain PASS stops a run only with stop_on_pass: a run that stopped cannot become history."""
    assert ask(early(sequential=False), [RIGHT] * N) == N
    assert ask(early(), [RIGHT] * N) == N
    assert ask(early(sequential=False, stop_on_pass=True), [RIGHT] * N) == 1248
    assert ask(early(stop_on_pass=True), [RIGHT] * N) < 60


def test_the_sequential_test_stops_a_dead_model_at_once() -> None:
    """A handful of wrong answers to a model at 0.95 is a FAIL."""
    stopping = early()
    assert ask(stopping, [WRONG] * N) <= 8
    reason = stopping.verdict()
    assert reason is not None
    assert (reason.outcome, reason.rule) == (Outcome.FAIL, "wor_mixture")


@pytest.mark.parametrize("decides", [Outcome.INCONCLUSIVE, Outcome.INFRA])
def test_a_stop_that_the_decision_would_not_follow_is_none(decides: Outcome) -> None:
    """What the sequential test finds is asked of the decision first; curtailment goes on."""
    assert ask(early(decides=decides), [WRONG] * N) == 96


@pytest.mark.parametrize("status", [LOST, CUT])
def test_answers_that_say_nothing_do_not_fail(status: Status) -> None:
    """Lost and cut-off answers are imputed both ways: no sequential verdict comes from them."""
    stopping = EarlyStopping(
        N,
        settled=lambda _: None,
        decides=lambda _: Outcome.FAIL,
        test=EarlyTest(method=EarlyStop.WOR_MIXTURE, test=WorMixture(N, *wor_counts(N, 0.95, 0.05), 0.003, 0.1)),
        stop_on_pass=True,
    )
    assert ask(stopping, [status] * N) == N


def test_a_run_whose_last_answer_decides_is_complete() -> None:
    """When every question is answered nothing was stopped."""
    test = EarlyTest(method=EarlyStop.WOR_MIXTURE, test=WorMixture(4, 4, 1, 0.1, 0.1))
    stopping = EarlyStopping(4, settled=lambda _: None, decides=lambda _: Outcome.FAIL, test=test)
    assert ask(stopping, [CUT, CUT, CUT, WRONG]) == 4
    assert stopping.verdict() is None


def test_only_new_wrong_answers_are_worth_a_look() -> None:
    """Curtailment is not computed for right answers alone, nor after each answer."""
    looks = 0

    def count(statuses: Statuses) -> None:
        nonlocal looks
        looks += 1

    stopping = EarlyStopping(N, settled=count, decides=lambda _: Outcome.FAIL)
    ask(stopping, [RIGHT] * 640)
    assert looks == 0
    ask(stopping, [WRONG] * 160)
    assert looks == 5


@pytest.mark.parametrize(
    ("n", "limit", "first"), [(1319, 64, 32), (1319, 128, 96), (1319, 16, 16), (200, 64, 59), (100_000, 256, 32)]
)
def test_the_first_block_holds_back_little(n: int, limit: int, first: int) -> None:
    """About 32 requests at first, but never so few that more than a fortieth of the questions is held back."""
    stopping = EarlyStopping(n, settled=lambda _: None, decides=lambda _: Outcome.PASS)
    assert stopping.in_flight(limit) == first
    assert limit - first <= max(n // 40, 0)


def test_right_answers_open_the_ramp_and_wrong_ones_do_not() -> None:
    """Eight right answers show life; without them the first block stays until 128 answers came."""
    stopping = EarlyStopping(N, settled=lambda _: None, decides=lambda _: Outcome.PASS)
    ask(stopping, [RIGHT] * 7)
    assert stopping.in_flight(64) == 32
    ask(stopping, [RIGHT])
    assert stopping.in_flight(64) == 64
    dead = EarlyStopping(N, settled=lambda _: None, decides=lambda _: Outcome.PASS)
    ask(dead, [WRONG] * 127)
    assert dead.in_flight(64) == 32
    ask(dead, [WRONG])
    assert dead.in_flight(64) == 64


def test_without_rules_nothing_is_held_back() -> None:
    """A run that nothing can stop starts at full width and asks everything."""
    never = NeverStopping()
    never.dispatched(0)
    never.answered(0, WRONG)
    assert (never.in_flight(64), never.verdict()) == (64, None)
