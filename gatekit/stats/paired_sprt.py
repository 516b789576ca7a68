"""Is each question as often right as it was? The sequential test that knows the questions from earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

from gatekit.stats.exact import Real, exact
from gatekit.stats.sequential import Boundaries, ville_boundaries

BUILDS_TO_FAIL = 3
BUILDS_TO_PASS = 10
_COLLAPSED = (0.6, 0.2)  # accuracies of a model that is broken rather than worse
_COLLAPSED_WEIGHT = 0.1
_SUREST = 0.998  # series with the fewest flips still flip two questions in a thousand: one flip decides nothing
_SLACK = 1e-9  # hitting a boundary crosses it, whatever the rounding of the sum


def held_out_chances(right: Sequence[int], builds: int) -> tuple[float, ...]:
    """Each question's chance of a right answer in the next run, from `right` of `builds` runs, within 0.002 .. 0.998.

    Hypothesis: the runs are of distinct, exchangeable builds. Formula: hold out one run; of the questions right
    in t of the other k - 1, a share q_t was right in it too (pbar added as one pseudo-answer); a question right
    in j of k has (j/k) q_{j-1} + (1 - j/k) q_j, the mean over which run is held out. It needs no prior for how
    accuracies spread: (t + 1/2) / (k + 1) in its place makes certain questions look unsure, and the paired test
    then misses most drops. Reference: Robbins 1956; Good 1953. Valid for k >= 2 and 0 <= right <= k, else
    ValueError.

    >>> held_out_chances([0, 2], 2)  # pbar = 1/2, q_0 = (0 + 1/2) / (2 + 1), q_1 = (2 + 1/2) / (2 + 1)
    (0.16666666666666666, 0.8333333333333334)
    """
    if builds < 2 or not right or not all(0 <= count <= builds for count in right):
        raise ValueError("held-out chances need questions that are right in 0 to k of k >= 2 runs")
    numbers = [list(right).count(count) for count in range(builds + 1)]
    mean = (sum(right) + 0.5) / (builds * len(right) + 1)
    shares = [_held_out(numbers, t, builds, mean) for t in range(builds)]
    table = [
        (count * shares[max(count - 1, 0)] + (builds - count) * shares[min(count, builds - 1)]) / builds
        for count in range(builds + 1)
    ]
    return tuple(min(max(table[count], 1 - _SUREST), _SUREST) for count in right)


def _held_out(numbers: Sequence[int], t: int, builds: int, mean: float) -> float:
    """How often the held-out run was right where t of the others were, over all choices of the run."""
    right, wrong = (t + 1) * numbers[t + 1], (builds - t) * numbers[t]
    return (right + mean) / (right + wrong + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One way to have dropped: every chance multiplied by `exp(right)`, which is a right answer's step."""

    right: float
    weight: float
    wrong: tuple[float, ...]


class PairedSprt:
    """The test of p_i against p_i (1 - delta / pbar), question by question, p_i from `builds` earlier builds.

    FAIL side: a mixture, .8 on the stated drop and .1 each on drops to .6 and .2 where these are lower (what is
    left out falls to the stated drop); PASS side: the stated drop alone. Ville's boundaries hold for known p_i;
    with estimated ones they hold about: FAIL needs 3 builds, PASS 10, and below that the side never crosses.
    Answers are taken as independent given the p_i: shocks that hit a whole run make both errors more frequent.
    """

    def __init__(self, right: Sequence[int], builds: int, delta: Real, alpha: Real, beta: Real) -> None:
        chances = held_out_chances(right, builds)
        self.n = len(chances)
        mean, drop = sum(chances) / max(self.n, 1), float(exact(delta))
        if not 0 < drop < mean:
            raise ValueError(f"the drop must lie between 0 and the mean accuracy {mean:g}, not {drop:g}")
        self.bounds: Boundaries = ville_boundaries(alpha, beta)
        self.can_fail, self.can_pass = builds >= BUILDS_TO_FAIL, builds >= BUILDS_TO_PASS
        self.drops = _drops(chances, mean, mean - drop)
        self._wrong_before = list(accumulate(self.drops[0].wrong, initial=0.0))

    def ledger(self) -> PairedLedger:
        """An empty ledger of known answers."""
        return PairedLedger(self)

    def wrong_before(self, t: int) -> float:
        """What the first t questions add to the ratio of the stated drop if all are wrong."""
        return self._wrong_before[t]


class PairedLedger:
    """The known answers among the first t questions of a `PairedSprt`: two counts and their steps' sums."""

    def __init__(self, test: PairedSprt) -> None:
        self._test = test
        self._known_right = self._known_wrong = 0
        self._as_wrong = 0.0
        self._wrong_sums = [0.0] * len(test.drops)

    def add(self, index: int, *, right: bool) -> None:
        """Count one known answer."""
        if right:
            self._known_right += 1
            self._as_wrong += self._test.drops[0].wrong[index]
            return
        self._known_wrong += 1
        for number, drop in enumerate(self._test.drops):
            self._wrong_sums[number] += drop.wrong[index]

    def fails(self, t: int) -> bool:
        """Whether the first t questions cross FAIL even with every unknown one right."""
        if not self._test.can_fail or not self._known_wrong:
            return False
        return self.fail_ratio(t) >= self._test.bounds.log_a - _SLACK

    def passes(self, t: int) -> bool:
        """Whether the first t questions cross PASS even with every unknown one wrong."""
        if not self._test.can_pass or not self._known_right:
            return False
        return self.pass_ratio(t) <= self._test.bounds.log_b + _SLACK

    def fail_ratio(self, t: int) -> float:
        """That of the mixture of drops, with every unknown answer right."""
        right = t - self._known_wrong
        pairs = zip(self._test.drops, self._wrong_sums, strict=True)
        parts = [log(drop.weight) + right * drop.right + wrong for drop, wrong in pairs]
        top = max(parts)
        return top + log(sum([exp(part - top) for part in parts]))

    def pass_ratio(self, t: int) -> float:
        """That of the stated drop, with every unknown answer wrong."""
        return self._known_right * self._test.drops[0].right + self._test.wrong_before(t) - self._as_wrong


def _drops(chances: Sequence[float], mean: float, lower: float) -> tuple[Drop, ...]:
    accuracies = [lower, *(share for share in _COLLAPSED if share < lower)]
    weights = [1 - _COLLAPSED_WEIGHT * (len(accuracies) - 1)] + [_COLLAPSED_WEIGHT] * (len(accuracies) - 1)
    return tuple(_drop(chances, accuracy / mean, weight) for accuracy, weight in zip(accuracies, weights, strict=True))


def _drop(chances: Sequence[float], factor: float, weight: float) -> Drop:
    wrong = tuple(log((1 - p * factor) / (1 - p)) for p in chances)
    return Drop(right=log(factor), weight=weight, wrong=wrong)
