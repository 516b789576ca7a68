"""The rules of the product applied to many simulated worlds: counts and tables in, p-values or rejections out."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from gatekit.stats.conditional import conditional_tail
from gatekit.stats.flip_prediction import flip_prediction
from gatekit.stats.overdispersion import DEFAULT_NU_PSI, guarded_p
from gatekit.stats.paired import exact_conditional, mcnemar
from gatekit.stats.predictive import predictive_count
from gatekit.stats.series import moderated_t_thresholds
from simulation.worlds import Array, Counts

PHI0, NU0 = 0.2, 4.0
Rejected = NDArray[np.bool_]
_drop_p = cache(lambda b, c: mcnemar(b, c).p_drop)


def mcnemar_p(tables: Counts) -> Array:
    """The p-value of each world with one history run."""
    return np.array([_drop_p(int(table[1, 0]), int(table[0, 1])) for table in tables])


def conditional_p(tables: Counts) -> Array:
    """The p-value of each world's new run against its whole history, as the gate works it out."""
    questions, right = tables.sum(axis=2).tolist(), tables[:, :, 1].tolist()
    return np.array([conditional_tail(m, r) for m, r in zip(questions, right, strict=True)])


def textbook_conditional_p(tables: Counts) -> Array:
    """The same from the strata of all runs, as `paired.exact_conditional` takes them."""
    k = tables.shape[1] - 1
    strata = tables[:, 1:, 0] + tables[:, :-1, 1]
    right = tables[:, :-1, 1].sum(axis=1)
    worlds = zip(strata.tolist(), right.tolist(), strict=True)
    return np.array([exact_conditional(k, dict(enumerate(numbers, 1)), s).p_drop for numbers, s in worlds])


def flip_rejected(tables: Counts, alpha: float) -> Rejected:
    """Whether each world's new count is below the count predicted from its flips."""
    k = tables.shape[1] - 1
    history = tables.sum(axis=2).tolist()
    thresholds = [flip_prediction(k, dict(enumerate(h)), alpha, PHI0, NU0).k_pass for h in history]
    return np.asarray(tables[:, :, 1].sum(axis=1) < np.array(thresholds))


def moderated_rejected(history: Counts, new: Counts, n: int, alpha: float, phi0: float = PHI0) -> Rejected:
    """Whether each new count is below the threshold from the totals of its history."""
    return np.asarray(new < moderated_t_thresholds(history, n, alpha, phi0, NU0)[:, -1])


def predictive_rejected(baseline: Counts, new: Counts, n: int, alpha: float) -> Rejected:
    """Whether each new count is below the one predicted from its one baseline on as many questions."""
    threshold = cache(lambda correct: predictive_count(correct, n, n, alpha).k_pass)
    return np.array([s < threshold(int(b)) for b, s in zip(baseline, new, strict=True)])


def guarded(p: Array, tables: Counts, totals: Counts, nu_psi: float = DEFAULT_NU_PSI, psi0: float = 1.0) -> Array:
    """The p-values widened by the scatter of the totals of each world's history."""
    variances = [flip_variance(h) for h in tables.sum(axis=2)]
    worlds = zip(p.tolist(), totals.tolist(), variances, strict=True)
    return np.array([guarded_p(value, history, v, nu_psi, psi0).p for value, history, v in worlds])


def flip_variance(right_in_history: Counts) -> float:
    """The flip variance of one history: the share phi of the binomial variance of its mean count."""
    k, n = len(right_in_history) - 1, int(right_in_history.sum())
    found = flip_prediction(k, dict(enumerate(right_in_history.tolist())), 0.5, PHI0, NU0)
    return (found.phi_flip or 0.0) * found.mean * (1 - found.mean / n)
