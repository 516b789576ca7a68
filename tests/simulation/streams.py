"""Answers that come back out of order: wrong ones slower than right ones, many in flight."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from gatekit.records.verdict import Outcome
from gatekit.stats.sequential import llr_steps, wald_boundaries
from gatekit.stats.stopping import PrefixTest, PrefixWatch

SIGMA = 0.5  # of the logarithm of a response time


@dataclass(frozen=True, slots=True)
class Ended:
    """What a rule made of a stream (None: nothing), after how many answers and how many questions sent."""

    outcome: Outcome | None
    answered: int
    sent: int


def shuffled(n: int, right: int, rng: Random) -> list[bool]:
    """A set of n questions with `right` right answers, in random order."""
    truth = [True] * right + [False] * (n - right)
    rng.shuffle(truth)
    return truth


def stream(truth: Sequence[bool], in_flight: int, slow: float, rng: Random) -> Iterator[tuple[int, int]]:
    """The questions in order of completion, each with the number sent by then.

    Response times are log-normal; those of wrong answers `slow` times as long.
    """
    flying: list[tuple[float, int]] = []

    def send(now: float, index: int) -> None:
        heapq.heappush(flying, (now + rng.lognormvariate(0, SIGMA) * (1.0 if truth[index] else slow), index))

    sent = min(in_flight, len(truth))
    for index in range(sent):
        send(0.0, index)
    while flying:
        now, index = heapq.heappop(flying)
        yield index, sent
        if sent < len(truth):
            send(now, sent)
            sent += 1


def by_prefixes(test: PrefixTest, truth: Sequence[bool], in_flight: int, slow: float, rng: Random) -> Ended:
    """The product's rule."""
    watch = PrefixWatch(test)
    for answered, (index, sent) in enumerate(stream(truth, in_flight, slow, rng), 1):
        outcome = watch.add(index, right=truth[index])
        if outcome is not None:
            return Ended(outcome, answered, sent)
    return Ended(None, len(truth), len(truth))


def as_completed(truth: Sequence[bool], in_flight: int, slow: float, rng: Random) -> Ended:
    """The naive rule: Wald's test of 0.90 against 0.85 at 1 % on the answers in order of completion."""
    steps, bounds, ratio = llr_steps(0.9, 0.85), wald_boundaries(0.01, 0.01), 0.0
    for answered, (index, sent) in enumerate(stream(truth, in_flight, slow, rng), 1):
        ratio += steps.correct if truth[index] else steps.wrong
        outcome = bounds.outcome(ratio)
        if outcome is not None:
            return Ended(outcome, answered, sent)
    return Ended(None, len(truth), len(truth))
