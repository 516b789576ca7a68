"""What a gate's sequential test rests on, how the error rates are shared with it, and what it says of statuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gatekit.errors import ConfigError
from gatekit.gate.criterion import Criterion
from gatekit.gate.decide import decide, sequential_test
from gatekit.gate.early_stop import early_outcome
from gatekit.gate.rule import rule
from gatekit.gate.split_criterion import criterion
from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import EarlyStop, Gate, Method, Observed, Spec
from gatekit.records.verdict import Early, Outcome, Rule
from gatekit.stats.binomial import accept_count, reject_count
from gatekit.stats.next_count import reject_below
from gatekit.stats.wor_mixture import WorMixture

N = 200
MakeSpec = Callable[..., Spec]
SEQUENTIAL = {"method": Method.EXACT_BINOMIAL, "observed": Observed(correct=180, n=200), "alpha": 0.01, "delta": 0.15}


def spec_of(make_spec: MakeSpec, early_stop: EarlyStop = EarlyStop.WOR_MIXTURE, /, **gate: object) -> Spec:
    return make_spec(gate={**SEQUENTIAL, "floor": None, "early_stop": early_stop, **gate}, task={"order_seed": 1})


def found_of(spec: Spec, before: Past | None = None) -> Criterion:
    found = criterion(spec, N, before or Past())
    assert isinstance(found, Criterion)
    return found


def early_of(found: Rule) -> Early:
    assert found.early is not None
    return found.early


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


def test_the_error_rates_are_shared(make_spec: MakeSpec) -> None:
    """The rule is made at half of alpha and beta, K0 is its own count, K1 the most that must not pass."""
    found = found_of(spec_of(make_spec)).rule
    assert (found.alpha, found.k_reject, found.k_accept) == (
        0.005,
        reject_count(N, 0.9, 0.005),
        accept_count(N, 0.75, 0.05),
    )
    assert found.k_accept is not None
    assert found.early == Early(
        method="wor_mixture",
        alpha=0.005,
        beta=0.05,
        asked_alpha=0.01,
        asked_beta=0.1,
        healthy=found.k_reject,
        dropped=found.k_accept - 1,
    )
    test = sequential_test(spec_of(make_spec), N, Past())
    assert test is not None
    assert isinstance(test.test, WorMixture)
    assert (test.test.healthy, test.test.dropped, test.note) == (found.k_reject, found.k_accept - 1, "")


def test_a_p_value_needs_a_share_for_the_count(make_spec: MakeSpec) -> None:
    """A p-value fails other runs than those below a count: a quarter of alpha for K0, a quarter for the test."""
    gate = {"method": Method.AUTO, "observed": None, "alpha": 0.04, "delta": 0.2}
    found = found_of(spec_of(make_spec, **gate), past(10))
    assert (found.rule.method, found.rule.alpha) == ("exact_conditional", 0.02)
    assert found.predicted is not None
    early = early_of(found.rule)
    assert (early.alpha, early.asked_alpha) == (0.01, 0.04)
    assert early.healthy == reject_below(found.predicted, 0.01) < found.rule.k_reject


def test_a_gate_without_early_stop_has_no_test(make_spec: MakeSpec) -> None:
    """Nothing is tested that nobody asked for, and the rule has the whole of alpha."""
    spec = spec_of(make_spec, EarlyStop.NONE)
    assert sequential_test(spec, N, Past()) is None
    assert (found_of(spec).rule.alpha, found_of(spec).rule.early) == (0.01, None)


def test_a_drop_that_cannot_be_told_is_not_tested(make_spec: MakeSpec) -> None:
    """K0 at or below K1: no test, the whole of alpha for the rule, and a warning with the smallest drop that works."""
    spec = spec_of(make_spec, delta=0.05)
    assert found_of(spec).rule == found_of(spec_of(make_spec, EarlyStop.NONE, delta=0.05)).rule
    test = sequential_test(spec, N, Past())
    assert test is not None
    assert test.test is None
    assert test.note.startswith("no early stop: 200 questions cannot tell a drop of 0.05")
    smallest = float(test.note.rpartition("gate.delta=")[2])
    assert found_of(spec_of(make_spec, delta=smallest)).rule.early is not None
    assert found_of(spec_of(make_spec, delta=smallest - 0.001)).rule.early is None


def test_where_no_drop_can_be_told_none_is_named(make_spec: MakeSpec) -> None:
    """One question tells nothing: no drop is recommended."""
    found = criterion(spec_of(make_spec), 1, Past())
    assert isinstance(found, Criterion)
    assert found.early_note == "no early stop: 1 question cannot tell a drop of 0.15, or any other"


def test_a_floor_and_its_measurement_have_a_test_too(make_spec: MakeSpec) -> None:
    """A floor keeps its own count as K0, and the test adds half of alpha at most."""
    found = found_of(spec_of(make_spec, method=Method.STATIC_FLOOR, floor=0.85)).rule
    assert (found.alpha, found.k_reject, early_of(found).healthy, early_of(found).alpha) == (None, 170, 170, 0.005)


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
    """Too few builds are named, and cost the verdicts that they cannot carry; else alpha is shared."""
    spec = spec_of(make_spec, EarlyStop.PAIRED_SPRT, delta=0.05)
    found = sequential_test(spec, N, past(builds))
    assert found is not None
    assert note in found.note
    assert bool(note) == bool(found.note)
    made = found_of(spec, past(builds)).rule
    if found.test is not None:
        assert early_outcome(found.test, [Status.WRONG] * N) is wrong
        assert early_outcome(found.test, [Status.CORRECT] * N) is right
        assert (made.alpha, early_of(made).alpha, early_of(made).builds) == (0.005, 0.005, builds)
    else:
        assert (wrong, right, made.alpha, made.early) == (None, None, 0.01, None)


@pytest.mark.parametrize("status", [None, Status.LOST, Status.TRUNCATED])
def test_what_says_nothing_decides_nothing(make_spec: MakeSpec, status: Status | None) -> None:
    """Unasked, lost and cut-off answers are neither right nor wrong."""
    found = sequential_test(spec_of(make_spec), N, Past())
    assert found is not None
    assert found.test is not None
    assert early_outcome(found.test, [status] * N) is None
    assert early_outcome(found.test, [Status.NO_ANSWER] * 10) is Outcome.FAIL


def test_all_that_is_missing_is_said_at_once(make_spec: MakeSpec) -> None:
    """Drop and order are both named."""
    spec = make_spec(gate={**SEQUENTIAL, "floor": None, "early_stop": EarlyStop.WOR_MIXTURE, "delta": None})
    with pytest.raises(ConfigError) as error:
        criterion(spec, N, Past())
    assert [problem.reason for problem in error.value.problems] == ["early-stop-needs-delta", "early-stop-needs-order"]


def test_a_floor_without_a_measurement_is_no_reference(make_spec: MakeSpec) -> None:
    """static_floor with a delta and no observed accuracy is refused; auto passes nothing before it has history."""
    gate = {"method": Method.STATIC_FLOOR, "floor": 0.85, "observed": None}
    with pytest.raises(ConfigError) as error:
        criterion(spec_of(make_spec, EarlyStop.NONE, **gate), N, Past())
    assert error.value.reason == "floor-delta-needs-observed"
    with pytest.raises(ConfigError) as error:
        criterion(spec_of(make_spec, **gate), N, Past())
    assert error.value.reason == "early-stop-needs-reference"
    auto = spec_of(make_spec, **(gate | {"method": Method.AUTO}))
    reached, below = (
        decide(auto, [Status.CORRECT] * right + [Status.WRONG] * (N - right), Past()) for right in (190, 160)
    )
    assert (reached.outcome, reached.reason_code) == (Outcome.INCONCLUSIVE, "no-reference")
    assert below.outcome is Outcome.FAIL


def test_a_measured_floor_excludes_the_drop(make_spec: MakeSpec) -> None:
    """static_floor takes its k_accept from gate.observed: it passes where the drop is excluded, not before."""
    spec = spec_of(make_spec, EarlyStop.NONE, method=Method.STATIC_FLOOR, floor=0.8, delta=0.05)
    accept = accept_count(N, 0.85, 0.1)
    for right, outcome in ((159, Outcome.FAIL), (accept - 1, Outcome.INCONCLUSIVE), (accept, Outcome.PASS)):
        assert decide(spec, [Status.CORRECT] * right + [Status.WRONG] * (N - right), Past()).outcome is outcome


@pytest.mark.parametrize("method", [Method.EXACT_BINOMIAL, Method.STATIC_FLOOR, Method.MODERATED_T])
def test_a_drop_that_leaves_nothing_is_refused(make_spec: MakeSpec, method: Method) -> None:
    """gate.delta at the healthy accuracy or above is a mistake of the user, said in one line."""
    floor = 0.8 if method is Method.STATIC_FLOOR else None
    with pytest.raises(ConfigError) as error:
        criterion(spec_of(make_spec, EarlyStop.NONE, method=method, floor=floor, delta=0.9), N, past(3))
    assert error.value.reason == "drop-too-large"
    assert len(error.value.lines()) == 1


def test_a_sequential_verdict_has_no_p_value(make_spec: MakeSpec) -> None:
    """The p-value of a run that was cut short is that of questions nobody asked."""
    gate = {"method": Method.AUTO, "observed": None, "alpha": 0.04, "delta": 0.2}
    spec = spec_of(make_spec, **gate)
    cut = decide(spec, [Status.WRONG] * 12 + [None] * (N - 12), past(10))
    assert (cut.outcome, cut.reason_code, cut.p_value) == (Outcome.FAIL, "sequential-fail", None)


def test_a_floor_at_the_healthy_accuracy_notices_nothing() -> None:
    """Where the floor fails a healthy model as it is, no drop of 0 points is claimed to be noticed."""
    gate = Gate(name="g", method=Method.STATIC_FLOOR, floor=0.95, observed=Observed(correct=160, n=200))
    notes = rule(replace(gate), N).notes
    assert any("it fails in over 99.9 % of runs as it is" in note for note in notes)
    assert not any("0 points" in note for note in notes)
