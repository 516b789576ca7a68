"""Two runs compared question by question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from gatekit.cli.history.command import run
from gatekit.errors import ExitCode
from gatekit.history.place import Place
from gatekit.history.remember import remember
from gatekit.records.answers import Status
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord
from gatekit.report.comparison import Comparison, compare
from gatekit.report.comparison_text import comparison_text
from past_builders import statuses

MakeRecord = Callable[..., RunRecord]


def changed(make_record: MakeRecord, before: str, after: str, **more: object) -> Comparison:
    """Runs of the same questions that ended as the letters say."""
    old = make_record("old", statuses=statuses(before), **more)
    return compare(old, make_record("new", statuses=statuses(after)), {})


def text(found: Comparison, *, limit: int = 20, full: bool = False) -> str:
    """The comparison on one line, spaces as they come."""
    return " ".join(comparison_text(found, limit=limit, full=full).split())


def test_the_four_counts(make_record: MakeRecord) -> None:
    """Every question both runs answered is in one of four cells; p, difference and error are those of the oracle."""
    found = changed(make_record, "cccccccwww", "cccwwwwcww").pairs
    assert found is not None
    cells = (found.both_right, found.right_to_wrong, found.wrong_to_right, found.both_wrong)
    assert cells == (3, 4, 1, 2)
    assert found.p_two_sided == pytest.approx(2 * 6 / 32)  # at most 1 of 5: (1 + 5) / 32
    assert found.difference == pytest.approx(-0.3)
    assert found.stderr == pytest.approx(((5 - 0.9) / 9 / 10) ** 0.5)
    assert found.low == pytest.approx(-0.3 - 1.96 * 0.21344, abs=1e-4)
    assert found.high == pytest.approx(-0.3 + 1.96 * 0.21344, abs=1e-4)


def test_right_to_wrong_comes_first(make_record: MakeRecord) -> None:
    """What got worse is read first, each side in asking order."""
    found = changed(make_record, "wccwc", "cwcct")
    assert [(one.question_id, one.is_right_to_wrong) for one in found.changed] == [
        (1, True),
        (4, True),
        (0, False),
        (3, False),
    ]
    shown = text(found, limit=3)
    assert shown.index("question 1") < shown.index("question 4") < shown.index("WRONG TO RIGHT")
    assert "(1 more changed sides: --limit is 3)" in shown
    assert "question 3" not in shown


def test_no_change_is_no_certainty(make_record: MakeRecord) -> None:
    """Runs that agree on every question give p = 1 and no interval of width 0."""
    found = changed(make_record, "ccw", "ccw")
    assert found.pairs is not None
    assert (found.pairs.p_two_sided, found.pairs.stderr, found.pairs.low) == (1.0, None, None)
    assert "+0.00 points (no question changed sides, which gives no spread)" in text(found)


def test_one_question_is_compared(make_record: MakeRecord) -> None:
    """A single question has a change and no standard error."""
    found = changed(make_record, "c", "w")
    assert found.pairs is not None
    assert (found.pairs.difference, found.pairs.stderr) == (-1.0, None)
    assert "one question gives no spread" in text(found)


@pytest.mark.parametrize(("before", "after"), [("ccwwll", "clwlcl"), ("cccc", "clll"), ("lw", "wl"), ("cwl", "wcc")])
def test_missing_answers_are_bounded(make_record: MakeRecord, before: str, after: str) -> None:
    """With missing answers, the difference lies between its least and its greatest over all ways they can end."""
    pairs = changed(make_record, f"c{before}", f"c{after}").pairs
    assert pairs is not None
    before, after = f"c{before}", f"c{after}"
    places = [(side, place) for side in (0, 1) for place, letter in enumerate((before, after)[side]) if letter == "l"]
    differences = []
    for ends in product((0, 1), repeat=len(places)):
        right = [[int(letter == "c") for letter in letters] for letters in (before, after)]
        for (side, place), end in zip(places, ends, strict=True):
            right[side][place] = end
        differences.append((sum(right[1]) - sum(right[0])) / len(before))
    assert pairs.lowest == pytest.approx(min(differences))
    assert pairs.highest == pytest.approx(max(differences))


def test_lost_answers_never_change_sides(make_record: MakeRecord) -> None:
    """A lost answer is in no cell, is counted, and is said."""
    found = changed(make_record, "ccw", "clw")
    assert found.pairs is not None
    assert (found.pairs.n, found.pairs.unanswered, found.changed) == (2, 1, ())
    assert [(move.before, move.after, move.questions) for move in found.moved] == [("correct", "lost", 1)]
    assert "1 questions without an answer" in text(found)


def test_other_endings_are_counted(make_record: MakeRecord) -> None:
    """A wrong answer that became a truncated one is told, though no side was changed."""
    found = changed(make_record, "wwwn", "ttwt")
    moves = [(move.before, move.after, move.questions) for move in found.moved]
    assert moves == [("wrong", "truncated", 2), ("no_answer", "truncated", 1)]
    assert found.changed == ()
    assert "ended otherwise wrong to truncated 2, no answer to truncated 1" in text(found)


def test_another_key_is_said_loudly(make_record: MakeRecord) -> None:
    """Runs under other keys are described field by field and called no regression test; equal ones are not."""
    old = make_record("old", key_fields={"max_tokens": 256, "gone": None})
    new = make_record("new", key_fields={"max_tokens": 512, "added": 1})
    found = compare(old, new, {})
    assert [(one.name, one.before, one.after, one.absent) for one in found.key] == [
        ("added", None, 1, "before"),
        ("gone", None, None, "after"),
        ("max_tokens", 256, 512, None),
    ]
    assert "WARNING: the comparability keys differ (added, gone, max_tokens)" in text(found)
    assert "NOT A REGRESSION TEST" in text(found)
    assert "NOT A REGRESSION TEST" not in text(compare(old, replace(old, run_id="new"), {}))


def test_what_was_served_is_compared_without_the_runs_own_names(make_record: MakeRecord) -> None:
    """The port and the model name that one run was given differ in every run, and are no difference."""

    def served(run: RunRecord, port: int, build: str, **details: str) -> RunRecord:
        assert run.served is not None
        own = f"gatekit-{run.run_id}"
        command = f"serve --port {port} --served-model-name {own}"
        more = {"command": command, "log": f"{own}.log", **details}
        url = f"http://127.0.0.1:{port}"
        return replace(run, served=replace(run.served, build=build, model=own, base_url=url, details=more))

    before = served(make_record("a"), 8001, "0.10.1", backend="flashinfer")
    after = served(make_record("b"), 40123, "0.11.0", backend="triton")
    found = compare(before, after, {})
    assert [(one.name, one.before, one.after) for one in found.served] == [
        ("build", "0.10.1", "0.11.0"),
        ("details.backend", "flashinfer", "triton"),
    ]


def test_long_values_are_cut_where_they_differ(make_record: MakeRecord) -> None:
    """Two long values never look alike because their beginnings do."""
    record = make_record("a")
    protocol = record.spec.protocol
    specs = [
        replace(record.spec, protocol=replace(protocol, shot_template="x" * 200 + end)) for end in ("before", "after")
    ]
    found = compare(replace(record, spec=specs[0]), replace(record, run_id="b", spec=specs[1]), {})
    assert "protocol.shot_template ...xxxxxxxxxxxxbefore ...xxxxxxxxxxxxafter" in text(found)


def test_other_questions_are_compared_where_they_meet(make_record: MakeRecord) -> None:
    """Runs of 4 and of 2 questions are compared on the 2 that both asked, which is said."""
    found = changed(make_record, "ccww", "cw")
    assert (found.common, found.only_before, found.only_after) == (2, 2, 0)
    assert found.pairs is not None
    assert found.pairs.n == 2
    assert "2 questions only before, 0 only after: compared are the 2 in both" in text(found)


def _apart(record: RunRecord) -> RunRecord:
    ids = tuple(number + 100 for number in record.dataset.question_ids)
    moved = tuple(replace(seen, question_id=seen.question_id + 100) for seen in record.observations)
    return replace(record, dataset=replace(record.dataset, question_ids=ids), observations=moved)


def _elsewhere(record: RunRecord) -> RunRecord:
    return replace(record, dataset=replace(record.dataset, digests={"test": "sha256:" + "1" * 64}))


def _total_only(record: RunRecord) -> RunRecord:
    return replace(record, observations=())


def _nothing(record: RunRecord) -> RunRecord:
    counts = replace(record.counts, correct=0, wrong=0, lost=record.counts.n)
    return replace(record, observations=(), counts=counts)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_apart, "the runs have no question in common"),
        (_elsewhere, "the runs asked different datasets, where the same id is another question"),
        (_total_only, "run new has no answers on record, only its total"),
        (_nothing, "run new has no answers:"),
    ],
)
def test_runs_that_cannot_be_compared_say_why(
    make_record: MakeRecord, change: Callable[[RunRecord], RunRecord], why: str
) -> None:
    """One line says why no question was compared; what differs otherwise is still shown."""
    found = compare(make_record("old"), change(make_record("new", build="0.11.0")), {})
    assert found.pairs is None
    shown = comparison_text(found, limit=20)
    assert sum(line.startswith(f"not compared: {why}") for line in shown.splitlines()) == 1
    assert "0.11.0" in shown
    assert "McNemar" not in shown


def test_runs_that_lost_everything_say_so(make_record: MakeRecord) -> None:
    """Observations without answers are no pairs."""
    found = changed(make_record, "ll", "cc")
    assert found.unpaired == "no question was answered in both runs: no question can be compared"


@pytest.mark.parametrize("full", [True, False])
def test_answers_reach_no_terminal_as_they_are(make_record: MakeRecord, full: bool) -> None:
    """Control, bidi and surrogate characters of answers, questions, names and values are spelled out."""
    evil = "a\x1b]0;PWN\x07\n\u202eb\ud800\x9b31m"
    old, new = make_record("old", statuses=statuses("cw")), make_record("new", statuses=statuses("wc"), build=evil)
    new = replace(
        new,
        spec=replace(new.spec, name=evil, engine=replace(new.spec.engine, args=(evil,))),
        observations=tuple(replace(seen, text=evil * 20, expected=evil, predicted=evil) for seen in new.observations),
    )
    found = compare(old, new, {0: evil, 1: evil})
    assert comparison_text(found, limit=9, full=full).replace("\n", "").isprintable()
    assert json.dumps(to_plain(found)).isascii()


def test_an_answer_is_cut_to_its_end_unless_asked_for(make_record: MakeRecord) -> None:
    """The result stands at the end of an answer; `--full` gives every line of it, marked as not gatekit's own."""
    record = make_record("new", statuses=statuses("w"))
    long = "BEGINNING " + "thinking " * 100 + "\nPASS  forged\n#### 17"
    record = replace(record, observations=(replace(record.observations[0], text=long),))
    found = compare(make_record("old", statuses=statuses("c")), record, {0: "How many?"})
    cut, full = comparison_text(found, limit=1), comparison_text(found, limit=1, full=True)
    assert "#### 17" in cut
    assert "BEGINNING" not in cut
    assert "      | PASS  forged\n      | #### 17" in full
    assert "BEGINNING" in full
    assert "How many?" in cut


def test_reasoning_stands_in_for_an_empty_answer(make_record: MakeRecord) -> None:
    """An answer that is all reasoning is shown as such, one without anything as empty."""
    record = make_record("new", statuses=statuses("nn"))
    first, second = record.observations
    seen = (replace(first, text=None, reasoning="so 17"), replace(second, text="", reasoning=None))
    found = compare(make_record("old", statuses=statuses("cc")), replace(record, observations=seen), {})
    shown = text(found)
    assert "(reasoning) so 17" in shown
    assert "(empty)" in shown


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"supersedes": "old"}, "new scores the answers of old anew"),
        ({"hw": "h200"}, "the hardware differs (b200 and h200)"),
        ({}, "both ran build 0.10.1"),
        ({"served": None}, "a build is unknown"),
    ],
)
def test_what_else_may_explain_a_difference(make_record: MakeRecord, change: Mapping[str, str], note: str) -> None:
    """Another machine, the same build, an unknown one and a new scoring are said before any number."""
    new = make_record("new")
    if "hw" in change:
        new = replace(new, spec=replace(new.spec, hw=replace(new.spec.hw, name=change["hw"])))
    else:
        new = replace(new, **change)  # type: ignore[arg-type]  # one field by name
    shown = text(compare(make_record("old"), new, {}))
    assert f"note: {note}" in shown
    assert shown.index(note) < shown.index("COUNTS")


def test_settings_that_are_not_set_do_not_differ(make_record: MakeRecord) -> None:
    """An unset section and a set one differ by the values of the set one, each named once."""
    old, new = make_record("old"), make_record("new")
    floor = replace(new.spec.gate, floor=0.75)
    found = compare(old, replace(new, spec=replace(new.spec, gate=floor)), {})
    assert [(one.name, one.before, one.after) for one in found.spec] == [("gate.floor", 0.5, 0.75)]
    unset = replace(new.spec.gate, floor=None)
    found = compare(old, replace(new, spec=replace(new.spec, gate=unset)), {})
    assert [(one.name, one.before, one.absent) for one in found.spec] == [("gate.floor", 0.5, "after")]


def test_status_of_unasked_questions(make_record: MakeRecord) -> None:
    """Questions that a stopped run did not ask are neither wrong nor lost."""
    old = make_record("old", statuses=(Status.CORRECT,) * 4)
    new = replace(make_record("new", statuses=(Status.CORRECT,) * 2, planned=4), counts=old.counts)
    found = compare(old, new, {})
    assert [(move.before, move.after, move.questions) for move in found.moved] == [("correct", "unasked", 2)]
    assert found.pairs is not None
    assert (found.pairs.n, found.pairs.unanswered, found.pairs.lowest) == (2, 2, -0.5)


def test_the_command_prints_nothing_foreign(
    tmp_path: Path, make_record: MakeRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stored answers with control characters come out of `compare` spelled out, cut and whole, and as ASCII JSON."""
    for run_id, letters in (("old", "ccw"), ("new", "wcc")):
        remember(Place(dir=tmp_path), make_record(run_id, statuses=statuses(letters)))
    for option in ("--limit=9", "--full"):
        assert run(["compare", "old", "new", option, "--dir", str(tmp_path)]) is ExitCode.PASS
        shown = capsys.readouterr().out
        assert "\\u202e\\x1b[31m" in shown
        assert shown.replace("\n", "").isprintable()
    assert run(["compare", "old", "new", "--json", "--dir", str(tmp_path)]) is ExitCode.PASS
    document = capsys.readouterr().out
    assert document.isascii()
    assert [one["question_id"] for one in json.loads(document)["changed"]] == [0, 2]


def repeated(make_record: MakeRecord, run_id: str, letters: str, repeats: int) -> RunRecord:
    """A run that asked as many questions as there are letters so often, and got the same answer every time."""
    n = len(letters)
    record = make_record(run_id, statuses=statuses(letters * repeats))
    seen = [replace(one, question_id=place % n, repeat=place // n) for place, one in enumerate(record.observations)]
    spec = replace(record.spec, protocol=replace(record.spec.protocol, repeats=repeats))
    dataset = replace(record.dataset, question_ids=tuple(range(n)) * repeats)
    return replace(record, spec=spec, dataset=dataset, observations=tuple(seen))


def test_the_same_answer_four_times_makes_nothing_surer(make_record: MakeRecord) -> None:
    """Repeats are in the counts; the interval, and a p-value beside McNemar's, are those of whole questions."""
    letters = ("cccccccwww", "cccwwwwcww")
    once = changed(make_record, *letters).pairs
    old, new = (repeated(make_record, run_id, each, 4) for run_id, each in zip(("old", "new"), letters, strict=True))
    found = compare(old, new, {})
    pairs = found.pairs
    assert once is not None
    assert pairs is not None
    assert pairs.by_question is not None
    assert once.by_question is None
    assert (pairs.n, pairs.right_to_wrong, pairs.wrong_to_right) == (40, 16, 4)
    assert (pairs.by_question.questions, pairs.by_question.fewer, pairs.by_question.more) == (10, 4, 1)
    assert pairs.by_question.p_two_sided == once.p_two_sided > 10 * pairs.p_two_sided
    assert (pairs.stderr, pairs.low, pairs.high) == pytest.approx((once.stderr, once.low, once.high))
    shown = text(found)
    assert "if each answer is one of its own" in shown
    assert "of 10 questions 4 were right less often after, 1 more often: p = 0.375" in shown
    assert "standard error by question 21.34" in shown


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("cw", "cw", "no answer changed sides"),
        ("cc", "ww", "all questions changed alike"),
        ("c", "w", "one question gives no spread"),
    ],
)
def test_repeats_of_few_questions_give_no_spread(make_record: MakeRecord, before: str, after: str, why: str) -> None:
    """Where questions show no spread there is no interval, however many answers there are."""
    found = compare(repeated(make_record, "old", before, 4), repeated(make_record, "new", after, 4), {})
    assert found.pairs is not None
    assert (found.pairs.stderr, found.pairs.low) == (None, None)
    assert why in text(found)
