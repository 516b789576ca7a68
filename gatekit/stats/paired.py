"""Tests of a drop against runs on the same questions, and against one run on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np

from gatekit.stats.binomial import lower_tail
from gatekit.stats.weights import Array, from_ratios

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """One-sided p-value of a drop, and the two-sided one."""

    p_drop: float
    p_two_sided: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactConditional:
    """One-sided p-value of a drop, with mean and variance of the count under no change."""

    p_drop: float
    null_mean: float
    null_variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """New accuracy minus old on the same questions, and its standard error."""

    difference: float
    stderr: float


def mcnemar(right_to_wrong: int, wrong_to_right: int) -> McNemar:
    """Whether more questions turned wrong than right against one earlier run on the same questions.

    Hypotheses: under no change each discordant question falls either way with probability 1/2, independently.
    Formula: p = P(Bin(b + c, 1/2) <= c); two-sided: twice the smaller tail, at most 1.
    Reference: McNemar 1947, exact form. Valid for all counts; 1 without discordant questions.

    >>> mcnemar(2, 0)
    McNemar(p_drop=0.25, p_two_sided=0.5)
    """
    flips, fewer = right_to_wrong + wrong_to_right, min(right_to_wrong, wrong_to_right)
    return McNemar(
        p_drop=lower_tail(wrong_to_right + 1, flips, _HALF),
        p_two_sided=min(1.0, 2 * lower_tail(fewer + 1, flips, _HALF)),
    )


def exact_conditional(history_runs: int, strata: Mapping[int, int], new_correct: int) -> ExactConditional:
    """Whether a new run got fewer of the uncertain questions right than k earlier runs lead to expect.

    `strata` maps t, the right answers of a question among the k history runs and the new one, to the number
    of such questions; t = 0 and t = k + 1 carry no information and are left out. `new_correct` counts the
    new run's right answers in the strata. Hypotheses: under no change the k + 1 runs of a question are
    exchangeable, the questions independent. Formula: p = P(sum over t of Bin(m_t, t/(k+1)) <= s).
    Reference: Mantel & Haenszel 1959, exact form; k = 1 is McNemar's test. Valid for k >= 1, else
    ValueError.

    >>> exact_conditional(1, {1: 2}, 0)
    ExactConditional(p_drop=0.25, null_mean=1.0, null_variance=0.5)
    """
    if history_runs < 1:
        raise ValueError("the conditional test needs at least one history run")
    pmf, mean, variance = np.ones(1), Fraction(0), Fraction(0)
    for t, number in sorted(strata.items()):
        share = Fraction(t, history_runs + 1)
        if not 0 <= share <= 1:
            raise ValueError(f"{t} right answers in {history_runs + 1} runs")
        if 0 < share < 1:
            pmf = np.convolve(pmf, _binomial_pmf(number, share))
            mean, variance = mean + number * share, variance + number * share * (1 - share)
    at_most = float(pmf[: new_correct + 1].sum()) if 0 <= new_correct < len(pmf) - 1 else float(new_correct >= 0)
    return ExactConditional(p_drop=at_most, null_mean=float(mean), null_variance=float(variance))


def paired_difference(n: int, right_to_wrong: int, wrong_to_right: int) -> PairedDifference:
    """The change of accuracy on the same n questions, and its standard error.

    Hypothesis: the questions are a random sample; each contributes +1, 0 or -1. Formula: (c - b) / n and the
    standard deviation of the contributions (n - 1 in the denominator) over sqrt(n).
    Reference: Miller 2024 (arXiv 2411.00640), section 4.2. Valid for n >= 2, else ValueError.

    >>> paired_difference(2, 1, 1)  # +1 and -1: variance 2, over n = 2
    PairedDifference(difference=0.0, stderr=1.0)
    """
    if n < 2 or right_to_wrong + wrong_to_right > n:
        raise ValueError(f"{right_to_wrong} + {wrong_to_right} discordant questions of {n} give no standard error")
    flips, gain = right_to_wrong + wrong_to_right, wrong_to_right - right_to_wrong
    variance = (flips - Fraction(gain * gain, n)) / (n - 1)
    return PairedDifference(difference=gain / n, stderr=sqrt(variance / n))


def clustered_difference(gains: Sequence[Sequence[int]]) -> PairedDifference:
    """The change of accuracy where questions were asked several times, and its standard error.

    `gains` has one entry a question: +1, 0 or -1 for each of its answers, at least one. Hypothesis: the questions are
    a random sample; the answers to one may hang together in any way. Formula: with g_q the sum of a question's w_q
    gains, n = sum w_q and m questions, d = sum g_q / n and sqrt(m / (m - 1) sum (g_q - w_q d)^2) / n.
    Reference: Miller 2024 (arXiv 2411.00640), section 2.2. Valid for m >= 2, else ValueError; `paired_difference` where
    each question was asked once.

    >>> clustered_difference([[1, 1], [-1, -1]])  # as of the two questions asked once
    PairedDifference(difference=0.0, stderr=1.0)
    """
    m, n = len(gains), sum(map(len, gains))
    if m < 2:
        raise ValueError(f"{m} questions give no standard error")
    mean = Fraction(sum(map(sum, gains)), n)
    spread = sum((sum(own) - len(own) * mean) ** 2 for own in gains)
    return PairedDifference(difference=float(mean), stderr=sqrt(m * Fraction(spread) / (m - 1)) / n)


def fisher_exact_drop(baseline_correct: int, baseline_n: int, new_correct: int, new_n: int) -> float:
    """One-sided p-value of a drop between two runs on different questions.

    Hypotheses: two independent samples of one accuracy; the total of right answers is conditioned on.
    Formula: P(H <= new_correct), H hypergeometric. Reference: Fisher 1935. Valid for all counts within
    their n, else ValueError; conservative.

    >>> round(fisher_exact_drop(1, 1, 0, 1), 12)  # which of the two is right: one half
    0.5
    """
    if not (0 <= baseline_correct <= baseline_n and 0 <= new_correct <= new_n):
        raise ValueError("the right answers must lie between 0 and the number of questions")
    total = baseline_correct + new_correct
    low, high = max(0, total - baseline_n), min(new_n, total)
    if new_correct == high:
        return 1.0
    x = np.arange(low, high, dtype=np.float64)
    pmf = from_ratios((new_n - x) * (total - x) / ((x + 1) * (baseline_n - total + x + 1)))
    return float(pmf[: new_correct - low + 1].sum())


def _binomial_pmf(n: int, p: Fraction) -> Array:
    y = np.arange(n, dtype=np.float64)
    return from_ratios((n - y) / (y + 1) * float(p / (1 - p)))
