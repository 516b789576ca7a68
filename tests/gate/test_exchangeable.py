"""One run per distinct build: which earlier runs count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.gate.exchangeable import AFTER, Exchangeable, exchangeable
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Gate, Method, Spec
from past_builders import flipped, run, totals

Maker = Callable[..., Spec]
N = 50


def kept(spec: Spec, *runs: PastRun, n: int = N) -> tuple[list[str], dict[str, int]]:
    """The ids that count, and the rest by reason."""
    found = exchangeable(spec.gate, spec.hw.name, n, Past(runs=runs))
    return [one.run_id for one in found.runs], dict(found.excluded)


def test_the_first_run_of_a_build_counts(make_spec: Maker) -> None:
    """Runs of one build are one observation, the first one; the order of the rest stays."""
    runs = [run(f"{i}", flipped(N, [i]), build=build) for i, build in enumerate("abac")]
    assert kept(make_spec(), *runs) == (["0", "1", "3"], {"same build": 1})


def test_equal_answers_are_one_observation(make_spec: Maker) -> None:
    """Two builds with the same answers question by question have the same numerics: one counts."""
    runs = [run("1", flipped(N, [3])), run("2", flipped(N, [4])), run("3", flipped(N, [3]))]
    assert kept(make_spec(), *runs) == (["1", "2"], {"same answers": 1})


def test_a_build_that_answered_like_another_is_that_one(make_spec: Maker) -> None:
    """A build whose first run repeats another's answers has had its vote: its later nights add none."""
    runs = [
        run(f"{i}", flipped(N, [place]), build=build)
        for i, (build, place) in enumerate((("a", 3), ("b", 3), ("b", 4), ("c", 4)))
    ]
    assert kept(make_spec(), *runs) == (["0"], {"same answers": 2, "same build": 1})


def test_equal_totals_are_not_equal_answers(make_spec: Maker) -> None:
    """Builds of which only equal totals are known stay apart."""
    assert kept(make_spec(), *totals([45, 45, 45], N).runs) == (["t0", "t1", "t2"], {})


def test_an_unknown_build_counts_if_its_answers_differ(make_spec: Maker) -> None:
    """Without a build, other answers make a run its own; without answers either, only the first one counts."""
    runs = [run(f"{i}", flipped(N, [place]), build=None) for i, place in enumerate((3, 4, 3))]
    assert kept(make_spec(), *runs) == (["0", "1"], {"same answers": 1})
    unknown = [run(f"{i}", None, n=N, correct=40 + i, build=None) for i in range(3)]
    assert kept(make_spec(), *unknown) == (["0"], {"unknown build": 2})
    assert kept(make_spec(), replace(unknown[0], correct=48), *runs)[1] == {"same answers": 1}


def test_other_hardware_counts_only_where_declared(make_spec: Maker) -> None:
    """The spec's own hardware counts, other only by gate.exchangeable_hardware; a fault there hides no build here."""
    runs = [
        run("own", flipped(N, [1])),
        run("h200", flipped(N, [2]), hardware="h200"),
        run("l4", flipped(N, [3]), hardware="l4"),
    ]
    assert kept(make_spec(), *runs) == (["own"], {"hardware h200": 1, "hardware l4": 1})
    declared = make_spec(gate={"exchangeable_hardware": ("h200",)})
    assert kept(declared, *runs) == (["own", "h200"], {"hardware l4": 1})
    same_build = [run("1", flipped(N, [1]), build="x"), run("2", flipped(N, [2]), build="x", hardware="h200")]
    assert kept(make_spec(), *same_build) == (["1"], {"hardware h200": 1})


def test_another_number_of_questions_is_another_measurement(make_spec: Maker) -> None:
    """A run of 1319 questions says nothing about one of 50."""
    assert kept(make_spec(), run("long", None, n=1319, correct=1253)) == ([], {"n=1319": 1})


def test_a_broken_run_is_marked_and_left_out(make_spec: Maker) -> None:
    """One total of 0.31 among twenty at 0.95 is left out by name; two runs cannot tell which of them is broken."""
    counts = [1253 + i % 5 for i in range(20)]
    runs = totals([*counts, 409], 1319).runs
    found = exchangeable(make_spec().gate, "b200", 1319, Past(runs=runs))
    assert ([one.correct for one in found.runs], dict(found.excluded)) == (counts, {"outlier": 1})
    (note,) = found.notes
    assert note.startswith("outlier left out: run t20 with 409 of 1319")
    assert len(exchangeable(make_spec().gate, "b200", 1319, Past(runs=totals([1253, 409], 1319).runs)).runs) == 2


def test_order_is_that_of_arrival_and_wrong_clocks_are_told(make_spec: Maker) -> None:
    """Runs dated 2099 and 1970 stay where they came, with a note that a clock was wrong."""
    runs = [
        run(year, flipped(N, [place]), finished_at=f"{year}-01-01T00:00:00Z")
        for place, year in enumerate(("2026", "2099", "1970"))
    ]
    found = exchangeable(make_spec().gate, "b200", N, Past(runs=tuple(runs)))
    assert [one.run_id for one in found.runs] == ["2026", "2099", "1970"]
    (note,) = found.notes
    assert "run 1970 of 1970-01-01T00:00:00Z came after run 2099" in note


def norm(builds: int, *runs: PastRun) -> Exchangeable:
    """The norm of a gate with that many builds."""
    return exchangeable(Gate(name="g", method=Method.AUTO, baseline_builds=builds), "b200", N, Past(runs=runs))


def test_later_builds_are_after_the_baseline() -> None:
    """The first three builds are the norm; those that came later are kept apart, in order, and counted."""
    runs = totals([45, 44, 46, 43, 42], N).runs
    found = norm(3, *runs)
    assert (found.runs, found.later, found.excluded) == (runs[:3], runs[3:], {AFTER: 2})


def test_a_pinned_build_leaves_an_open_norm_alone() -> None:
    """Before the baseline is complete too, healthy nights of a build with other answers move nothing."""
    runs = [run(f"{i}", flipped(N, [i]), build=build) for i, build in enumerate("ab" + "b" * 20)]
    found = norm(3, *runs)
    assert ([one.run_id for one in found.runs], found.later) == (["0", "1"], ())
    assert found.excluded == {"same build": 20}


def test_a_later_run_of_a_build_of_the_baseline_does_not_move_it() -> None:
    """Once the baseline is complete a new run of one of its builds is a later run like any other."""
    runs = [run(f"{i}", flipped(N, [i]), build=build) for i, build in enumerate("abacab")]
    found = norm(3, *runs)
    assert [one.run_id for one in found.runs] == ["0", "1", "3"]
    assert [one.run_id for one in found.later] == ["4", "5"]
    assert found.excluded == {"same build": 1, AFTER: 2}


def test_equal_answers_fill_no_baseline() -> None:
    """Builds that answer alike are one observation, so a baseline of two waits for other answers."""
    runs = [run(f"{i}", flipped(N, [place])) for i, place in enumerate((1, 1, 1, 2, 3))]
    found = norm(2, *runs)
    assert [one.run_id for one in found.runs] == ["0", "3"]
    assert [one.run_id for one in found.later] == ["4"]


def test_other_hardware_fills_no_baseline() -> None:
    """Runs that are left out do not count towards the baseline, nor as later ones."""
    runs = (*totals([45, 44], N).runs, run("far", flipped(N, [1]), hardware="l4"), run("own", flipped(N, [2])))
    assert [one.run_id for one in norm(3, *runs).runs] == ["t0", "t1", "own"]


ARRIVALS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), max_size=14)


@settings(deadline=None, max_examples=150)
@given(arrivals=ARRIVALS, later=ARRIVALS, builds=st.integers(2, 4))
def test_nothing_that_comes_later_moves_a_norm(
    arrivals: list[tuple[str, int]], later: list[tuple[str, int]], builds: int
) -> None:
    """Whatever arrives afterwards, the runs of a norm stay; while it is open others may join them, behind them."""
    runs = [run(f"{i}", flipped(N, [place]), build=build) for i, (build, place) in enumerate((*arrivals, *later))]
    before, after = norm(builds, *runs[: len(arrivals)]), norm(builds, *runs)
    assert after.runs[: len(before.runs)] == before.runs
    assert after.later[: len(before.later)] == before.later
    assert len(after.runs) <= builds
    assert len(after.runs) + sum(after.excluded.values()) == len(runs)


def test_runs_without_a_build_fill_a_baseline_by_their_answers() -> None:
    """Nameless runs with other answers are observations of their own, nameless totals all one."""
    known = [replace(run(f"{i}", flipped(N, [i])), build=None) for i in range(3)]
    assert len(norm(2, *known).runs) == 2
    nameless = [replace(one, build=None) for one in totals([40, 41, 42], N).runs]
    assert norm(2, *nameless).later == ()
