"""Questions sorted by how many earlier runs got them right, and the variance that their flips explain."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from gatekit.records.past import PastRun


def right_before(runs: Sequence[PastRun]) -> tuple[int, ...]:
    """How many of the runs, all with answers, got each question right, in asking order."""
    right = np.frombuffer(b"".join(run.outcomes or b"" for run in runs), dtype=np.uint8).reshape(len(runs), -1)
    return tuple(right.sum(axis=0, dtype=np.int64).tolist())


def questions(before: Sequence[int], runs: int) -> tuple[int, ...]:
    """The number of questions that 0, 1, ..., k runs got right."""
    return tuple(np.bincount(before, minlength=runs + 1).tolist())


def flip_variance(questions: Sequence[int]) -> float:
    """V = sum k/(k-1) p_i (1-p_i) of k >= 2 runs."""
    k = len(questions) - 1
    return float(Fraction(sum(h * (k - h) * number for h, number in enumerate(questions)), k * (k - 1)))
