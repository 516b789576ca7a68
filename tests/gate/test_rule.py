"""A gate as integer counts with its real error rates."""

from __future__ import annotations

import pytest
from scipy import stats

from gatekit.errors import ConfigError
from gatekit.gate.rule import rule
from gatekit.records.spec import Budget, Gate, Method, Observed


def gate(method: Method = Method.EXACT_BINOMIAL, **fields: object) -> Gate:
    """A gate of the given fields."""
    return Gate(name="g", method=method, **fields)  # type: ignore[arg-type]  # fields vary by test


FLOOR, EXACT = Method.STATIC_FLOOR, Method.EXACT_BINOMIAL
SEEN_180 = Observed(correct=180, n=200)


def test_the_hand_typed_085_gate_at_200_questions() -> None:
    """0.85 with 180 of 200 observed is 170 correct, 2.357 sd below, and fails a healthy model in 0.951 %."""
    found = rule(gate(FLOOR, floor=0.85, observed=SEEN_180), 200)
    assert (found.k_reject, found.k_accept, found.reference_accuracy) == (170, None, 0.9)
    assert found.alpha is None
    assert found.sigmas == pytest.approx(2.357, abs=5e-4)
    assert found.realised_alpha == pytest.approx(0.00951, abs=5e-6)
    assert found.noticed_drop is not None
    assert stats.binom.cdf(169, 200, 0.9 - found.noticed_drop) == pytest.approx(0.9, rel=1e-9)


def test_one_percent_gives_the_same_count() -> None:
    """exact_binomial at alpha 1 % and 180 of 200 observed needs 170 too, and says its p0 is a measurement."""
    found = rule(gate(observed=SEEN_180, alpha=0.01), 200)
    assert (found.k_reject, found.k_accept, found.alpha) == (170, None, 0.01)
    assert any("one measurement of 200 questions: its standard deviation is 2.1 points" in n for n in found.notes)


def test_the_raised_laguna_gate_says_what_it_costs_and_misses() -> None:
    """0.90 at 1319 fails a healthy 0.905 model in 27.8 % of runs; with tolerance 0.08 it misses 5 points."""
    strict = rule(gate(FLOOR, floor=0.9), 1319)
    assert "0.9 at n=1319 fails a healthy model of accuracy 0.905 in 27.8 % of runs" in strict.notes
    assert strict.k_reject == 1188
    loose = rule(gate(FLOOR, floor=0.9, tolerance=0.08), 1319)
    assert loose.k_reject == 1082
    assert any("a drop to 0.85 fails in 0.14 % of runs" in note for note in loose.notes)
    assert any("effective floor is 0.82" in note for note in loose.notes)


def test_sigmas_and_budget_replace_alpha() -> None:
    """Alpha comes from the first of alpha, sigmas and budget that is set; sigmas have no nominal alpha."""
    sigmas = rule(gate(observed=SEEN_180, sigmas=3.0), 200)
    assert (sigmas.k_reject, sigmas.alpha) == (168, None)
    budget = rule(gate(observed=SEEN_180, budget=Budget(nights=365, gates=20)), 200)
    assert budget.alpha == pytest.approx(1.3716e-4, rel=1e-4)
    assert rule(gate(observed=SEEN_180, alpha=0.01, sigmas=3.0), 200).k_reject == 170


def test_a_delta_gives_a_second_count_and_a_warning() -> None:
    """With delta 2 points at 200 questions the rule is UNDERPOWERED: 170 to 182 correct decide nothing."""
    found = rule(gate(observed=SEEN_180, alpha=0.01, delta=0.02), 200)
    assert (found.k_reject, found.k_accept) == (170, 183)
    assert found.notes[0].startswith("UNDERPOWERED: k_accept 183 is above k_reject 170: 170 to 182 correct")


@pytest.mark.parametrize(
    "never",
    [gate(FLOOR, floor=0.0), gate(FLOOR, floor=0.1, tolerance=0.2), gate(observed=SEEN_180, alpha=1e-9)],
)
def test_a_gate_that_can_never_fail_says_so(never: Gate) -> None:
    """k_reject 0 is VACUOUS, in that word, and notices no drop."""
    found = rule(never, 8)
    assert found.k_reject == 0
    assert found.notes[0].startswith("VACUOUS")
    assert found.noticed_drop is None


def test_a_perfect_measurement_is_not_a_threshold_of_one() -> None:
    """From 1319 of 1319 the threshold stays below 1319: one wrong answer is no regression."""
    found = rule(gate(observed=Observed(correct=1319, n=1319), alpha=0.001), 1319)
    assert 1310 < found.k_reject < 1318
    assert found.sigmas is not None


def test_thirds_are_exact() -> None:
    """p0 = 1/3 is the ratio of counts, not a rounded decimal: P(X < 1) at n = 1 is exactly 2/3."""
    assert rule(gate(observed=Observed(correct=1, n=3), sigmas=0.0), 3).k_reject == 1


@pytest.mark.parametrize(
    ("broken", "n", "reason"),
    [
        (gate(FLOOR), 200, "gate-needs-floor"),
        (gate(alpha=0.01), 200, "gate-needs-observed"),
        (gate(observed=SEEN_180), 200, "gate-needs-alpha"),
        (gate(observed=Observed(correct=201, n=200), alpha=0.01), 200, "gate-observed-impossible"),
        (gate(FLOOR, floor=0.9, observed=Observed(correct=0, n=0)), 200, "gate-observed-impossible"),
        (gate(FLOOR, floor=0.9), 0, "gate-needs-questions"),
    ],
)
def test_a_gate_without_what_it_needs_is_a_config_error(broken: Gate, n: int, reason: str) -> None:
    """A missing or impossible part is refused with its reason, its key and what to set."""
    with pytest.raises(ConfigError) as caught:
        rule(broken, n)
    assert caught.value.reason == reason
    assert caught.value.problems[0].where
    assert caught.value.hint
