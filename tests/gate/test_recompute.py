"""Thresholds derived from history as locks, and what one changes against another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.decide import decide
from gatekit.gate.lock_change import compare
from gatekit.gate.prior import own_prior
from gatekit.gate.recompute import recompute
from gatekit.gate.rung import Shortage
from gatekit.records.canonical import canonical_json, from_plain, to_plain
from gatekit.records.lock import Lock, Prior
from gatekit.records.past import Past
from gatekit.records.run import Comparability
from gatekit.records.spec import Budget, Gate, Method, Observed, Spec
from lock_builders import AUTO, KEY, lock_of
from past_builders import detailed, flipped, run, statuses, totals

Maker = Callable[..., Spec]
N = 200
DETAILED = detailed([flipped(N, range(10 + i, 30 + i)) for i in range(4)])
TOTALS = totals([178, 180, 182], N)
ON_HISTORY = (
    Method.BETA_BINOMIAL_PREDICTIVE,
    Method.MODERATED_T,
    Method.EXACT_MCNEMAR,
    Method.FLIP_PREDICTION,
    Method.EXACT_CONDITIONAL,
)


def as_bytes(lock: Lock) -> bytes:
    """What its file would hold."""
    return canonical_json(to_plain(lock))


@pytest.mark.parametrize("method", ON_HISTORY)
def test_a_lock_holds_the_counts_of_its_rule(make_spec: Maker, method: Method) -> None:
    """What `decide` works out from the same history is what the lock says, field by field."""
    spec = make_spec(gate={"method": method, "floor": None, "alpha": 0.01, "delta": 0.05})
    lock = lock_of(DETAILED, N, spec.gate)
    rule = decide(spec, statuses("c" * N), DETAILED).rule
    assert rule is not None
    assert (lock.method, lock.k_reject, lock.k_accept) == (method.value, rule.k_reject, rule.k_accept)
    assert (lock.noticed_drop, lock.phi, lock.psi, lock.df) == (rule.noticed_drop, rule.phi, rule.psi, rule.df)
    assert (lock.used, lock.excluded, lock.alpha) == (rule.used, rule.excluded, 0.01)
    assert lock.mean == pytest.approx(180)
    assert (lock.key, lock.fields, lock.prior) == (KEY.key, KEY.fields, own_prior(spec.gate))


@pytest.mark.parametrize(
    "gate",
    [
        Gate(name="hand", method=Method.STATIC_FLOOR, floor=0.95),
        Gate(name="typed", method=Method.EXACT_BINOMIAL, observed=Observed(correct=199, n=200)),
        Gate(name="locked", method=Method.LOCKED, floor=0.95),
    ],
)
def test_a_typed_gate_gets_the_strongest_rung_and_one_alarm_a_year(gate: Gate) -> None:
    """Typed numbers stay out of a lock; without a rate of its own the gate gets one false alarm in 365 nights."""
    yearly = replace(AUTO, alpha=None, budget=Budget(nights=365, gates=1))
    typed, auto = lock_of(DETAILED, N, gate), lock_of(DETAILED, N, yearly)
    assert typed.method == "exact_conditional"
    assert typed.alpha == pytest.approx(1 / 365)
    assert as_bytes(typed) == as_bytes(auto)


def test_a_rate_of_its_own_is_kept() -> None:
    """Sigmas, a budget and alpha are taken as they stand."""
    assert lock_of(TOTALS, N, replace(AUTO, method=Method.LOCKED, alpha=None, sigmas=3.0)).alpha < 0.00136
    budget = Budget(nights=100, gates=1)
    assert lock_of(TOTALS, N, replace(AUTO, method=Method.STATIC_FLOOR, alpha=None, budget=budget)).alpha == 0.01


@pytest.mark.parametrize("method", [Method.STATIC_FLOOR, Method.AUTO, Method.BETA_BINOMIAL_PREDICTIVE])
def test_no_history_is_a_shortage(method: Method) -> None:
    """A typed number is no history: without a comparable run there is no lock."""
    gate = Gate(name="g", method=method, floor=0.9, observed=Observed(correct=180, n=200), alpha=0.01)
    found = recompute(gate, "b200", "spec", KEY, N, Past(), own_prior(gate), as_of=None, version="1")
    assert isinstance(found, Shortage)
    assert (found.have, found.need) == (0, 1)


@settings(deadline=None, max_examples=40)
@given(
    answers=st.lists(st.lists(st.integers(0, 59), max_size=20), min_size=1, max_size=6),
    order=st.permutations(sorted(KEY.fields)),
    excluded=st.permutations(["INFRA", "FAIL", "stopped early"]),
)
def test_the_same_history_gives_the_same_bytes(answers: list[list[int]], order: list[str], excluded: list[str]) -> None:
    """A lock is byte-identical on repetition, whatever the order of the mappings it comes from, and readable."""
    past = detailed([flipped(60, places) for places in answers])
    once = recompute(AUTO, "b200", "s", KEY, 60, past, own_prior(AUTO), as_of=None, version="1")
    turned = Comparability(key=KEY.key, fields={name: KEY.fields[name] for name in order})
    again = recompute(AUTO, "b200", "s", turned, 60, past, own_prior(AUTO), as_of=None, version="1")
    assert isinstance(once, Lock)
    assert isinstance(again, Lock)
    assert repr(once) == repr(again)
    assert as_bytes(once) == as_bytes(again)
    assert from_plain(Lock, to_plain(once)) == once
    left_out = (
        recompute(
            AUTO,
            "b200",
            "s",
            KEY,
            60,
            replace(past, excluded=dict.fromkeys(names, 1)),
            own_prior(AUTO),
            as_of=None,
            version="1",
        )
        for names in (excluded, sorted(excluded))
    )
    assert len({repr(lock) for lock in left_out}) == 1


def test_the_inputs_digest_speaks_for_everything() -> None:
    """Another key, design, run, answer, prior, date or version is another digest; a run left out changes none."""
    base = lock_of(DETAILED, N)
    prior = own_prior(AUTO)

    def inputs(**changed: object) -> str:
        asked: dict[str, object] = {
            "gate": AUTO,
            "hw": "b200",
            "key": KEY,
            "past": DETAILED,
            "prior": prior,
            "as_of": "2026-11-30",
            "version": "1",
        } | changed
        found = recompute(**{"spec": "spec", "n": N} | asked)  # type: ignore[arg-type]  # as named
        assert isinstance(found, Lock)
        return found.inputs

    assert inputs() == base.inputs
    renamed = replace(DETAILED, runs=(replace(DETAILED.runs[0], run_id="other"), *DETAILED.runs[1:]))
    swapped = replace(
        DETAILED,
        runs=(*DETAILED.runs[:-1], replace(DETAILED.runs[-1], outcomes=DETAILED.runs[-1].outcomes[::-1])),  # type: ignore[index]  # it has answers
    )
    others = {
        inputs(key=Comparability(key="sha256:" + "f" * 64, fields={})),
        inputs(gate=replace(AUTO, delta=0.02)),
        inputs(gate=replace(AUTO, baseline_builds=7)),
        inputs(past=renamed),
        inputs(past=swapped),
        inputs(prior=replace(prior, psi0=1.1)),
        inputs(as_of=None),
        inputs(version="2"),
    }
    assert len(others) == 8
    assert base.inputs not in others
    elsewhere = replace(DETAILED, runs=(*DETAILED.runs, run("far", "c" * N, hardware="l4")))
    assert inputs(past=elsewhere, gate=replace(AUTO, phi0=0.5)) == base.inputs


def test_a_lock_rests_on_the_baseline_alone() -> None:
    """Runs after the first baseline_builds builds are counted as excluded and move no number."""
    gate = replace(AUTO, baseline_builds=3)
    first = lock_of(TOTALS, N, gate)
    later = lock_of(replace(TOTALS, runs=(*TOTALS.runs, *totals([120] * 5, N).runs)), N, gate)
    assert later.excluded == {"after the baseline": 5}
    assert replace(later, excluded={}) == first


def test_a_pooled_prior_moves_the_threshold() -> None:
    """A matrix that knows the spread well narrows the margin of a series with two runs, and the lock says so."""
    two = totals([179, 181], N)
    own = lock_of(two, N)
    pooled = Prior(phi0=0.1, nu0=60.0, psi0=1.0, nu_psi=60.0, series=12)
    known = recompute(AUTO, "b200", "spec", KEY, N, two, pooled, as_of=None, version="1")
    assert isinstance(known, Lock)
    assert known.k_reject > own.k_reject
    assert known.prior.series == 12


def test_the_first_lock_changes_everything() -> None:
    """Without a lock before, every value that is set is new, and nothing is looser."""
    found = compare(None, lock_of(TOTALS, N))
    assert (found.is_first, found.is_looser, found.is_new_series) == (True, False, False)
    assert all(one.old is None for one in found.changed)
    assert {"k_reject", "fields.protocol.api", "prior.phi0", "used"} <= {one.field for one in found.changed}


def test_the_same_lock_changes_nothing() -> None:
    """A reason that was written into the old lock is no change."""
    lock = lock_of(TOTALS, N)
    found = compare(replace(lock, looser_because="a new kernel"), lock)
    assert (found.changed, found.is_looser, found.is_first) == ((), False, False)


def test_changes_are_told_field_by_field() -> None:
    """Old and new value of what differs, nested ones by their path."""
    old = lock_of(TOTALS, N)
    found = compare(old, replace(old, k_reject=170, excluded={"INFRA": 2}, used=("t1", "t2")))
    said = [(one.field, one.old, one.new) for one in found.changed]
    assert said == [
        ("k_reject", 173, 170),
        ("used", ["t0", "t1", "t2"], ["t1", "t2"]),
    ]


COUNTS = st.tuples(st.integers(0, N), st.none() | st.integers(0, N))


@given(then=COUNTS, now=COUNTS, correct=st.integers(0, N))
def test_a_lock_that_is_not_looser_passes_nothing_more(
    then: tuple[int, int | None], now: tuple[int, int | None], correct: int
) -> None:
    """Where a new lock is not called looser, no count that failed passes or fails no more, and none newly passes."""
    base = lock_of(TOTALS, N)
    old, new = (replace(base, k_reject=reject, k_accept=accept) for reject, accept in (then, now))

    def outcome(lock: Lock) -> int:
        return (correct >= lock.k_reject) + (correct >= max(lock.k_reject, lock.k_accept or 0))

    if not compare(old, new).is_looser:
        assert outcome(new) <= outcome(old)


OTHER = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("changed", "needs_reason"),
    [
        ({"key": OTHER}, False),
        ({"key": OTHER, "k_reject": 174}, False),
        ({"key": OTHER, "k_reject": 172}, True),
        ({"key": OTHER, "k_accept": 180}, False),
        ({"n": 100, "k_reject": 87}, False),
        ({"n": 100, "k_reject": 86}, True),
        ({"key": OTHER, "used": ("a", "b")}, True),
        ({"key": OTHER, "used": ("a", "b", "c", "d")}, False),
        ({"used": ("a", "b")}, False),
        ({"k_reject": 172}, True),
    ],
)
def test_a_lock_of_another_series_is_compared_by_its_share(changed: dict[str, Any], needs_reason: bool) -> None:
    """One that asks for a smaller share, or rests on fewer builds, replaces another only for a reason."""
    old = lock_of(TOTALS, N)
    assert (old.k_reject, old.k_accept, len(old.used)) == (173, None, 3)
    found = compare(old, replace(old, **changed))
    is_new = "key" in changed or "n" in changed
    assert (found.needs_reason, found.is_new_series) == (needs_reason, is_new)
    assert found.is_looser == (needs_reason and not is_new)
