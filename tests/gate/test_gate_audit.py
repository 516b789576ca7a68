"""What the audit of a gate must say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gatekit.gate.audit import Audit, audit_gate, audit_spec, audit_typed
from gatekit.records.spec import Budget, EarlyStop, Gate, MeasuredUnder, Method, Observed, Spec

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


@pytest.mark.parametrize(
    ("floor", "share", "requests"), [(0.95, 0.0842, 111), (0.45, 0.1774, 234), (0.29, 0.2752, 363)]
)
def test_failed_requests_that_stay_green(floor: float, share: float, requests: int) -> None:
    """Where failures are scored as wrong, tolerance over threshold is the share of them that stays green."""
    found = audit_typed(hand(floor, 0.08), 1319, healthy=None, strict=False)
    assert found.figures is not None
    assert found.figures.hidden is not None
    assert found.figures.hidden.requests == requests
    assert found.figures.hidden.share == pytest.approx(share, abs=5e-5)
    assert 0.45 < found.figures.hidden.passes < 0.55
    assert f"{requests} failed requests of 1319" in texts(found)["failures-hidden"]


def test_without_a_reference() -> None:
    """Without a measured accuracy both rates are given, at the floor and half a point above, and it is said."""
    found = audit_gate(hand(0.90), 1319, name="laguna")
    assert found.figures is not None
    assert [(c.accuracy, round(c.fails, 3)) for c in found.figures.false_alarms] == [(0.9, 0.51), (0.905, 0.278)]
    assert {"no-reference", "gate-in-noise"} <= found.ids
    assert "failures-hidden" not in found.ids
    order = [finding.id for finding in found.findings]
    assert order.index("no-reference") < order.index("gate-in-noise")
    said = texts(found)["gate-in-noise"]
    assert said == "a hypothetical model of accuracy 0.905, 0.5 points above the floor, would fail in 27.8 % of runs"


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
    said = texts(found)["underpowered"]
    assert said.startswith("166 to 176 correct give no verdict")
    assert found.figures is not None
    (drop,) = found.figures.drops
    assert drop.passes == pytest.approx(float(binom.sf(176, 200, 0.85)))
    assert drop.fails == pytest.approx(float(binom.cdf(165, 200, 0.85)))
    assert drop.passes <= 0.1
    assert "gate-blind" not in found.ids


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
    assert loose.hidden is not None
    assert 0 <= loose.hidden.share <= 1


def test_failed_requests_are_counted_as_said() -> None:
    """11 of 200 are 5.5 %, and the share of healthy runs that stays green with them is the binomial one."""
    found = audit_typed(hand(0.85), 200, healthy=0.90, strict=False)
    assert found.figures is not None
    hidden = found.figures.hidden
    assert hidden is not None
    assert (hidden.requests, hidden.share) == (11, 0.055)
    assert hidden.passes == pytest.approx(float(binom.sf(169, 189, 0.9)))
    assert "11 failed requests of 200 (5.5 %) stay green in 57 % of healthy runs" in texts(found)["failures-hidden"]


def measured(delta: float | None, method: Method = Method.EXACT_BINOMIAL, **more: object) -> Gate:
    """A gate of a measured accuracy of 0.9."""
    return Gate(
        name="m",
        method=method,
        observed=Observed(correct=900, n=1000),
        alpha=0.001,
        delta=delta,
        **more,  # type: ignore[arg-type]  # fields of Gate, as the test names them
    )


def test_a_drop_that_no_rule_excludes() -> None:
    """A floor's delta needs gate.observed, a drop of all there is excludes nothing; --delta of a floor is neither."""
    unknown = replace(measured(0.02, Method.STATIC_FLOOR, floor=0.85), observed=None)
    assert "needs gate.observed" in texts(audit_gate(unknown, 1319, name="m"))["delta-needs-observed"]
    known = audit_gate(measured(0.02, Method.STATIC_FLOOR, floor=0.85), 1319, name="m")
    assert "delta-needs-observed" not in known.ids
    large = audit_gate(measured(0.9), 1319, name="m")
    assert "a drop of 90 points from a healthy accuracy of 0.9 leaves nothing" in texts(large)["delta-too-large"]
    fine = audit_gate(measured(0.05), 1319, name="m")
    typed = audit_typed(hand(0.85, delta=0.02), 1319, healthy=0.9, strict=False)
    assert not {"delta-needs-observed", "delta-too-large"} & (fine.ids | typed.ids)


def test_a_floor_beside_a_rule_on_either_side() -> None:
    """A floor one answer above the rule's count binds, at it or below it is idle, and without one neither is said."""
    alone = audit_gate(measured(None), 1319, name="m").figures
    assert alone is not None
    above, at = (alone.k_reject + 0.5) / 1319, (alone.k_reject - 0.5) / 1319
    assert "floor-binds" in audit_gate(measured(None, floor=above), 1319, name="m").ids
    assert "floor-idle" in audit_gate(measured(None, floor=at), 1319, name="m").ids
    assert not {"floor-binds", "floor-idle"} & audit_gate(measured(None), 1319, name="m").ids


def test_no_id_is_repeated_in_its_sentence() -> None:
    """What an id says in brackets its sentence does not shout again."""
    found = [audit_gate(measured(0.01), 200, name="m"), audit_gate(hand(0.05, 0.08), 200, name="m")]
    assert {"underpowered", "vacuous"} <= found[0].ids | found[1].ids
    assert all(finding.id.upper() not in finding.text for audit in found for finding in audit.findings)


def test_a_rate_too_small_to_show_is_not_compared() -> None:
    """Where both rates read alike, the uncertainty of the reference makes no difference worth a word."""
    tiny = audit_gate(measured(None, Method.STATIC_FLOOR, floor=0.6), 1319, name="m")
    assert "reference-uncertain" not in tiny.ids
    assert "reference-uncertain" in audit_gate(measured(None), 1319, name="m").ids


@pytest.mark.parametrize("method", [Method.LOCKED, Method.MODERATED_T, Method.EXACT_CONDITIONAL])
def test_a_rule_that_falls_back_on_nothing_says_so(method: Method) -> None:
    """Only auto, and a beta-binomial rule with a stated baseline, decide without what they take thresholds from."""
    said = texts(audit_gate(measured(None, method), 1319, name="m"))["needs-history"]
    assert "without it every verdict is INCONCLUSIVE" in said
    for weaker in (Method.AUTO, Method.BETA_BINOMIAL_PREDICTIVE):
        assert "INCONCLUSIVE" not in texts(audit_gate(measured(None, weaker), 1319, name="m"))["needs-history"]


def early(make_spec: Callable[..., Spec], early_stop: EarlyStop, **fields: object) -> Audit:
    """The audit of a gate of a measured accuracy of 0.95 with a sequential test."""
    rates = {"budget": Budget(nights=365, gates=1), "delta": 0.05, "early_stop": early_stop}
    gate = {"method": Method.EXACT_BINOMIAL, "floor": None, "observed": Observed(correct=1253, n=1319)}
    return audit_spec(make_spec(gate={**gate, **rates, **fields}, task={"order_seed": 1}), 1319)


def test_a_sequential_test_takes_its_share(make_spec: Callable[..., Spec]) -> None:
    """Beside a sequential test the figures are those of the rule at half of its rates, as a run decides."""
    alone, beside = early(make_spec, EarlyStop.NONE), early(make_spec, EarlyStop.WOR_MIXTURE)
    assert alone.figures is not None
    assert beside.figures is not None
    assert (alone.figures.k_reject, beside.figures.k_reject) == (1230, 1228)
    assert not {"early-stop", "no-early-stop"} & alone.ids
    assert "half of alpha 0.00274 and of beta 0.1" in texts(beside)["early-stop"]
    assert "at most 0.137 % of false alarms and 5 % of misses" in texts(beside)["early-stop"]
    for method in (Method.AUTO, Method.LOCKED):
        assert early(make_spec, EarlyStop.WOR_MIXTURE, method=method).figures == beside.figures


@pytest.mark.parametrize(
    ("early_stop", "fields", "says"),
    [
        (EarlyStop.WOR_MIXTURE, {"delta": 0.01}, "cannot tell a drop of 0.01"),
        (EarlyStop.WOR_MIXTURE, {"delta": None}, "a run is refused: gate hand: early_stop needs gate.delta"),
        (EarlyStop.PAIRED_SPRT, {}, "0 distinct builds with answers per question"),
    ],
)
def test_where_no_test_can_be_made_the_rule_keeps_its_rates(
    make_spec: Callable[..., Spec], early_stop: EarlyStop, fields: dict[str, object], says: str
) -> None:
    """A sequential test that cannot be made takes nothing, and it is said why there is none."""
    found = early(make_spec, early_stop, **fields)
    assert found.figures is not None
    assert found.figures.k_reject == 1230
    assert says in texts(found)["no-early-stop"]


def test_a_lock_is_not_bound_by_what_a_floor_was_measured_under(make_spec: Callable[..., Spec]) -> None:
    """Beside a lock a floor of another protocol decides nothing, and the audit says so instead of INCONCLUSIVE."""
    gate = {"method": Method.LOCKED, "floor": 0.9, "measured_under": MeasuredUnder(n=1319)}
    said = texts(audit_spec(make_spec(gate=gate), 200))
    assert said["protocol-mismatch"].startswith("gate.floor does not bind beside a lock, which decides alone")
