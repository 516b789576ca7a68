"""Repeats of a fixed set of questions: the rules keep their word on questions x repeats answers, and notice more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gatekit.gate.repeats import TOO_ALIKE_Z
from gatekit.stats.binomial import reject_count
from gatekit.stats.within_run import Counts, whole_question_tail, within_run_z
from simulation.bounds import most_alarms
from simulation.rungs import Rejected, conditional_p, guarded, mcnemar_p, moderated_rejected
from simulation.worlds import Array, Questions, plain, tables, totals

N, RUNS = 1319, 20_000
CHANCE = np.random.default_rng(2026).beta(0.9, 0.1, N)  # mean 0.9, and a count varies half as much as a binomial one
REPEATS = 4

Rng = np.random.Generator


def asked(repeats: int) -> Questions:
    """Every question so many times."""
    return Questions(np.full(N, repeats, dtype=np.int64), CHANCE)


def _mcnemar(rng: Rng, now: Questions, healthy: Questions, alpha: float) -> Rejected:
    return np.asarray(mcnemar_p(tables(rng, healthy, now, 1, RUNS)) <= alpha)


def _conditional(rng: Rng, now: Questions, healthy: Questions, alpha: float) -> Rejected:
    return np.asarray(conditional_p(tables(rng, healthy, now, 3, RUNS)) <= alpha)


def _binomial(rng: Rng, now: Questions, healthy: Questions, alpha: float) -> Rejected:
    return np.asarray(totals(rng, now, (RUNS,)) < reject_count(healthy.n, healthy.mean, alpha))


def _moderated(rng: Rng, now: Questions, healthy: Questions, alpha: float) -> Rejected:
    history, new = totals(rng, healthy, (RUNS, 3)), totals(rng, now, (RUNS,))
    return moderated_rejected(history, new, healthy.n, alpha, healthy.phi)


Rejects = Callable[[Rng, Questions, Questions, float], Rejected]
RULES: dict[str, Rejects] = {
    "exact_mcnemar": _mcnemar,
    "exact_conditional": _conditional,
    "exact_binomial": _binomial,
    "moderated_t": _moderated,
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES))
def test_repeats_raise_no_false_alarms(rule: str) -> None:
    """Of 20,000 runs without a change no more fail than alpha says: repeats are independent, given their question."""
    healthy = asked(REPEATS)
    alarms = int(RULES[rule](np.random.default_rng(1), healthy, healthy, 0.01).sum())
    assert alarms <= most_alarms(RUNS, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "once", "four_times"),
    [
        ("exact_binomial", (0.13, 0.17), (0.97, 0.99)),
        ("exact_mcnemar", (0.15, 0.19), (0.89, 0.93)),
        ("exact_conditional", (0.35, 0.40), (0.98, 1.0)),
    ],
)
def test_repeats_notice_more(rule: str, once: tuple[float, float], four_times: tuple[float, float]) -> None:
    """A drop of two points at alpha 0.1 % fails as often as the documentation says, asked once and four times."""
    for repeats, (low, high) in ((1, once), (REPEATS, four_times)):
        healthy = asked(repeats)
        share = float(RULES[rule](np.random.default_rng(2), healthy.dropped(0.02), healthy, 0.001).mean())
        assert low <= share <= high


@pytest.mark.slow
def test_the_guarded_rule_notices_more() -> None:
    """So does the rule as it runs, widened by the scatter of three totals."""
    shares = []
    for repeats in (1, REPEATS):
        healthy = asked(repeats)
        found, counts = plain(np.random.default_rng(3), healthy, healthy.dropped(0.02), 3, 3000)
        shares.append(float((guarded(conditional_p(found), found, counts) <= 0.001).mean()))
    assert 0.05 <= shares[0] <= 0.11
    assert 0.86 <= shares[1] <= 0.92


@pytest.mark.slow
@pytest.mark.parametrize(("questions", "k", "repeats"), [(N, 1, 4), (300, 3, 4), (300, 3, 2), (300, 10, 16)])
def test_independent_repeats_are_seldom_too_alike(questions: int, k: int, repeats: int) -> None:
    """Of 20,000 healthy runs hardly one is beyond the limit, and no more are in the tail than of a normal number."""
    rng, chance = np.random.default_rng(4), CHANCE[:questions, None]
    drawn = (within_run_z(rng.binomial(repeats, chance, (questions, k + 1)), repeats) for _ in range(RUNS))
    z = np.array([value for value in drawn if value is not None])
    assert len(z) > 0.9 * RUNS
    assert int((z > TOO_ALIKE_Z).sum()) <= most_alarms(RUNS, 3.2e-5)
    assert int((z > 2.326).sum()) <= most_alarms(len(z), 0.01)


def _runs(rng: Rng, now: Array, k: int) -> Counts:
    """How many of four repeats each question got right in k healthy runs and one of other chances."""
    history = rng.binomial(REPEATS, CHANCE[:, None], (N, k))
    return np.column_stack((history, rng.binomial(REPEATS, now)))


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 10])
def test_a_cache_is_told_from_a_change(k: int) -> None:
    """A cached run is always beyond the limit and carried by whole questions as seldom as alpha says; even drops stay
    within, and large ones of whole questions are carried.
    """
    rng, alarms = np.random.default_rng(9), 0
    for _ in range(1000):
        cached = _runs(rng, CHANCE, k)
        cached[:, -1] = REPEATS * rng.binomial(1, CHANCE)
        assert (within_run_z(cached, REPEATS) or 0) > TOO_ALIKE_Z
        alarms += whole_question_tail(cached, REPEATS) <= 0.01
        even = _runs(rng, CHANCE * (1 - 0.02 / 0.9), k)
        assert (within_run_z(even, REPEATS) or 0) < TOO_ALIKE_Z
        broken = _runs(rng, CHANCE * (rng.random(N) >= 0.1 / 0.9), k)
        assert (within_run_z(broken, REPEATS) or 0) > TOO_ALIKE_Z
        assert whole_question_tail(broken, REPEATS) <= 0.001
    assert alarms <= most_alarms(1000, 0.01)
