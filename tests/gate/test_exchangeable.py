"""One run per distinct build: which earlier runs count."""

from __future__ import annotations

from collections.abc import Callable

from gatekit.gate.exchangeable import exchangeable
from gatekit.records.past import Past, PastRun
from gatekit.records.spec import Spec
from past_builders import flipped, run, totals

Maker = Callable[..., Spec]
N = 50


def kept(spec: Spec, *runs: PastRun, n: int = N) -> tuple[list[str], dict[str, int]]:
    """The ids that count, and the rest by reason."""
    found = exchangeable(spec, n, Past(runs=runs))
    return [one.run_id for one in found.runs], dict(found.excluded)


def test_the_last_run_of_a_build_counts(make_spec: Maker) -> None:
    """Runs of one build are one observation, the most recent one; the order of the rest stays."""
    runs = [run(f"{i}", flipped(N, [i]), build=build) for i, build in enumerate("abac")]
    assert kept(make_spec(), *runs) == (["1", "2", "3"], {"same build": 1})


def test_equal_answers_are_one_observation(make_spec: Maker) -> None:
    """Two builds with the same answers question by question have the same numerics: one counts."""
    runs = [run("1", flipped(N, [3])), run("2", flipped(N, [4])), run("3", flipped(N, [3]))]
    assert kept(make_spec(), *runs) == (["2", "3"], {"same answers": 1})


def test_equal_totals_are_not_equal_answers(make_spec: Maker) -> None:
    """Builds of which only equal totals are known stay apart."""
    assert kept(make_spec(), *totals([45, 45, 45], N).runs) == (["t0", "t1", "t2"], {})


def test_an_unknown_build_counts_if_its_answers_differ(make_spec: Maker) -> None:
    """Without a build, other answers make a run its own; without answers either, only the last one counts."""
    runs = [run(f"{i}", flipped(N, [place]), build=None) for i, place in enumerate((3, 4, 3))]
    assert kept(make_spec(), *runs) == (["1", "2"], {"same answers": 1})
    unknown = [run(f"{i}", None, n=N, correct=40 + i, build=None) for i in range(3)]
    assert kept(make_spec(), *unknown) == (["2"], {"unknown build": 2})


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
    found = exchangeable(make_spec(), 1319, Past(runs=runs))
    assert ([one.correct for one in found.runs], dict(found.excluded)) == (counts, {"outlier": 1})
    (note,) = found.notes
    assert note.startswith("outlier left out: run t20 with 409 of 1319")
    assert len(exchangeable(make_spec(), 1319, Past(runs=totals([1253, 409], 1319).runs)).runs) == 2


def test_order_is_that_of_arrival_and_wrong_clocks_are_told(make_spec: Maker) -> None:
    """Runs dated 2099 and 1970 stay where they came, with a note that a clock was wrong."""
    runs = [
        run(year, flipped(N, [place]), finished_at=f"{year}-01-01T00:00:00Z")
        for place, year in enumerate(("2026", "2099", "1970"))
    ]
    found = exchangeable(make_spec(), N, Past(runs=tuple(runs)))
    assert [one.run_id for one in found.runs] == ["2026", "2099", "1970"]
    (note,) = found.notes
    assert "run 1970 of 1970-01-01T00:00:00Z came after run 2099" in note
