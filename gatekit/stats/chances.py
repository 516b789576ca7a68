"""Chances of questions to be answered right, of a stated mean and a stated scatter of the count."""

from __future__ import annotations

from scipy.special import betaincinv

_CERTAIN = 0.001
_NEGLIGIBLE = 1e-6


def beta_chances(n: int, accuracy: float, dispersion: float) -> tuple[float, ...]:
    """n chances, lowest first, with the mean `accuracy` and sum p (1 - p) = dispersion n accuracy (1 - accuracy).

    Formula: the quantiles at (i + 1/2) / n of Beta(accuracy s, (1 - accuracy) s), s = dispersion / (1 - dispersion):
    E p (1 - p) = accuracy (1 - accuracy) s / (s + 1). A dispersion of 0 gives chances of 0 and 1, one of 1 gives
    `accuracy` itself. Both equalities hold to within one question. A higher accuracy lowers no chance by more than
    rounding. A dispersion under 0.001 is taken for 0: such a law has no quantiles in floats.
    Raises ValueError where accuracy or dispersion is outside [0, 1].

    >>> beta_chances(4, 0.75, 0.0), beta_chances(2, 0.75, 1.0)
    ((0.0, 1.0, 1.0, 1.0), (0.75, 0.75))
    """
    for name, share in (("accuracy", accuracy), ("dispersion", dispersion)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} must be between 0 and 1, not {share}")
    if dispersion == 1 or min(accuracy, 1 - accuracy) < _NEGLIGIBLE:
        return (float(accuracy),) * n
    if dispersion < _CERTAIN:
        return tuple(float(n - rank - 0.5 < accuracy * n) for rank in range(n))
    s = dispersion / (1 - dispersion)
    quantiles = [(rank + 0.5) / n for rank in range(n)]
    return tuple(float(chance) for chance in betaincinv(accuracy * s, (1 - accuracy) * s, quantiles))
