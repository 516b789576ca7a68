"""Charts of a series against its frozen norm, and the warning of a run that they raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from gatekit.gate.decide import decide
from gatekit.gate.drift import Baseline, alarm, baseline, drift
from gatekit.gate.exchangeable import Exchangeable, exchangeable
from gatekit.gate.from_history import from_history
from gatekit.gate.rung import Shortage, choose
from gatekit.records.past import Past
from gatekit.records.spec import Gate, Method, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.stats.charts import self_starting_p
from gatekit.stats.drift import cusum_arl, ewma_arl
from gatekit.stats.next_count import count_tail
from lock_builders import lock_of
from past_builders import flipped, run, statuses

Maker = Callable[..., Spec]
N = 1319
GATE = Gate(name="g", method=Method.AUTO, alpha=0.001, baseline_builds=10)
HEALTHY = (1187, 1191, 1183, 1189, 1185, 1190, 1184, 1188, 1186, 1187)


def series(counts: Sequence[int]) -> Past:
    """Runs of distinct builds, one a day."""
    return Past(
        runs=tuple(
            run(f"r{day}", None, n=N, correct=count, finished_at=f"2026-10-{day + 1:02d}T03:00:00Z")
            for day, count in enumerate(counts)
        )
    )


def history(past: Past, gate: Gate = GATE) -> Exchangeable:
    """What counts of it."""
    return exchangeable(gate, "b200", N, past)


def norm(past: Past, gate: Gate = GATE) -> Baseline:
    """Its baseline."""
    found = baseline(gate, N, history(past, gate))
    assert found is not None
    return found


def test_later_runs_are_charted_by_their_mid_p_against_the_norm() -> None:
    """Self-starting inside the baseline, then half of P(S <= s) and P(S < s) of the count that it predicts."""
    found = drift(norm(series([*HEALTHY, 1180, 1192])))
    assert [point.is_norm for point in found.points] == [True] * 10 + [False] * 2
    assert [point.p for point in found.points[:10]] == list(self_starting_p(HEALTHY))
    rung = choose(GATE, history(series(HEALTHY)))
    assert not isinstance(rung, Shortage)
    predicted = from_history(GATE, N, rung).predicted
    for point in found.points[10:]:
        both = count_tail(predicted, point.correct) + count_tail(predicted, point.correct - 1)
        assert point.p == pytest.approx(both / 2, rel=1e-12)


def test_the_limits_are_those_of_the_false_alarm_rate() -> None:
    """Both charts run 1 / alpha nights in control."""
    found = drift(norm(series(HEALTHY)))
    assert cusum_arl(0.5, found.cusum_limit) == pytest.approx(1000, rel=1e-6)
    assert ewma_arl(0.2, found.ewma_limit / (0.2 / 1.8) ** 0.5) == pytest.approx(1000, rel=1e-6)


def test_a_steady_series_is_no_drift() -> None:
    """Counts around the norm raise no alarm, in one sentence."""
    found = drift(norm(series([*HEALTHY, *HEALTHY])))
    assert (found.cusum_alarm, found.ewma_alarm, found.is_in_alarm) == (None, None, False)
    assert found.text.startswith("no drift: ")


def test_a_small_lasting_shift_is_an_alarm_with_its_run_and_start() -> None:
    """Half a point less, which no single run need fail, is an alarm within days; the text names where it begins."""
    low = [count - 7 for count in HEALTHY]
    found = drift(norm(series([*HEALTHY, 1192, *low])))
    assert found.is_in_alarm
    assert found.cusum_alarm is not None
    assert found.since is not None
    assert 11 <= found.since <= found.cusum_alarm <= 17
    assert found.points[found.since - 1].cusum == 0
    start = found.points[found.since]
    assert found.text.startswith(f"drift: low counts add up since run {start.run_id} ({start.finished_at[:10]}) (CUSUM")
    assert "one false alarm in 1000 runs" in found.text


def test_a_repeat_says_nothing_new() -> None:
    """A night of a build that was charted, or with its answers, leaves the charts as they were."""
    first = series([*HEALTHY, 1170])
    again = tuple(replace(first.runs[-1], run_id=f"again-{i}") for i in range(20))
    once, often = drift(norm(first)), drift(norm(replace(first, runs=(*first.runs, *again))))
    assert [point.p for point in often.points[11:]] == [None] * 20
    assert {point.cusum for point in often.points[10:]} == {once.points[-1].cusum}


def test_rising_counts_are_no_alarm() -> None:
    """Drift upwards is no regression."""
    assert not drift(norm(series([*HEALTHY, *[count + 12 for count in HEALTHY]]))).is_in_alarm


@pytest.mark.parametrize("shift", [-3, 0, 3, 6, 9])
def test_the_quick_alarm_is_the_one_of_the_charts(shift: int) -> None:
    """What a verdict asks after every run is what the chart with its limit says, at every length."""
    past = series([*HEALTHY, *[count - shift for count in HEALTHY]])
    for length in range(3, 20):
        base = norm(replace(past, runs=past.runs[:length]))
        found, quick = drift(base), alarm(base)
        assert (quick is not None) is found.is_in_alarm
        if quick is not None:
            assert quick.text == found.text


def test_no_history_has_no_charts() -> None:
    """Without a comparable run there is nothing to chart against."""
    assert baseline(GATE, N, history(Past())) is None


def test_a_lock_is_the_norm_where_there_is_one() -> None:
    """With a lock its prediction is the norm, and what came after the runs it rests on is later."""
    past = series([*HEALTHY, 1180, 1181])
    lock = lock_of(replace(past, runs=past.runs[:5]), N, GATE)
    found = baseline(replace(GATE, method=Method.LOCKED), N, history(past), lock)
    assert found is not None
    assert ([one.run_id for one in found.runs], len(found.later)) == (list(lock.used), 7)
    assert (found.predicted.mean, found.predicted.sd) == (lock.mean, lock.sd)


def judged(spec: Spec, past: Past, correct: int) -> Verdict:
    """The verdict of a run with so many right answers."""
    return decide(spec, statuses(flipped(N, range(N - correct))), past)


def drift_warnings(verdict: Verdict) -> list[str]:
    """Those about drift."""
    return [warning for warning in verdict.warnings if warning.startswith("drift: ")]


def test_a_run_that_completes_a_drift_passes_with_a_warning(make_spec: Maker) -> None:
    """Five runs half a point low, each within chance: the run that brings the CUSUM over its limit is told."""
    spec = make_spec(gate={"method": Method.AUTO, "floor": None, "alpha": 0.001, "baseline_builds": 10})
    low = (1178, 1177, 1178, 1177)
    found = [judged(spec, series([*HEALTHY, *low[:length]]), 1177) for length in range(5)]
    assert {verdict.outcome for verdict in found} == {Outcome.PASS}
    assert not drift_warnings(found[0])
    (warning,) = drift_warnings(found[4])
    assert warning.startswith("drift: low counts add up since run r10 (2026-10-11) (CUSUM ")


def test_a_collapse_is_no_drift(make_spec: Maker) -> None:
    """One broken run is a FAIL that needs no word about drift; lost answers leave the count unknown."""
    spec = make_spec(gate={"method": Method.AUTO, "floor": None, "alpha": 0.001, "baseline_builds": 10})
    broken = judged(spec, series(HEALTHY), 800)
    assert (broken.outcome, drift_warnings(broken)) == (Outcome.FAIL, [])
    low = series([*HEALTHY, *[1176] * 5])
    lossy = decide(spec, statuses(flipped(N - 5, range(140)) + "l" * 5), low)
    assert drift_warnings(lossy) == []
