"""Whether n questions can carry a verdict at all, and how many could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from gatekit.gate.rule import DEFAULT_DELTA, Thresholds, thresholds
from gatekit.records.spec import Gate
from gatekit.stats.binomial import accept_count, lower_tail_at_most
from gatekit.stats.exact import exact
from gatekit.stats.power import sample_size

_SURPRISING = 0.001  # where a healthy model may well get nothing right, FAIL means nothing
_MOST_QUESTIONS = 1 << 30
_SEARCHED_QUESTIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough:
    """Which verdicts n questions can support."""

    can_pass: bool
    can_fail: bool


def enough(gate: Gate, n: int) -> Enough:
    """Which verdicts the gate can support with n questions.

    FAIL needs a rule that can fail, and that zero right answers would be surprising (probability at most
    0.001) in a model at the guarded accuracy. PASS needs the same, and that a perfect score could exclude a
    model `gate.delta` (5 points when unset) below it with miss rate `gate.beta`. Errors: as `thresholds`.
    """
    return Enough(can_pass=_can_pass(gate, n), can_fail=_can_fail(thresholds(gate, n), n))


def n_to_fail(gate: Gate) -> int | None:
    """The smallest n at which the gate can FAIL; None when it never can."""
    return _first(lambda n: _can_fail(thresholds(gate, n), n))


def n_to_pass(gate: Gate) -> int | None:
    """The smallest n at which the gate can PASS; None when it never can."""
    return _first(lambda n: _can_pass(gate, n))


def n_to_decide(gate: Gate, n: int, alpha: float | None) -> int | None:
    """About how many questions separate the guarded accuracy from one `gate.delta` below at the gate's rates.

    None when no delta or alpha is set, or when it takes more than 20000.
    """
    guarded = thresholds(gate, n).guarded
    lower = _missed(gate, guarded)
    if gate.delta is None or not alpha or alpha >= 1 or not 0 < gate.beta < 1 or lower >= guarded:
        return None
    size = sample_size(guarded, lower, alpha, gate.beta, _SEARCHED_QUESTIONS)
    return None if size is None else size.n


def can_fail(n: int, guarded: Fraction, k_reject: int) -> bool:
    """Whether a rule can fail, and zero right answers would be surprising in a model at the guarded accuracy."""
    return k_reject > 0 and lower_tail_at_most(1, n, guarded, _SURPRISING)


def margin(gate: Gate) -> float:
    """The drop that a PASS must be able to exclude."""
    return DEFAULT_DELTA if gate.delta is None else gate.delta


def _can_fail(found: Thresholds, n: int) -> bool:
    return can_fail(n, found.guarded, found.k_reject)


def _can_pass(gate: Gate, n: int) -> bool:
    found = thresholds(gate, n)
    needed = found.k_accept
    if needed is None:
        needed = accept_count(n, _missed(gate, found.guarded), gate.beta)
    return needed <= n and _can_fail(found, n)


def _missed(gate: Gate, guarded: Fraction) -> Fraction:
    return max(Fraction(0), guarded - exact(margin(gate)))


def _first(holds: Callable[[int], bool]) -> int | None:
    """The smallest n at which a condition holds that, once true, stays true; by doubling, then halving."""
    high = 1
    while not holds(high):
        high *= 2
        if high > _MOST_QUESTIONS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
