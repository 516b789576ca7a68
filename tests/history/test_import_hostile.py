"""Files of records and acts that nobody vouches for: dates of the future, secrets, scores that no text bears out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from answer_builders import scored
from command_line import Ran, here
from gatekit.cli.history.quarantining import _refuse_known
from gatekit.cli.history.readers import readers
from gatekit.errors import InfraError
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.importing import import_records
from gatekit.history.place import Place
from gatekit.history.record_form import record_contradiction
from gatekit.history.records_folder import write_record
from gatekit.history.remember import rebuild, remember
from gatekit.history.verify import verify
from gatekit.records.act import ActKind
from gatekit.records.answers import Counts, Status, count
from gatekit.records.canonical import canonical_json, digest, to_plain
from gatekit.records.run import Comparability, RunRecord, record_to_plain
from gatekit.records.verdict import Early, Outcome, Verdict
from kept_nights import keep_nights
from nights import run_nights, series

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 12, 1, tzinfo=UTC)
FUTURE = datetime(2099, 11, 1, tzinfo=UTC)
KEY = "hf_" + "a1B2" * 8


def _file(path: Path, *plains: Any) -> Path:
    plain = [record_to_plain(one) if isinstance(one, RunRecord) else one for one in plains]
    path.write_bytes(b"".join(canonical_json(one) + b"\n" for one in plain))
    return path


def _sealed(content: dict[str, Any]) -> dict[str, Any]:
    bare = {name: value for name, value in content.items() if name != "digest"}
    return bare | {"digest": digest(bare)}


def _act(kind: ActKind, target: str, made: datetime, *, reason: str = "why", after: str | None = None) -> Any:
    act = to_plain(make_act(kind, target, reason="why", now=made, after=after))
    return _sealed(act | {"reason": reason})


def _import(folder: Path, *plains: Any) -> Ran:
    return here(folder, "history", "import", str(_file(folder / "in.jsonl", *plains)), "--dir", "h")


def _refused(folder: Path, *plains: Any) -> str:
    done = _import(folder, *plains)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
    assert list(folder.glob("h/runs/*/record.json")) == list(folder.glob("h/acts/*.json")) == []
    return done.err


def test_an_act_of_the_future_decides_nothing(tmp_path: Path, make_record: MakeRecord) -> None:
    """A release or a rebaseline that is dated later than now is not taken, and named with its date."""
    place, record = Place(dir=tmp_path / "h"), make_record("a")
    stored = record_to_plain(remember(place, record)[1])
    record_act(place, make_act(ActKind.QUARANTINE, "a", reason="broken GPU", now=NOW))
    release = _act(ActKind.RELEASE, "a", FUTURE)
    norm = _act(ActKind.REBASELINE, record.comparability.key, FUTURE, after=stored["digest"])
    done = _import(tmp_path, stored, release, norm)
    assert (done.code, done.out) == (0, "added 0 runs, 1 was in the history; run a\n")
    assert [line.split(" left out: ")[0] for line in done.err.splitlines()] == [
        f"gatekit: line 2: act {release['act_id']}",
        f"gatekit: line 3: act {norm['act_id']}",
    ]
    assert done.err.count("dated 2099-11-01T00:00:00Z, which is yet to come") == 2
    assert index.quarantined(place) == {"a"}
    assert [act.kind for act in index.acts(place)] == [ActKind.QUARANTINE]


def test_an_act_of_the_future_blocks_no_other(tmp_path: Path, make_record: MakeRecord) -> None:
    """Where one is in the history, its date is no reason to leave out what is imported later; verify tells of it."""
    place = Place(dir=tmp_path / "h")
    stored = record_to_plain(remember(place, make_record("a"))[1])
    record_act(place, make_act(ActKind.RELEASE, "a", reason="a clock was wrong", now=FUTURE))
    true = _act(ActKind.QUARANTINE, "a", NOW - timedelta(days=1), reason="the GPU was broken")
    done = import_records(place, _file(tmp_path / "in.jsonl", stored, true), now=NOW)
    assert (done.acts, done.flags) == (1, ())
    assert done.changes == (f"run a does not count any more: the GPU was broken (act {true['act_id']})",)
    assert index.quarantined(place) == {"a"}
    assert "1 act dated later than now" in verify(place, now=NOW).notes[0]


def test_an_act_from_before_the_questions_is_flagged(tmp_path: Path, make_record: MakeRecord) -> None:
    """A date that cannot be is told of an act as of a run; nothing else was decided, so that it is taken."""
    old = _act(ActKind.QUARANTINE, "a", datetime(1970, 1, 1, tzinfo=UTC))
    path = _file(tmp_path / "in.jsonl", make_record("a"), old)
    done = import_records(Place(dir=tmp_path / "h"), path, now=NOW)
    assert done.flags == (f"line 2: act {old['act_id']}: dated 1970-01-01T00:00:00Z, before GSM8K existed",)
    assert done.acts == 1


def test_what_counts_otherwise_is_named(tmp_path: Path, make_record: MakeRecord) -> None:
    """Every imported act that changes what counts is named with its reason, ten of them on the terminal, all in JSON;
    one that changes nothing is not; what it holds cannot move a terminal."""
    records = [make_record(f"r{number:02d}", build=f"b{number}") for number in range(12)]
    acts = [_act(ActKind.QUARANTINE, record.run_id, NOW - timedelta(days=9), reason="\x1b[31mno") for record in records]
    nothing = _act(ActKind.RELEASE, "r00", NOW - timedelta(days=8))
    path = _file(tmp_path / "in.jsonl", *records, *acts, nothing)
    done = here(tmp_path, "history", "import", str(path), "--dir", "h")
    first, *named, last = done.out.splitlines()
    assert first == "added 12 runs, 0 were in the history; added 13 acts; runs r00 to r11"
    assert len(named) == 10
    assert named[0].startswith("run r01 does not count any more: ")
    assert "\x1b" not in done.out
    assert last == "and 1 other change of what counts; `gatekit history acts --dir h` lists every act"
    told = here(tmp_path, "history", "import", str(path), "--dir", "again", "--json").data
    assert (told["acts"], len(told["changes"])) == (13, 11)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("spec.history.url", "postgresql://u:hunter2secret@h/db"),
        ("spec.history.url", "host=h password=hunter2secret"),
        ("spec.engine.base_url", "http://u:hunter2secret@h/v1"),
        ("spec.engine.args", ["--x=http://u:hunter2secret@h/v1"]),
        ("spec.engine.env", {"TOKEN": KEY}),
        ("spec.engine.env", {KEY: "1"}),
        ("spec.protocol.question_template", f"Q: {{question}} {KEY}\nA:"),
        ("served.base_url", "http://u:hunter2secret@h/v1"),
        ("served.build", "git+https://u:hunter2secret@h/x"),
    ],
)
def test_a_record_with_a_secret_is_refused(tmp_path: Path, make_record: MakeRecord, where: str, value: Any) -> None:
    """A password or key in what a record's own side wrote refuses the file, naming the place and repeating neither."""
    plain = record_to_plain(make_record("a"))
    *path, name = where.split(".")
    section = plain
    for part in path:
        section = section[part]
    section[name] = value
    err = _refused(tmp_path, _sealed(plain))
    assert where.rpartition(".")[2] in err, err
    assert "hunter2" not in err
    assert KEY not in err
    found = subprocess.run(["grep", "-rlE", f"hunter2secret|{KEY}", "h"], cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout == ""


@pytest.mark.parametrize("text", ["see postgresql://ci:hunter2secret@db/x", f"the key was {KEY}"])
def test_an_act_with_a_secret_is_refused(tmp_path: Path, make_record: MakeRecord, text: str) -> None:
    """A reason with a password or key comes neither by import nor by a command."""
    err = _refused(tmp_path, make_record("a"), _act(ActKind.QUARANTINE, "a", NOW - timedelta(days=1), reason=text))
    assert "reason holds" in err
    assert "hunter2" not in err
    assert KEY not in err
    remember(Place(dir=tmp_path / "h"), make_record("a"))
    done = here(tmp_path, "history", "quarantine", "a", "--dir", "h", "--reason", text)
    assert (done.code, "bad-reason" in done.err) == (2, True)
    assert "hunter2" not in done.err
    assert KEY not in done.err


def test_the_build_of_a_total_holds_no_secret(tmp_path: Path) -> None:
    """Old totals are refused for a password in the build that they name."""
    (tmp_path / "old.csv").write_text("finished_at,n,correct,build\n2026-11-01,1319,1200,https://u:hunter2@h/x\n")
    words = ("history", "import", "old.csv", "--format", "totals", "model=laguna_int4", "hw=b200")
    done = here(tmp_path, *words)
    assert (done.code, "old.csv:2" in done.err, "hunter2" in done.err) == (2, True, False), done.err


def test_answers_and_prompts_are_data(tmp_path: Path, make_record: MakeRecord) -> None:
    """What a model said stays as it is, whatever it looks like; so does what a prompt asks about a URL."""
    record = make_record("a")
    said = replace(record.observations[0], text=f"see http://u:pw@h/ and {KEY}")
    asked = replace(record.spec.protocol, question_template="Q: {question} http://u:pw@h\nA:")
    record = replace(
        record,
        observations=(said, *record.observations[1:]),
        spec=replace(record.spec, protocol=asked),
    )
    assert _import(tmp_path, record).code == 0


def _known(make_record: MakeRecord, *texts: str) -> RunRecord:
    """A record of the extractor `gatekit`, of which every text is an answer to a question whose answer is 18."""
    record = scored(make_record, "a", texts)
    rule = replace(record.verdict.rule, k_reject=0) if record.verdict.rule else None
    fields = {"extractor_version": "gatekit-1", "protocol.extractor": "gatekit"}
    key = Comparability(key=digest(fields), fields=fields)
    return replace(record, comparability=key, verdict=replace(record.verdict, rule=rule))


def _lies(record: RunRecord, **changed: Any) -> RunRecord:
    """The record with its first answer changed, and counts that fit."""
    seen = (replace(record.observations[0], **changed), *record.observations[1:])
    return replace(record, observations=seen, counts=count(seen))


@pytest.mark.parametrize(
    ("text", "changed", "why"),
    [
        ("#### 17", {"status": Status.CORRECT}, "question 0 is correct, and gatekit-1 finds it wrong"),
        ("#### 18", {"status": Status.WRONG}, "question 0 is wrong, and gatekit-1 finds it correct"),
        ("#### 17", {"status": Status.CORRECT, "predicted": "18"}, "gatekit-1 reads '17' in its text"),
        ("#### 17", {"status": Status.CORRECT, "expected": None, "predicted": "18"}, "gatekit-1 reads '17'"),
        ("who knows", {"status": Status.CORRECT, "predicted": "18"}, "gatekit-1 reads nothing in its text"),
        ("#### 18", {"status": Status.NO_ANSWER, "predicted": None}, "gatekit-1 reads '18' in its text"),
        ("#### 18", {"expected": "x"}, "its reference answer 'x' cannot be read"),
    ],
)
def test_a_status_that_its_text_denies(
    tmp_path: Path, make_record: MakeRecord, text: str, changed: dict[str, Any], why: str
) -> None:
    """A record whose extractor is known is refused where that reads another answer; one that is there is a finding."""
    record = _known(make_record, text, "#### 18")
    assert record_contradiction(record, readers()) is None
    lies = _lies(record, **changed)
    assert why in _refused(tmp_path, lies)
    write_record(tmp_path / "h", lies)
    rebuild(Place(dir=tmp_path / "h"))
    found = here(tmp_path, "history", "verify", "--dir", "h")
    assert (found.code, "[record-contradicts-itself]" in found.out, why in found.out) == (3, True, True), found.out
    assert found.out.splitlines()[-1].startswith("1 finding: 1 record, 1 row")


@pytest.mark.parametrize(
    ("status", "predicted", "expected", "is_refused"),
    [
        (Status.CORRECT, "17", "18", True),
        (Status.CORRECT, "1,018.0", "1018", False),
        (Status.CORRECT, "1e999999999", "18", False),
        (Status.CORRECT, "1/0", "18", False),
        (Status.CORRECT, "36/2", "18", False),
        (Status.CORRECT, ".", "18", False),
        (Status.CORRECT, None, "18", False),
        (Status.WRONG, "18", "18", True),
        (Status.WRONG, "18.0", "18", False),
    ],
)
def test_an_extractor_that_is_not_known_is_held_to_its_numbers(
    make_record: MakeRecord, status: Status, predicted: str | None, expected: str, *, is_refused: bool
) -> None:
    """Of another version what was read and what was expected are compared as numbers; what is none is its affair."""
    record = _lies(make_record("a"), status=status, predicted=predicted, expected=expected)
    if record.verdict.rule is not None:
        record = replace(record, verdict=replace(record.verdict, rule=replace(record.verdict.rule, k_reject=0)))
    why = record_contradiction(record, readers())
    assert (why is not None and why.startswith("question 0 is")) is is_refused, why


def _judged(make_record: MakeRecord, outcome: Outcome, counts: Counts, **rule: Any) -> RunRecord:
    record = make_record("a", outcome=outcome)
    assert record.verdict.rule is not None
    verdict = replace(record.verdict, rule=replace(record.verdict.rule, n=counts.n, **rule))
    dataset = replace(record.dataset, question_ids=tuple(range(counts.n)))
    return replace(record, counts=counts, observations=(), dataset=dataset, verdict=verdict)


_EARLY = Early(method="sprt", alpha=0.01, beta=0.1, asked_alpha=0.02, asked_beta=0.2)


@pytest.mark.parametrize(
    ("outcome", "parts", "rule", "is_refused"),
    [
        (Outcome.PASS, (9, 11, 0, 0), {"k_reject": 10}, True),
        (Outcome.PASS, (10, 10, 0, 0), {"k_reject": 10}, False),
        (Outcome.PASS, (10, 10, 0, 0), {"k_reject": 9, "k_accept": 11}, True),
        (Outcome.PASS, (9, 0, 0, 11), {"k_reject": 10}, True),
        (Outcome.PASS, (9, 0, 0, 11), {"k_reject": 10, "early": _EARLY}, False),
        (Outcome.PASS, (9, 11, 0, 0), {"k_reject": 10, "early": _EARLY}, True),
        (Outcome.PASS, (9, 11, 0, 0), {"k_reject": 10, "method": "exact_mcnemar"}, False),
        (Outcome.FAIL, (10, 10, 0, 0), {"k_reject": 10}, True),
        (Outcome.FAIL, (9, 11, 0, 0), {"k_reject": 10}, False),
        (Outcome.FAIL, (8, 10, 2, 0), {"k_reject": 10}, True),
        (Outcome.FAIL, (8, 0, 0, 12), {"k_reject": 10, "early": _EARLY}, False),
        (Outcome.FAIL, (10, 10, 0, 0), {"k_reject": 10, "method": "exact_conditional"}, False),
        (Outcome.INCONCLUSIVE, (1, 19, 0, 0), {"k_reject": 10}, False),
        (Outcome.INFRA, (1, 0, 19, 0), {"k_reject": 10}, False),
    ],
)
def test_an_outcome_that_its_counts_deny(
    make_record: MakeRecord,
    outcome: Outcome,
    parts: tuple[int, int, int, int],
    rule: dict[str, Any],
    *,
    is_refused: bool,
) -> None:
    """PASS needs the counts of its rule with every open question wrong, FAIL fewer with every one right; a sequential
    test and a p-value have reasons of their own."""
    correct, wrong, lost, unasked = parts
    counts = Counts(n=20, correct=correct, wrong=wrong, no_answer=0, truncated=0, lost=lost, unasked=unasked)
    why = record_contradiction(_judged(make_record, outcome, counts, **rule), readers())
    assert (why is not None and why.startswith(f"it is {outcome.value}")) is is_refused, why


def test_a_verdict_needs_a_rule_for_its_questions(tmp_path: Path, make_record: MakeRecord) -> None:
    """A PASS by no rule, or by one for another number of questions, is refused."""
    record = make_record("a")
    bare = Verdict(outcome=Outcome.PASS, reason_code="floor-met", reason="so")
    assert "it is PASS by no rule" in _refused(tmp_path, replace(record, verdict=bare))
    assert record.verdict.rule is not None
    other = replace(record.verdict, rule=replace(record.verdict.rule, n=1319))
    assert "its rule is one for 1319 questions" in _refused(tmp_path, replace(record, verdict=other))


@pytest.mark.parametrize(
    "words", [("gate=auto",), ("gate=static_floor", "gate.floor=0.85"), ("protocol.extractor=last_number",)]
)
def test_runs_of_every_outcome_contradict_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whatever gatekit itself measured and decided is of one piece."""
    asked = ("task.n=60", *words)
    before = keep_nights(tmp_path, series("n", 0.9, 4, first="2026-09-01", step=0.02), *asked)
    nights = [*series("o", 0.9, 1, first="2026-10-01"), *series("m", 0.4, 1, first="2026-10-02")]
    for record in (*before, *run_nights(tmp_path, nights, *asked)):
        assert record_contradiction(record, readers()) is None, record.verdict


def test_three_decisions_in_a_breath_are_three(tmp_path: Path, make_record: MakeRecord) -> None:
    """Quarantine, release and quarantine again for one reason, as quickly as can be: each is made, and the last holds,
    also in an index that is made anew from the act files alone."""
    place = Place(dir=tmp_path / "h")
    remember(place, make_record("a"))
    ids = []
    for kind in ("quarantine", "release", "quarantine"):
        done = here(tmp_path, "history", kind, "a", "--dir", "h", "--reason", "same words", "--json")
        assert done.code == 0, done.err
        ids.append(done.data["act"]["act_id"])
    assert len(set(ids)) == 3
    assert [act.act_id for act in index.acts(place)] == ids == sorted(ids)
    assert index.quarantined(place) == {"a"}
    for name in ("index.sqlite", "index.sqlite.seal", "arrivals.jsonl"):
        (place.dir / name).unlink()
    assert here(tmp_path, "history", "rebuild", "--dir", "h").code == 0
    assert index.quarantined(place) == {"a"}


def test_a_name_that_is_taken_is_no_decision(tmp_path: Path, make_record: MakeRecord) -> None:
    """Where the clock went back to the second of an older act of the same words, the command fails: it made none."""
    place = Place(dir=tmp_path / "h")
    remember(place, make_record("a"))
    first = make_act(ActKind.QUARANTINE, "a", reason="hot", now=NOW)
    record_act(place, first)

    with pytest.raises(InfraError, match="nothing was decided"):
        _refuse_known(place, make_act(ActKind.QUARANTINE, "a", reason="hot", now=NOW))
