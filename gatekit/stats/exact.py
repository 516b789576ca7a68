"""What a number typed by a person means, exactly."""

from __future__ import annotations

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
