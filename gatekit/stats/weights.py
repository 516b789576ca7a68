"""Discrete distributions from the ratios of neighbouring weights, without overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def from_ratios(ratios: Array) -> Array:
    """The probabilities whose neighbours have the given ratios: w[i+1] / w[i] = ratios[i], summing to 1.

    Hypothesis: all ratios are positive and finite. Formula: cumulated logarithms, normalised at the largest.
    Reference: the definition. Relative error about len(ratios) * 1e-16; probabilities under 1e-300 become 0.

    >>> from_ratios(np.array([2.0, 0.5]))  # 1 : 2 : 1
    array([0.25, 0.5 , 0.25])
    """
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)
