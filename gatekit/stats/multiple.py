"""Many gates at once: which rejections survive. For triage; blocking uses the alpha budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatekit.stats.exact import Real, exact


def bh_adjusted(p: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: rejecting those <= q keeps the expected share of false rejections <= q.

    Hypothesis: independent (or positively dependent) p-values. Formula: the running minimum, from the largest
    down, of p_(i) m / i, at most 1. Reference: Benjamini & Hochberg 1995. Valid for p in [0, 1].

    >>> bh_adjusted([0.5, 0.25])
    (0.5, 0.5)
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")[::-1]
    ranks = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum.accumulate(np.minimum(1.0, values[order] * len(values) / ranks))
    return tuple(adjusted.tolist())


def bh_rejected(p: Sequence[float], q: Real) -> tuple[bool, ...]:
    """Which hypotheses Benjamini & Hochberg reject at level q: those up to the last p_(i) <= i q / m.

    Compared in fractions, so that a tie is a rejection. Hypothesis, reference, validity: as `bh_adjusted`.

    >>> bh_rejected([0.5, 0.04, 0.02], 0.06)
    (False, True, True)
    """
    m, level = len(p), exact(q)
    values = [exact(value) for value in p]
    last = max((v for i, v in enumerate(sorted(values), 1) if v * m <= i * level), default=None)
    return tuple(last is not None and v <= last for v in values)


def e_bh_rejected(e: Sequence[float], q: Real) -> tuple[bool, ...]:
    """Which hypotheses e-BH rejects at level q: the k largest, k the last with k e_(k) >= m / q.

    Hypothesis: each e has expectation <= 1 under its null; any dependence, any stopping time.
    Reference: Wang & Ramdas 2022. Valid for e >= 0 and 0 < q <= 1.

    >>> e_bh_rejected([30.0, 1.0, 20.0], 0.1)  # 3 / 0.1 = 30: 1 * 30 and 2 * 20 reach it
    (True, False, True)
    """
    m, level = len(e), exact(q)
    values = [exact(value) for value in e]
    ranked = enumerate(sorted(values, reverse=True), 1)
    last = min((v for i, v in ranked if i * v * level >= m), default=None)
    return tuple(last is not None and v >= last for v in values)
