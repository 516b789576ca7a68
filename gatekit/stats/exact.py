"""Exact numbers: what a number typed by a person means, and how far counts lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Real = float | Fraction
"""A number as typed (a float, standing for the decimal it prints as) or an exact ratio of counts."""


def exact(number: Real) -> Fraction:
    """The exact rational a number stands for: a float means its shortest decimal form.

    In binary floats 0.90 - 0.08 is above 0.82, so that 164 of 200 would fail a gate at 0.82; in fractions the
    whole class of errors is gone. Raises ValueError for NaN and infinity.

    >>> exact(0.9) - exact(0.08) == Fraction(164, 200)
    True
    """
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def exact_probability(number: Real, name: str) -> Fraction:
    """`exact`, for a number that must lie in [0, 1]; raises ValueError that names it otherwise.

    >>> exact_probability(0.25, "alpha")
    Fraction(1, 4)
    """
    value = exact(number)
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {number}")
    return value


def squared_deviations(counts: Sequence[int]) -> Fraction:
    """The sum of (count - mean)^2, exactly: sum c^2 - (sum c)^2 / k, in integers until the last division.

    Raises ValueError without counts.

    >>> squared_deviations([179, 180, 182])
    Fraction(14, 3)
    """
    if not counts:
        raise ValueError("nothing has no mean")
    total = sum(counts)
    return Fraction(len(counts) * sum(count * count for count in counts) - total * total, len(counts))
