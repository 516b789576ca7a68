"""What a simulated number of alarms may be."""

from __future__ import annotations

from scipy.stats import binom

CONFIDENCE = 0.999


def most_alarms(runs: int, alpha: float) -> int:
    """The 99.9 % quantile of the alarms in `runs` runs of a rule that alarms with probability alpha."""
    return int(binom.ppf(CONFIDENCE, runs, alpha))


def fewest_alarms(runs: int, alpha: float) -> int:
    """The 0.1 % quantile of the alarms in `runs` runs of a rule that alarms with probability alpha."""
    return int(binom.ppf(1 - CONFIDENCE, runs, alpha))
