"""A slow drift is caught because the norm stays where it was."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gatekit.gate.decide import decide
from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Method, Spec
from gatekit.records.verdict import Outcome
from past_builders import run

Maker = Callable[..., Spec]
N, BUILDS, BASELINE = 1319, 60, 30
STEP = 0.001  # a tenth of a point a build
SPREAD = (0.2 * N * 0.09) ** 0.5


def drifting(seed: int) -> list[int]:
    """The counts of builds from 0.90 that lose a tenth of a point each."""
    rng = Random(seed)
    return [round(rng.gauss(N * (0.9 - STEP * build), SPREAD)) for build in range(BUILDS)]


def first_fail(spec: Spec, counts: list[int], window: slice) -> int | None:
    """The first build that fails; what passes becomes history, of which the gate sees a part."""
    runs: list[PastRun] = []
    for build, correct in enumerate(counts):
        if build > 2:
            statuses = [Status.CORRECT] * correct + [Status.WRONG] * (N - correct)
            if decide(spec, statuses, Past(runs=tuple(runs[window]))).outcome is Outcome.FAIL:
                return build
        runs.append(run(f"build-{build}", None, n=N, correct=correct))
    return None


def test_a_slow_drift_fails_against_the_frozen_norm_only(make_spec: Maker) -> None:
    """0.1 points a build over 60 builds: the first 30 as the norm fail it, the last 30 never notice."""
    spec, counts = make_spec(gate={"method": Method.AUTO, "floor": None, "alpha": 0.001}), drifting(2)
    frozen = first_fail(spec, counts, slice(None))
    assert frozen is not None
    assert BASELINE < frozen < BUILDS - 5
    assert first_fail(spec, counts, slice(-BASELINE, None)) is None
