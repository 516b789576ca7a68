"""Every rung of the ladder under one design: what it needs, alarms, notices, and how many questions it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gatekit.records.spec import Method
from gatekit.stats.binomial import lower_tail, reject_count
from gatekit.stats.detectable import (
    BaselineTest,
    CountTest,
    Shape,
    World,
    conditional_test,
    flip_prediction_test,
    guarded_test,
    known_mean,
    moderated_t_test,
    safe_size,
    smallest_drop,
    smallest_size,
)
from gatekit.stats.overdispersion import DEFAULT_NU_PSI
from gatekit.stats.power import noticed_drop, sample_size
from gatekit.stats.threshold import sigma_count

POWER = 0.9
MOST_QUESTIONS = 100_000
UNGUARDED, KNOWN_MEAN = "unguarded_conditional", "known_mean"
_FEW_BASELINES = 41  # enough for a number of questions, and five times quicker

MakeTest = Callable[[World, float], CountTest]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What a gate shall do: at most `alpha` false alarms, and miss a drop of `delta` at most in `beta` of runs.

    `phi` is the run-to-run dispersion on fixed questions, `runs` the number of earlier runs, `nu0` the prior
    degrees of freedom of the dispersion, `nu_psi` those of the over-dispersion guard, `baseline_n` the questions of
    the one baseline (None: as many as n).
    With `sigmas`, alpha is the rate that so many binomial standard deviations have at this n.
    """

    n: int
    accuracy: Fraction
    alpha: float
    sigmas: float | None = None
    delta: Fraction
    beta: float = 0.1
    phi: float = 0.2
    runs: int = 10
    nu0: float = 4.0
    nu_psi: float = DEFAULT_NU_PSI
    baseline_n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Between two shapes of a drop: the lower and the higher figure, equal where the shape does not matter."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One rule under a design. `runs` is how many earlier runs it was given; None where the mean is known.

    `noticed_drop` fails with probability 0.9; `questions` is the number from which on every larger one, up to
    MOST_QUESTIONS, meets the design; `first_questions` the smallest that does, where whole counts make these
    differ. Each is None where nothing reaches it: the loss of everything, or MOST_QUESTIONS.
    """

    method: str
    runs: int | None
    is_exact: bool
    k_reject: int
    realised_alpha: float
    power: Range
    noticed_drop: Range | None
    questions: Range | None
    first_questions: int | None = None


def sigma_alpha(n: int, accuracy: Fraction, sigmas: float) -> float:
    """The false-alarm rate of a threshold `sigmas` binomial standard deviations below n p.

    Hypotheses, reference and validity: as `lower_tail` and `sigma_count`.

    >>> sigma_alpha(1, Fraction(1, 2), 0)  # at least half a right answer of one
    0.5
    """
    return lower_tail(sigma_count(n, accuracy, sigmas), n, accuracy)


def ladder(design: Design) -> tuple[Rung, ...]:
    """The rungs, weakest first; last two that are no rules but limits: the highest without its guard (from two
    runs on), and an endless history.

    Hypotheses: exact_binomial as in `stats.power` (fresh questions), the rest as in `stats.detectable`.
    Reference: those files. Validity: 0 < accuracy, alpha < 1, 0 < delta < accuracy.

    >>> found = ladder(Design(n=1319, accuracy=Fraction(9, 10), alpha=0.001, delta=Fraction(1, 50)))
    >>> [rung.k_reject for rung in found]
    [1152, 1136, 1167, 1165, 1171, 1168, 1171, 1172]
    """
    exact = _exact(design)
    return (exact, _predictive(design, exact), *_counted(design))


def _counted(design: Design) -> Iterator[Rung]:
    yield _approximate(design, Method.MODERATED_T.value, design.runs, _moderated(design))
    yield _approximate(design, Method.EXACT_MCNEMAR.value, 1, conditional_test)
    if design.runs >= 2:
        yield _approximate(design, Method.FLIP_PREDICTION.value, design.runs, flip_prediction_test)
    yield _approximate(design, Method.EXACT_CONDITIONAL.value, design.runs, _guarded(design))
    if design.runs >= 2:
        yield _approximate(design, UNGUARDED, design.runs, conditional_test)
    yield _approximate(design, KNOWN_MEAN, None, known_mean)


def _moderated(design: Design) -> MakeTest:
    return lambda world, alpha: moderated_t_test(world, alpha, design.nu0)


def _guarded(design: Design) -> MakeTest:
    return lambda world, alpha: guarded_test(world, alpha, design.nu_psi)


def _exact(design: Design) -> Rung:
    n, p0, dropped = design.n, design.accuracy, design.accuracy - design.delta
    k = reject_count(n, p0, design.alpha) if design.sigmas is None else sigma_count(n, p0, design.sigmas)
    power = lower_tail(k, n, dropped)
    first = sample_size(p0, dropped, design.alpha, design.beta, MOST_QUESTIONS)
    safe = None if first is None else safe_size(p0, dropped, design.alpha, design.beta, first.n, MOST_QUESTIONS)
    return Rung(
        method=Method.EXACT_BINOMIAL.value,
        runs=0,
        is_exact=True,
        k_reject=k,
        realised_alpha=lower_tail(k, n, p0),
        power=Range(low=power, high=power),
        noticed_drop=_single(noticed_drop(n, k, p0, POWER)),
        questions=_single(safe),
        first_questions=None if first is None else first.n,
    )


def _predictive(design: Design, exact: Rung) -> Rung:
    test = _baseline_test(design, design.n)
    power = test.fails(float(design.delta))
    return Rung(
        method=Method.BETA_BINOMIAL_PREDICTIVE.value,
        runs=1,
        is_exact=True,
        k_reject=test.k_reject,
        realised_alpha=test.fails(0.0),
        power=Range(low=power, high=power),
        noticed_drop=_single(smallest_drop(test.fails, design.accuracy, POWER)),
        questions=_single(_predicted_questions(design, exact)),
    )


def _baseline_test(design: Design, n: int, **grid: int) -> BaselineTest:
    baseline_n = n if design.baseline_n is None else design.baseline_n
    return BaselineTest(n=n, baseline_n=baseline_n, accuracy=float(design.accuracy), alpha=design.alpha, **grid)


def _predicted_questions(design: Design, exact: Rung) -> int | None:
    """Searched from what a known accuracy would need, which is never more."""
    if exact.first_questions is None:
        return None

    def fails(n: int) -> float:
        return _baseline_test(design, n, points=_FEW_BASELINES).fails(float(design.delta))

    return smallest_size(fails, 1 - design.beta, MOST_QUESTIONS, start=exact.first_questions)


def _approximate(design: Design, method: str, runs: int | None, make: MakeTest) -> Rung:
    def test(n: int) -> CountTest:
        world = World(n=n, accuracy=float(design.accuracy), phi=design.phi, runs=runs)
        return make(world, design.alpha)

    def drop(shape: Shape) -> float | None:
        return smallest_drop(lambda lost: here.fails(lost, shape), design.accuracy, POWER)

    def size(shape: Shape) -> int | None:
        return smallest_size(lambda n: test(n).fails(delta, shape), 1 - design.beta, MOST_QUESTIONS)

    here, delta = test(design.n), float(design.delta)
    power = [here.fails(delta, shape) for shape in Shape]
    return Rung(
        method=method,
        runs=runs,
        is_exact=False,
        k_reject=here.k_reject,
        realised_alpha=here.fails(0.0, Shape.EVEN),
        power=Range(low=min(power), high=max(power)),
        noticed_drop=_range([drop(shape) for shape in Shape]),
        questions=_range([size(shape) for shape in Shape]),
    )


def _single(value: float | None) -> Range | None:
    return None if value is None else Range(low=value, high=value)


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return Range(low=min(known), high=max(known)) if len(known) == len(values) else None
