"""Seeded worlds in which right answers are known to be luck, and rules that only look at them.

The fixed set: the same questions every run, each with its own chance. 86 % are near 1, 6 % near 0 and 8 %
uncertain; the mean is 0.90 and the variance of a count about a fifth of the binomial one. A drop multiplies
every chance. A shock moves the chance of every question of one run. Fresh questions: a plain binomial.

Questions with the same chance are alike, so a world of k history runs and a new one is drawn as a table: how
many questions were right h times in the history and are wrong (column 0) or right (column 1) now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

LEVELS = 8  # distinct chances of the uncertain questions
NEAR_ONE = 0.997
SHOCK = 0.003  # standard deviation, in accuracy


@dataclass(frozen=True, slots=True)
class Questions:
    """The groups of a fixed set: `number[g]` questions that are right with chance `chance[g]`."""

    number: Counts
    chance: Array

    @property
    def n(self) -> int:
        """How many questions."""
        return int(self.number.sum())

    @property
    def mean(self) -> float:
        """The expected accuracy."""
        return float((self.number * self.chance).sum() / self.n)

    @property
    def phi(self) -> float:
        """The variance of a count over the binomial one."""
        variance = float((self.number * self.chance * (1 - self.chance)).sum())
        return variance / (self.n * self.mean * (1 - self.mean))

    def dropped(self, drop: float) -> Questions:
        """The set after every chance lost the same share, `drop` in accuracy altogether."""
        return Questions(self.number, self.chance * (1 - drop / self.mean))


def fixed_set(n: int, accuracy: float = 0.9) -> Questions:
    """The mixture; the group near 0 takes up what is missing to the wanted accuracy."""
    uncertain = round(0.08 * n / LEVELS) * LEVELS
    near_one = round(0.86 * n)
    near_zero = n - uncertain - near_one
    middle = (np.arange(LEVELS) + 0.5) / LEVELS
    low = (accuracy * n - near_one * NEAR_ONE - uncertain / 2) / near_zero
    number = np.array([near_one, near_zero, *([uncertain // LEVELS] * LEVELS)], dtype=np.int64)
    return Questions(number, np.array([NEAR_ONE, low, *middle]))


def tables(rng: np.random.Generator, healthy: Questions, now: Questions, k: int, runs: int) -> Counts:
    """Tables of `runs` worlds, shaped (runs, k + 1, 2), without shocks."""
    h = np.arange(k + 1)
    found = np.zeros((runs, 2 * (k + 1)), dtype=np.int64)
    for number, before, after in zip(healthy.number, healthy.chance, now.chance, strict=True):
        history = _binomial_pmf(k, h, float(before))
        cells = np.column_stack((history * (1 - after), history * after)).ravel()
        found += rng.multinomial(int(number), cells / cells.sum(), size=runs)
    return found.reshape(runs, k + 1, 2)


def shocked(
    rng: np.random.Generator, healthy: Questions, now: Questions, k: int, runs: int, shock: float = SHOCK
) -> tuple[Counts, Counts]:
    """Tables of `runs` worlds with shocks, and the totals of their history, shaped (runs, k).

    A run's shock is normal with standard deviation `shock` in accuracy; it moves the uncertain questions most,
    in proportion to p (1 - p), and the chances stay in [0, 1].
    """
    chance, after = (np.repeat(q.chance, q.number).astype(np.float32) for q in (healthy, now))
    history = np.empty((k, len(chance)), dtype=bool)
    found, totals = np.empty((runs, 2 * (k + 1)), dtype=np.int64), np.empty((runs, k), dtype=np.int64)
    moves = rng.normal(0.0, shock, (runs, k + 1)).astype(np.float32)
    before_slope, after_slope = _slope(chance), _slope(after)
    for run in range(runs):
        draws = rng.random((k + 1, len(chance)), dtype=np.float32)
        np.less(draws[:k], chance + moves[run, :k, None] * before_slope, out=history)
        new = draws[k] < after + moves[run, k] * after_slope
        found[run] = np.bincount(2 * history.sum(axis=0) + new, minlength=2 * (k + 1))
        totals[run] = history.sum(axis=1)
    return found.reshape(runs, k + 1, 2), totals


def plain(rng: np.random.Generator, healthy: Questions, now: Questions, k: int, runs: int) -> tuple[Counts, Counts]:
    """As `shocked`, without shocks."""
    return shocked(rng, healthy, now, k, runs, shock=0.0)


def totals(rng: np.random.Generator, questions: Questions, shape: tuple[int, ...]) -> Counts:
    """Counts of right answers of runs on the fixed set."""
    found = np.zeros(shape, dtype=np.int64)
    for number, chance in zip(questions.number, questions.chance, strict=True):
        found += rng.binomial(int(number), float(chance), size=shape)
    return found


def _slope(chance: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far each question moves when the mean moves by one."""
    weight = chance * (1 - chance)
    return np.asarray(weight / weight.mean(), dtype=np.float32)


def _binomial_pmf(k: int, h: Counts, p: float) -> Array:
    coefficients = np.cumprod(np.concatenate(([1.0], (k - h[:-1]) / (h[:-1] + 1.0))))
    return np.asarray(coefficients * p**h * (1 - p) ** (k - h), dtype=np.float64)
