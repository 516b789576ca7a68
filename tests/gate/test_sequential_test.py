"""What a gate's sequential test rests on, and what it says of statuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gatekit.errors import ConfigError
from gatekit.gate.criterion import Criterion, criterion
from gatekit.gate.early_stop import early_outcome, early_test
from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import EarlyStop, Method, Observed, Spec
from gatekit.records.verdict import Outcome, Rule
from gatekit.stats.wor_mixture import WorMixture

N = 200
MakeSpec = Callable[..., Spec]
SEQUENTIAL = {"method": Method.EXACT_BINOMIAL, "observed": Observed(correct=180, n=200), "alpha": 0.01, "delta": 0.05}


def spec_of(make_spec: MakeSpec, early_stop: EarlyStop, **gate: object) -> Spec:
    return make_spec(gate={**SEQUENTIAL, "floor": None, "early_stop": early_stop, **gate}, task={"order_seed": 1})


def rule_of(spec: Spec, past: Past) -> Rule:
    found = criterion(spec, N, past)
    assert isinstance(found, Criterion)
    return found.rule


def past(builds: int) -> Past:
    """So many builds, each with its own two flips."""
    runs = []
    for build in range(builds):
        outcomes = bytes(question < 180 and question // 2 != build for question in range(N))
        runs.append(
            PastRun(
                run_id=f"run-{build}",
                build=f"build-{build}",
                hardware="b200",
                finished_at=f"2026-11-{build + 1:02d}T00:00:00Z",
                n=N,
                correct=sum(outcomes),
                outcomes=outcomes,
            )
        )
    return Past(runs=tuple(runs))


def test_the_mixture_stands_on_reference_and_drop(make_spec: MakeSpec) -> None:
    """Healthy is the reference accuracy, dropped is delta below it."""
    spec = spec_of(make_spec, EarlyStop.WOR_MIXTURE)
    found = early_test(spec, N, rule_of(spec, Past()), Past())
    assert found is not None
    assert isinstance(found.test, WorMixture)
    assert (found.test.healthy, found.test.dropped, found.note) == (180, 170, "")


def test_a_gate_without_early_stop_has_no_test(make_spec: MakeSpec) -> None:
    """Nothing is tested that nobody asked for."""
    spec = spec_of(make_spec, EarlyStop.NONE)
    assert early_test(spec, N, rule_of(spec, Past()), Past()) is None


@pytest.mark.parametrize(
    ("builds", "wrong", "right", "note"),
    [
        (2, None, None, "2 distinct builds with answers per question, 3 needed to stop on FAIL"),
        (3, Outcome.FAIL, None, "3 distinct builds with answers per question, 10 needed to stop on PASS"),
        (10, Outcome.FAIL, Outcome.PASS, ""),
    ],
)
def test_the_paired_test_says_what_its_history_supports(
    make_spec: MakeSpec, builds: int, wrong: Outcome | None, right: Outcome | None, note: str
) -> None:
    """Too few builds are named, and cost the verdicts that they cannot carry."""
    spec = spec_of(make_spec, EarlyStop.PAIRED_SPRT)
    found = early_test(spec, N, rule_of(spec, past(builds)), past(builds))
    assert found is not None
    assert note in found.note
    assert bool(note) == bool(found.note)
    if found.test is not None:
        assert early_outcome(found.test, [Status.WRONG] * N) is wrong
        assert early_outcome(found.test, [Status.CORRECT] * N) is right
    else:
        assert (wrong, right) == (None, None)


@pytest.mark.parametrize("status", [None, Status.LOST, Status.TRUNCATED])
def test_what_says_nothing_decides_nothing(make_spec: MakeSpec, status: Status | None) -> None:
    """Unasked, lost and cut-off answers are neither right nor wrong."""
    spec = spec_of(make_spec, EarlyStop.WOR_MIXTURE)
    found = early_test(spec, N, rule_of(spec, Past()), Past())
    assert found is not None
    assert found.test is not None
    assert early_outcome(found.test, [status] * N) is None
    assert early_outcome(found.test, [Status.NO_ANSWER] * 10) is Outcome.FAIL


def test_all_that_is_missing_is_said_at_once(make_spec: MakeSpec) -> None:
    """Drop and order are both named."""
    spec = make_spec(gate={**SEQUENTIAL, "floor": None, "early_stop": EarlyStop.WOR_MIXTURE, "delta": None})
    with pytest.raises(ConfigError) as error:
        early_test(spec, N, rule_of(spec, Past()), Past())
    assert [problem.reason for problem in error.value.problems] == ["early-stop-needs-delta", "early-stop-needs-order"]
