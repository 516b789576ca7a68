"""Control charts for slow drift: how long they run until an alarm, and where to set their limit.

Hypothesis everywhere: independent normal scores z with standard deviation 1 and mean `shift_sd`; zero in
control. Charts look at one side; the score is signed so that drift in the bad direction is up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import ceil, log, sqrt

import numpy as np
from scipy.special import ndtr

from gatekit.stats.weights import Array

_NODES_PER_SD = 12
_BLOCK = 20
_MIN_BLOCKS = 3
_MAX_LIMIT = 100.0
_STEP = 1.25  # small enough not to leap to run lengths that float64 cannot solve for


def cusum_arl(k: float, h: float, shift_sd: float = 0.0) -> float:
    """The mean number of nights until C = max(0, C + z - k) first exceeds h, from C = 0.

    Formula: Page's integral equation L(u) = 1 + L(0) Phi(k-u) + int_0^h L(y) phi(y+k-u) dy, by Gauss-Legendre
    quadrature (Nystrom). Reference: Page 1954; Brook & Evans 1972. Valid for 0 < h <= 100, else ValueError;
    relative error under 1e-9 for arl < 1e6.

    >>> round(cusum_arl(0.5, 4.0), 2)  # the textbook's 336 is the same chart, rounded
    335.37
    >>> round(cusum_arl(0.5, 4.0, 1.0), 2)
    8.38
    """
    if not 0 < h <= _MAX_LIMIT:
        raise ValueError(f"a control limit lies in (0, {_MAX_LIMIT:g}], not {h}")
    nodes, weights = _quadrature(h, 1.0)
    starts = np.concatenate(([0.0], nodes))
    drift = k - shift_sd
    to_zero = ndtr(drift - starts)
    to_nodes = _density(nodes[None, :] + drift - starts[:, None]) * weights[None, :]
    return _run_length(to_zero, to_nodes)


def cusum_limit(k: float, arl0: float) -> float:
    """The h at which the in-control mean run length is `arl0` nights.

    Formula: the root of log cusum_arl(k, h) = log arl0, by bisection. Reference: as `cusum_arl`.
    Valid for arl0 up to about 1e10 and above the run length at h near 0, else ValueError.

    >>> round(cusum_limit(0.5, 365), 3)
    4.082
    """
    found = _limit(lambda h: cusum_arl(k, h), arl0)
    if found is None:
        raise ValueError(f"even h = 0 alarms less often than once in {arl0} nights at k = {k}")
    return found


def ewma_arl(lam: float, c: float, shift_sd: float = 0.0) -> float:
    """The mean number of nights until Z = max(0, (1-lam) Z + lam z) exceeds c sqrt(lam / (2-lam)), from 0.

    Formula: as `cusum_arl`, with the density of lam z around (1-lam) Z. Reference: Crowder 1987.
    Valid for 0 < lam <= 1 and c > 0, else ValueError.

    >>> round(ewma_arl(1.0, 3.0), 1)  # lam = 1 is Shewhart's chart: 1 / P(z > 3)
    740.8
    """
    if not (0 < lam <= 1 and c > 0):
        raise ValueError(f"an EWMA chart needs 0 < lam <= 1 and c > 0, not {lam} and {c}")
    limit = c * sqrt(lam / (2 - lam))
    nodes, weights = _quadrature(limit, lam)
    kept = (1 - lam) * np.concatenate(([0.0], nodes))
    to_zero = ndtr(-kept / lam - shift_sd)
    scores = (nodes[None, :] - kept[:, None]) / lam - shift_sd
    return _run_length(to_zero, _density(scores) * weights[None, :] / lam)


def ewma_limit(lam: float, arl0: float) -> float:
    """The c at which the in-control mean run length is `arl0` nights.

    Formula: the root of log ewma_arl(lam, c) = log arl0, by bisection. Reference: as `ewma_arl`. Valid for arl0 up
    to about 1e6 and above the run length at c near 0, else ValueError.

    >>> round(ewma_limit(1.0, 740.797), 3)  # Shewhart's three sigmas
    3.0
    """
    found = _limit(lambda c: ewma_arl(lam, c), arl0)
    if found is None:
        raise ValueError(f"even c = 0 alarms less often than once in {arl0} nights at lam = {lam}")
    return found


def _limit(run_length: Callable[[float], float], arl0: float) -> float | None:
    """Where an increasing run length is arl0; None where it is longer than that at 0."""
    target = log(arl0)
    low, high = 1e-6, 1.0
    if log(run_length(low)) > target:
        return None
    while log(run_length(high)) < target:
        low, high = high, _STEP * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if log(run_length(middle)) < target else (low, middle)
    return (low + high) / 2


def _quadrature(limit: float, scale: float) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, limit], dense enough for a kernel of width `scale`."""
    blocks = ceil(_NODES_PER_SD * limit / (scale * _BLOCK))
    points, weights = _unit_quadrature(max(_MIN_BLOCKS, blocks) * _BLOCK)
    return limit / 2 * (points + 1), limit / 2 * weights


@lru_cache(maxsize=64)
def _unit_quadrature(nodes: int) -> tuple[Array, Array]:
    """On [-1, 1]; kept, because a limit is sought through many charts of the same density."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    for array in (points, weights):
        array.setflags(write=False)
    return points, weights


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-z * z / 2) / sqrt(2 * np.pi), dtype=np.float64)


def _run_length(to_zero: Array, to_nodes: Array) -> float:
    """L(0) of L = 1 + to_zero L(0) + to_nodes L(nodes)."""
    kernel = np.column_stack((to_zero, to_nodes))
    solution = np.linalg.solve(np.eye(len(kernel)) - kernel, np.ones(len(kernel)))
    return float(solution[0])
