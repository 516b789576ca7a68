"""What the audit of a gate must say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.audit import Audit, audit_gate, audit_spec, audit_typed
from gatekit.records.spec import Budget, Gate, MeasuredUnder, Method, Observed, Spec

FLOORS = st.integers(min_value=0, max_value=100).map(lambda percent: percent / 100)


def hand(floor: float, tolerance: float = 0.0, observed: Observed | None = None, **more: object) -> Gate:
    """A hand-set floor."""
    return Gate(
        name="hand",
        method=Method.STATIC_FLOOR,
        floor=floor,
        tolerance=tolerance,
        observed=observed,
        **more,  # type: ignore[arg-type]  # fields of Gate, as the test names them
    )


def texts(audit: Audit) -> dict[str, str]:
    """The findings by id."""
    return {finding.id: finding.text for finding in audit.findings}


def test_inkling_small() -> None:
    """0.85 of 200 from a measured 0.900 is 2.36 sd, 0.95 % false alarms, and 45 % power at 5 points."""
    found = audit_gate(hand(0.85, observed=Observed(correct=180, n=200)), 200, name="inkling")
    assert found.figures is not None
    assert found.figures.k_pass == 170
    assert found.figures.sigmas == pytest.approx(2.357, abs=5e-4)
    assert found.figures.false_alarms[0].fails == pytest.approx(0.00951, abs=5e-6)
    assert found.figures.drops[0].drop == 0.05
    assert found.figures.drops[0].fails == pytest.approx(0.45, abs=5e-3)
    said = texts(found)
    assert "passes in 54.9 % of runs" in said["gate-blind"]
    assert "'>=' needs 170 and fails 0.951 %" in said["strict-differs"]
    assert "'>' needs 171: 1.63 %" in said["strict-differs"]
    assert "gate-in-noise" not in said


def test_vllm_with_tolerance() -> None:
    """0.90 less 0.08 at 1319 questions passes a 5-point drop in 99.86 % of runs."""
    found = audit_typed(hand(0.90, 0.08), 1319, healthy=0.90, strict=False)
    assert found.figures is not None
    assert found.figures.k_pass == 1082
    assert 1 - found.figures.drops[0].fails == pytest.approx(0.9986, abs=5e-5)
    assert "99.86 %" in texts(found)["gate-blind"]
    assert "0.82 is enforced (1082 of 1319)" in texts(found)["hidden-tolerance"]


@pytest.mark.parametrize(("healthy", "rate"), [(0.90, 0.51), (0.905, 0.278), (0.91, 0.111), (0.92, 0.0052)])
def test_strict_floor_at_the_truth(healthy: float, rate: float) -> None:
    """Strict 0.90 at 1319 questions fails healthy models as often as the published figures say."""
    found = audit_typed(hand(0.90), 1319, healthy=healthy, strict=True)
    assert found.figures is not None
    assert found.figures.false_alarms[0].fails == pytest.approx(rate, rel=0.02)
    assert ("gate-in-noise" in found.ids) == (rate > 0.05)


@pytest.mark.parametrize(("floor", "share", "requests"), [(0.95, 0.084, 111), (0.45, 0.178, 234), (0.29, 0.276, 363)])
def test_failed_requests_that_stay_green(floor: float, share: float, requests: int) -> None:
    """Where failures are scored as wrong, tolerance over threshold is the share of them that stays green."""
    found = audit_typed(hand(floor, 0.08), 1319, healthy=None, strict=False)
    assert found.figures is not None
    assert found.figures.hidden.requests == requests
    assert found.figures.hidden.share == pytest.approx(share, abs=5e-4)
    assert "failures-hidden" in found.ids


def test_without_a_reference() -> None:
    """Without a measured accuracy both rates are given, at the floor and half a point above, and it is said."""
    found = audit_gate(hand(0.90), 1319, name="laguna")
    assert found.figures is not None
    assert [(c.accuracy, round(c.fails, 3)) for c in found.figures.false_alarms] == [(0.9, 0.51), (0.905, 0.278)]
    assert {"no-reference", "gate-in-noise"} <= found.ids
    assert "failures-hidden" not in found.ids


def test_a_gate_that_cannot_fail_or_pass() -> None:
    """A floor at or below zero is VACUOUS; a strict floor of 1 can never pass."""
    assert "vacuous" in audit_gate(hand(0.05, 0.08), 1319, name="x").ids
    assert "never-passes" in audit_typed(hand(1.0), 10, healthy=0.9, strict=True).ids


def test_underpowered() -> None:
    """Where a PASS must exclude a drop that n cannot exclude, the zone without a verdict is named."""
    gate = Gate(
        name="x",
        method=Method.EXACT_BINOMIAL,
        observed=Observed(correct=900, n=1000),
        alpha=0.001,
        delta=0.05,
    )
    found = audit_gate(gate, 200, name="x")
    assert "166 to 176 correct give no verdict" in texts(found)["underpowered"]


def test_history_rules_say_what_they_are_without_history(make_spec: Callable[..., Spec]) -> None:
    """A rule on earlier runs is audited as the one it is without them, or has no figures."""
    measured = Gate(
        name="a", method=Method.AUTO, observed=Observed(correct=180, n=200), budget=Budget(nights=9, gates=1)
    )
    found = audit_gate(measured, 200, name="a")
    assert found.method == "exact_binomial"
    assert "needs-history" in found.ids
    bare = audit_gate(Gate(name="b", method=Method.MODERATED_T), 200, name="b")
    assert bare.figures is None
    assert bare.ids == {"needs-history"}


def test_a_gate_of_another_protocol(make_spec: Callable[..., Spec]) -> None:
    """A gate measured under other conditions than the spec's is found before anything runs."""
    spec = make_spec(gate={"measured_under": MeasuredUnder(n=1319)})
    assert "protocol-mismatch" in audit_spec(spec, 200).ids
    assert "protocol-mismatch" not in audit_spec(spec, 1319).ids


@given(FLOORS, FLOORS, FLOORS, st.integers(min_value=1, max_value=400), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_typed_gate_has_an_audit(floor: float, tolerance: float, p0: float, n: int, strict: bool) -> None:
    """Rates are probabilities, a tolerance never adds false alarms, a strict operator never removes any."""
    healthy = min(max(p0, 0.01), 0.99)
    loose = audit_typed(hand(floor, tolerance), n, healthy=healthy, strict=False).figures
    tight = audit_typed(hand(floor), n, healthy=healthy, strict=strict).figures
    assert loose is not None
    assert tight is not None
    assert 0 <= loose.false_alarms[0].fails <= tight.false_alarms[0].fails <= 1
    assert all(drop.fails >= loose.false_alarms[0].fails for drop in loose.drops)
    assert 0 <= loose.hidden.share <= 1
