"""Saved answers read again."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from answer_builders import MakeRecord, scored
from command_line import here
from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.records_folder import read_record, record_path
from gatekit.history.remember import remember
from gatekit.history.rescore import Reader, rescored_id
from gatekit.history.verify import verify
from gatekit.records.act import ActKind
from gatekit.records.answers import Completion, Status
from gatekit.records.canonical import digest
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome
from gatekit.task.legacy import LEGACY
from gatekit.task.numbers import read_reference
from gatekit.task.rescore import rescore as read_again
from gatekit.task.rows import read_rows
from gatekit.task.score import EXTRACTORS
from gatekit.task.synth import synth_questions

NOW = datetime(2026, 12, 1, tzinfo=UTC)
_ANSWERS = (
    "#### 18",
    "#### 18\nChecked on page 5.",
    "#### 18\nSee rows 3 and 7",
    "I do not know",
) * 30


def _scored(make_record: MakeRecord, run_id: str, **more: object) -> RunRecord:
    """A run of 120 answers: `gatekit` reads three of four as 18, `last_number` one of four."""
    return scored(make_record, run_id, _ANSWERS, **more)


@pytest.fixture
def kept(tmp_path: Path, make_record: MakeRecord) -> Place:
    """A history with two runs of one series."""
    place = Place(dir=tmp_path)
    for number in (1, 2):
        remember(place, _scored(make_record, f"run-{number}", build=f"0.{number}"))
    return place


def _rescore(place: Place, *arguments: str) -> None:
    assert run(["rescore", *arguments, "--dir", str(place.dir)], environ={}) is ExitCode.PASS


def test_a_run_is_scored_anew_from_its_answers(kept: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A new record supersedes the old one: other counts, another key, a verdict decided anew, the answers as saved;
    the old record is untouched."""
    old_bytes = record_path(kept.dir, "run-1").read_bytes()
    _rescore(kept, "run-1", "--extractor", "last_number", "--reason", "to compare with SGLang")
    assert capsys.readouterr().out.splitlines() == [
        "run-1: 90 -> 30 of 120 right, PASS -> FAIL, as run run-1.last_number-1",
        "1 run scored anew",
    ]
    old = read_record(record_path(kept.dir, "run-1"))
    new = read_record(record_path(kept.dir, "run-1.last_number-1"))
    assert record_path(kept.dir, "run-1").read_bytes() == old_bytes
    assert (new.supersedes, new.previous) == ("run-1", None)
    assert [seen.status for seen in new.observations[:4]] == [
        Status.CORRECT,
        Status.WRONG,
        Status.WRONG,
        Status.NO_ANSWER,
    ]
    assert [seen.text for seen in new.observations] == [seen.text for seen in old.observations]
    assert (new.counts.correct, new.verdict.outcome) == (30, Outcome.FAIL)
    assert (new.finished_at, new.served) == (old.finished_at, old.served)
    assert new.spec.protocol.extractor == "last_number"
    assert new.comparability.fields == dict(old.comparability.fields) | {
        "extractor_version": "last_number-1",
        "protocol.extractor": "last_number",
    }
    assert new.comparability.key == digest(new.comparability.fields)
    assert new.events[-1].startswith("scored anew from run run-1 by last_number-1 on 2")
    assert new.events[-1].endswith(": to compare with SGLang")
    assert verify(kept).findings == ()


def test_a_second_time_adds_nothing_and_says_so(kept: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Rescoring is idempotent, for a run by name and for all of them."""
    _rescore(kept, "--all", "--extractor", "last_integer")
    assert len(index.list_runs(kept, limit=9)) == 4
    capsys.readouterr()
    _rescore(kept, "--extractor", "last_integer", "run-1", "run-2")
    assert capsys.readouterr().out.splitlines() == [
        "run-1: scored anew by last_integer-1 before",
        "run-2: scored anew by last_integer-1 before",
        "0 runs scored anew",
    ]
    _rescore(kept, "--all", "--extractor", "last_integer")
    assert "run-1.last_integer-1: last_integer-1 has read it already" in capsys.readouterr().out
    _rescore(kept, "run-1")
    assert "run-1: gatekit-1 has read it already" in capsys.readouterr().out
    assert len(index.list_runs(kept, limit=9)) == 4


def test_a_superseded_run_does_not_count(kept: Place) -> None:
    """The new record takes the place of the old one, in the series of its own key."""
    _rescore(kept, "run-1", "--extractor", "lm_eval_strict")
    old = read_record(record_path(kept.dir, "run-1"))
    new = read_record(record_path(kept.dir, "run-1.lm_eval_strict-1"))
    past = past_runs(kept, old.spec, old.comparability)
    assert ([one.run_id for one in past.runs], past.excluded["superseded"]) == (["run-2"], 1)
    assert [one.run_id for one in past_runs(kept, new.spec, new.comparability).runs] == ["run-1.lm_eval_strict-1"]


def test_only_saved_answers_can_be_read_again(
    kept: Place, make_record: MakeRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of totals alone, one whose answers have no text, and one without references are refused by name; with
    --all they are left out and named."""
    total = _scored(make_record, "total")
    remember(kept, replace(total, observations=()))
    silent = tuple(replace(seen, text=None) for seen in total.observations)
    remember(kept, replace(total, run_id="silent", observations=silent))
    for name, why in (("total", "only its total is known"), ("silent", "none of its answers has a text")):
        with pytest.raises(ConfigError, match=why):
            _rescore(kept, name, "--extractor", "last_number")
    _rescore(kept, "--all", "--extractor", "last_number")
    out = capsys.readouterr().out
    assert "total: left out, it has no texts of answers" in out
    assert out.endswith("2 runs scored anew\n")
    unexpected = tuple(replace(seen, expected=None) for seen in total.observations)
    remember(kept, replace(total, run_id="unexpected", observations=unexpected))
    with pytest.raises(ConfigError, match="without its reference answer"):
        _rescore(kept, "unexpected", "--extractor", "last_number")


def test_an_imported_total_says_that_it_has_no_texts(kept: Place, make_record: MakeRecord) -> None:
    """A total is refused for what it lacks also by the extractor under whose key it was imported: nothing was read."""
    remember(kept, replace(_scored(make_record, "total"), observations=()))
    with pytest.raises(ConfigError, match="it has no texts of answers, only its total is known"):
        _rescore(kept, "total")


def test_rescoring_is_told_as_a_document(kept: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """--json gives what became of each run and the new record's id, and nothing else on stdout."""
    _rescore(kept, "run-1", "run-2", "--extractor", "last_number", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["rescored"] == 2
    assert [one["rescored_as"] for one in document["runs"]] == ["run-1.last_number-1", "run-2.last_number-1"]
    _rescore(kept, "run-1", "--extractor", "last_number", "--json")
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    assert one == {"run_id": "run-1", "text": "scored anew by last_number-1 before", "rescored_as": None}


def test_a_quarantined_run_stays_out(kept: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Scoring a run anew does not bring it back from quarantine."""
    record_act(kept, make_act(ActKind.QUARANTINE, "run-1", reason="hot", now=NOW))
    _rescore(kept, "run-1", "--extractor", "last_number")
    assert capsys.readouterr().out.startswith("run-1: left out, it is quarantined")


def test_what_the_server_spoiled_stays_infra(kept: Place, make_record: MakeRecord) -> None:
    """A run that was INFRA for another reason than its counts is not made a measurement by reading it again."""
    bad = _scored(make_record, "bad")
    verdict = replace(bad.verdict, outcome=Outcome.INFRA, reason_code="wrong-model", reason="another model answered")
    remember(kept, replace(bad, verdict=replace(verdict, warnings=("42 identical outputs",))))
    _rescore(kept, "bad", "--extractor", "last_number")
    new = read_record(record_path(kept.dir, "bad.last_number-1"))
    assert (new.verdict.outcome, new.verdict.reason_code) == (Outcome.INFRA, "wrong-model")
    assert "42 identical outputs" in new.verdict.warnings
    assert new.counts.correct == 30


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "bad-arguments"),
        (("run-1", "--all"), "bad-arguments"),
        (("nobody",), "unknown-run"),
        (("run-1", "--extractor", "nothing"), "unknown-extractor"),
    ],
)
def test_a_wrong_wish_is_one_line(kept: Place, arguments: tuple[str, ...], reason: str) -> None:
    """No run, two ways at once, an unknown run or extractor: ConfigError."""
    with pytest.raises(ConfigError) as caught:
        _rescore(kept, *arguments)
    assert (caught.value.reason, len(caught.value.lines())) == (reason, 1)


def test_the_new_id_is_a_run_id(make_record: MakeRecord) -> None:
    """However long the old id, the new one is allowed, follows from it, and differs by extractor version."""
    readers = [Reader(name=name, version=one.version, score=lambda seen: seen) for name, one in EXTRACTORS.items()]
    ids = {rescored_id("x" * 128, reader) for reader in readers}
    assert len(ids) == len(readers)
    assert {len(one) for one in ids} == {128}


def test_reading_again_is_reading(tmp_path: Path) -> None:
    """A real run's saved answers, read again by the extractor that scored them, are its observations; by each other
    one they are what that one gives on the dataset's own references."""
    ran = here(tmp_path, "task.n=60", "engine.accuracy=0.7", "engine.latency={}", "--run-id", "a", "--json")
    assert ran.code in (0, 1, 4)
    record = read_record(record_path(tmp_path / ".gatekit", "a"))
    questions = {question.id: question for question in synth_questions(60, "test")}
    assert tuple(read_again(seen, EXTRACTORS["gatekit"]) for seen in record.observations) == record.observations
    for extractor in EXTRACTORS.values():
        for seen in record.observations:
            completion = Completion(text=seen.text, finish_reason=seen.finish_reason)
            direct = extractor.score(completion, questions[seen.question_id])
            assert read_again(seen, extractor).status is direct.status
    done = here(tmp_path, "history", "rescore", "a", "--extractor", "last_integer")
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 run scored anew")
    shown = json.loads(here(tmp_path, "history", "show", "a.last", "--json").out)
    assert shown["supersedes"] == "a"
    assert here(tmp_path, "history", "verify").code == 0


def test_a_saved_reference_reads_as_the_whole_one(gsm8k_dir: Path) -> None:
    """For every question of GSM8K, what follows `####` alone is to each extractor what the whole reference is."""
    for question in read_rows(gsm8k_dir / "test.jsonl").questions:
        short = "#### " + question.reference.rpartition("####")[2].strip()
        assert read_reference(short) == read_reference(question.reference)
        for reader in LEGACY.values():
            assert reader.reference(short) == reader.reference(question.reference)


def test_repeats_that_hang_together_are_so_in_every_scoring(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run whose repeats are no repeats is none of the norm of the new series, where nothing tells otherwise yet."""
    place = Place(dir=tmp_path)
    record = _scored(make_record, "alike", outcome=Outcome.INCONCLUSIVE)
    remember(place, replace(record, verdict=replace(record.verdict, reason_code="dependent-repeats")))
    _rescore(place, "alike", "--extractor", "last_integer")
    new = read_record(record_path(place.dir, "alike.last_integer-1"))
    assert (new.verdict.outcome, new.verdict.reason_code) == (Outcome.INCONCLUSIVE, "dependent-repeats")
    past = past_runs(place, new.spec, new.comparability)
    assert past.runs == ()
    assert past.excluded["dependent repeats"] == 1
