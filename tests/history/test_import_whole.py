"""What comes with a file of records beside the answers: who supersedes whom, when, and what was decided about them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from command_line import environment, here
from gatekit.errors import ConfigError, InfraError
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.exporting import Chosen, Format, chosen_runs, export
from gatekit.history.importing import import_records
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.remember import remember
from gatekit.history.verify import verify
from gatekit.records.act import ActKind
from gatekit.records.canonical import canonical_json, digest, to_plain
from gatekit.records.run import RunRecord, record_to_plain
from kept_nights import keep_nights
from nights import series

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 12, 1, tzinfo=UTC)
_FIELDS = {"n": 4, "extractor_version": "a/1", "protocol.extractor": "gatekit"}
_AGAIN = {**_FIELDS, "extractor_version": "a/2"}


def _file(path: Path, *plains: Any) -> Path:
    path.write_bytes(b"".join(canonical_json(_plain(one)) + b"\n" for one in plains))
    return path


def _plain(one: Any) -> Any:
    return record_to_plain(one) if isinstance(one, RunRecord) else one


def _act(kind: ActKind, target: str, *, made: datetime = NOW, **changed: Any) -> Any:
    plain = to_plain(make_act(kind, target, reason="why", now=made)) | changed
    return plain | {"digest": digest(plain)}


def _refused(folder: Path, *plains: Any) -> str:
    """The one line by which import refuses a file, of which nothing is kept."""
    before = sorted(folder.glob("h/**/*.json"))
    done = here(folder, "history", "import", str(_file(folder / "in.jsonl", *plains)), "--dir", "h")
    assert (done.code in (2, 3), done.err.count("\n")) == (True, 1), done.err
    assert sorted(folder.glob("h/**/*.json")) == before
    return done.err


def test_a_run_scored_anew_comes_with_the_one_it_replaces(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record may supersede one of the file or of the history, which has the same key but for its extractor."""
    old, new = make_record("old", key_fields=_FIELDS), make_record("new", key_fields=_AGAIN, supersedes="old")
    newer = make_record("newer", key_fields=_AGAIN, supersedes="old", build="0.11")
    assert import_records(Place(dir=tmp_path / "h"), _file(tmp_path / "1", new, old), now=NOW).added == 2
    assert import_records(Place(dir=tmp_path / "h"), _file(tmp_path / "2", newer), now=NOW).added == 1


def test_superseding_that_cannot_be_is_refused(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record that supersedes itself, each other, one that is nowhere, or one that measured something else."""
    assert "run a is refused: it supersedes itself" in _refused(tmp_path, make_record("a", supersedes="a"))
    pair = [make_record("a", supersedes="b", key_fields=_FIELDS), make_record("b", supersedes="a", key_fields=_AGAIN)]
    assert "run a is refused: it supersedes run b, which supersedes it in turn" in _refused(tmp_path, *pair)
    ring = [make_record(one, supersedes=two, key_fields=_FIELDS) for one, two in ("ab", "bc", "ca")]
    assert "supersedes it in turn" in _refused(tmp_path, *ring)
    assert "which is neither in this file nor in the history" in _refused(tmp_path, make_record("a", supersedes="x"))
    remember(Place(dir=tmp_path / "h"), make_record("old", key_fields={**_FIELDS, "protocol.seed": 7}))
    other = make_record("a", supersedes="old", key_fields=_AGAIN)
    assert "differs in more than its extractor: protocol.seed" in _refused(tmp_path, other)


def test_a_selective_export_brings_what_its_runs_supersede(tmp_path: Path, make_record: MakeRecord) -> None:
    """What is exported by key can be imported into an empty history, though what it supersedes has another key."""
    there = Place(dir=tmp_path / "there")
    remember(there, make_record("old", key_fields=_FIELDS))
    remember(there, make_record("other", key_fields={"n": 4}))
    remember(there, make_record("new", key_fields=_AGAIN, supersedes="old"))
    key = digest(_AGAIN)
    assert here(tmp_path, "history", "export", "out.jsonl", "--key", key, "--dir", "there").code == 0
    done = here(tmp_path, "history", "import", "out.jsonl", "--dir", "h")
    assert (done.code, done.out) == (0, "added 2 runs, 0 were in the history; runs old to new\n"), done.err


@pytest.mark.parametrize(
    "moment",
    [
        "9999-99-99T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-11-30T25:00:00Z",
        "٢٠٢٦-11-30T00:00:00Z",
        "2026-11-30T03:00:00." + "1" * 5000 + "Z",
        "2026-11-30T03:00:00+02:00",
        "2026-11-30T03:00:00Z\n",
        "2026-11-30",
        "0000-01-01T00:00:00Z",
    ],
)
def test_moments_that_are_none_are_refused(tmp_path: Path, make_record: MakeRecord, moment: str) -> None:
    """When a run or an act was is a moment of the calendar in UTC, or the file is refused, naming the value."""
    assert "finished_at" in _refused(tmp_path, make_record("a", finished_at=moment))
    assert "started_at" in _refused(tmp_path, replace(make_record("a"), started_at=moment))
    act = _act(ActKind.QUARANTINE, "a", made_at=moment)
    assert "made_at" in _refused(tmp_path, make_record("a"), act)


@pytest.mark.parametrize("moment", ["9999-99-99", "٢٠٢٦-11-30", "2026-11-30T03:00:00." + "1" * 5000, "2026-11-30T24"])
def test_totals_know_only_real_moments(tmp_path: Path, moment: str) -> None:
    """The dates of old totals are read as strictly."""
    (tmp_path / "old.csv").write_text(f"finished_at,n,correct\n{moment},1319,1200\n")
    words = ("history", "import", "old.csv", "--format", "totals", "model=laguna_int4", "hw=b200")
    done = here(tmp_path, *words)
    assert (done.code, done.err.count("\n"), "finished_at" in done.err) == (2, 1, True), done.err


def test_norm_and_locks_survive_the_move(tmp_path: Path) -> None:
    """Exported and imported into an empty history, with its acts, a history gives the same norm and the same locks."""
    words = ["task.n=60", "gate=auto"]
    records = keep_nights(tmp_path, series("n", 0.9, 9, first="2026-09-01", step=0.02), *words)
    old, moved = Place(dir=tmp_path / ".gatekit"), Place(dir=tmp_path / "moved")
    key = records[0].comparability
    after = record_to_plain(records[2])["digest"]
    made = datetime(2026, 9, 20, tzinfo=UTC)
    for number, act in enumerate(
        [
            (ActKind.REBASELINE, key.key, after),
            (ActKind.QUARANTINE, "n-04", None),
            (ActKind.QUARANTINE, "n-06", None),
            (ActKind.RELEASE, "n-04", None),
        ]
    ):
        kind, target, behind = act
        moment = made + timedelta(minutes=number)
        record_act(old, make_act(kind, target, reason=f"{number}", now=moment, after=behind))
    done = here(tmp_path, "history", "export", "out.jsonl")
    assert done.err == "gatekit: 9 runs and 4 acts written to out.jsonl\n"
    done = here(tmp_path, "history", "import", "out.jsonl", "--dir", "moved")
    assert done.out.splitlines() == [
        "added 9 runs, 0 were in the history; added 4 acts; runs n-00 to n-08",
        *(f"the norm of key {act.target} starts anew: 0 (act {act.act_id})" for act in index.acts(old)[:1]),
        *(f"run n-06 does not count any more: 2 (act {act.act_id})" for act in index.acts(old)[2:3]),
    ], done.err
    assert index.acts(moved) == index.acts(old)
    assert past_runs(moved, records[0].spec, key) == past_runs(old, records[0].spec, key)
    assert [run.run_id for run in past_runs(moved, records[0].spec, key).runs] == [
        "n-03",
        "n-04",
        "n-05",
        "n-07",
        "n-08",
    ]
    assert verify(moved).findings == ()
    found = [
        json.loads(here(tmp_path, "thresholds", "recompute", "--all-series", "--json", "--dir", name).out)
        for name in (".gatekit", "moved")
    ]
    assert found[0]["thresholds"][0]["lock"] is not None
    assert found[0]["thresholds"][0]["lock"] == found[1]["thresholds"][0]["lock"]
    again = here(tmp_path, "history", "import", "out.jsonl", "--dir", "moved", "--json").data
    assert (again["added"], again["known"], again["acts"]) == (0, 9, 0)
    assert index.acts(moved) == index.acts(old)


def test_acts_are_about_the_runs_of_their_file(tmp_path: Path, make_record: MakeRecord) -> None:
    """An act about another run, one that was changed, or one whose id means something else here refuses the file."""
    here_ = Place(dir=tmp_path / "h")
    remember(here_, make_record("mine"))
    stray = _act(ActKind.QUARANTINE, "mine")
    assert "of which this file holds no run" in _refused(tmp_path, make_record("a"), stray)
    changed = _act(ActKind.QUARANTINE, "a") | {"reason": "other"}
    assert "digest does not match" in _refused(tmp_path, make_record("a"), changed)
    act = _act(ActKind.QUARANTINE, "a")
    import_records(here_, _file(tmp_path / "ok", make_record("a"), act), now=NOW)
    other = {name: value for name, value in act.items() if name != "digest"} | {"reason": "other"}
    assert "act-id-taken" in _refused(tmp_path, make_record("a"), other | {"digest": digest(other)})
    assert "no records in this file" in _refused(tmp_path, act)


def test_acts_come_in_the_order_of_the_file(tmp_path: Path, make_record: MakeRecord) -> None:
    """A clock that was wrong when an act was made changes no norm: what came last is the last, as where it is from.
    Only what is dated later than now is left out: it would be later than whatever is decided until then."""
    old, new = Place(dir=tmp_path / "old"), Place(dir=tmp_path / "new")
    remember(old, make_record("a"))
    late = datetime(2031, 1, 1, tzinfo=UTC)
    record_act(old, make_act(ActKind.QUARANTINE, "a", reason="the clock was wrong", now=late))
    record_act(old, make_act(ActKind.RELEASE, "a", reason="it was fine", now=NOW))
    rows = chosen_runs(old, Chosen())
    export(old, rows, tmp_path / "all.jsonl", Format.JSONL, force=False)
    early = import_records(new, tmp_path / "all.jsonl", now=NOW)
    assert [act.kind for act in index.acts(new)] == [ActKind.RELEASE]
    assert (early.acts, early.changes) == (1, ())
    assert "left out: dated 2031-01-01T00:00:00Z, which is yet to come; decide it here" in early.flags[0]
    newer = Place(dir=tmp_path / "newer")
    import_records(newer, tmp_path / "all.jsonl", now=late)
    assert [act.act_id for act in index.acts(newer)] == [act.act_id for act in index.acts(old)]
    assert index.quarantined(new) == index.quarantined(newer) == index.quarantined(old) == frozenset()


def test_the_last_decision_holds(tmp_path: Path, make_record: MakeRecord) -> None:
    """An act that is older than what was decided here about the same run is left out, and told."""
    place = Place(dir=tmp_path / "h")
    remember(place, make_record("a"))
    for kind, minute in ((ActKind.QUARANTINE, 1), (ActKind.RELEASE, 2)):
        record_act(place, make_act(kind, "a", reason="here", now=NOW + timedelta(minutes=minute)))
    older = _act(ActKind.QUARANTINE, "a", made=NOW)
    stored = json.loads((place.dir / "runs/a/record.json").read_text())
    done = import_records(place, _file(tmp_path / "in.jsonl", stored, older), now=NOW + timedelta(minutes=3))
    assert (done.acts, done.flags) == (
        0,
        (f"line 2: act {older['act_id']} left out: something later was decided here",),
    )
    assert index.acts(place)[-1].kind is ActKind.RELEASE


@pytest.mark.parametrize("format_", ["jsonl", "totals"])
def test_a_killed_import_is_completed_by_another(tmp_path: Path, make_record: MakeRecord, format_: str) -> None:
    """SIGKILL at any moment leaves a history that a second import brings to exactly what one import gives."""
    words = ["history", "import", "in.jsonl"]
    if format_ == "jsonl":
        _file(tmp_path / "in.jsonl", *(make_record(f"run-{number:03d}", build=f"b{number}") for number in range(200)))
    else:
        lines = [{"finished_at": "2026-11-01", "n": 1319, "correct": 1000 + k, "build": f"b{k}"} for k in range(200)]
        (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        words += ["--format", "totals", "model=laguna_int4", "hw=b200"]
    assert here(tmp_path, *words, "--dir", "whole").code == 0
    _kill_when_there(tmp_path, [*words, "--dir", "h"], tmp_path / "h" / "runs", at_least=20)
    left = len(list((tmp_path / "h" / "runs").iterdir()))
    assert 20 <= left < len(list((tmp_path / "whole" / "runs").iterdir()))
    done = here(tmp_path, *words, "--dir", "h")
    assert done.code == 0, done.err
    assert index.list_runs(Place(dir=tmp_path / "h"), limit=999) == index.list_runs(
        Place(dir=tmp_path / "whole"), limit=999
    )
    assert verify(Place(dir=tmp_path / "h")).findings == ()


def test_an_import_that_is_stopped_says_how_far_it_came(tmp_path: Path, make_record: MakeRecord) -> None:
    """After SIGTERM the exit code is 143, and the line says how many records are there and what completes them."""
    _file(tmp_path / "in.jsonl", *(make_record(f"run-{number:03d}", build=f"b{number}") for number in range(200)))
    words = ["history", "import", "in.jsonl", "--dir", "h"]
    code, err = _kill_when_there(tmp_path, words, tmp_path / "h" / "runs", at_least=20, by=signal.SIGTERM)
    assert (code, err.count("\n")) == (143, 1), err
    assert "the import stopped after " in err
    assert " of 200 records; import the same file again: it completes what is missing" in err
    assert here(tmp_path, *words).code == 0
    assert len(index.list_runs(Place(dir=tmp_path / "h"), limit=999)) == 200


def test_a_disk_that_fails_part_way_is_told_with_the_count(tmp_path: Path, make_record: MakeRecord) -> None:
    """Where a record cannot be written the line says how many were, and a second import completes them."""
    path = _file(tmp_path / "in.jsonl", *(make_record(f"run-{number}", build=f"b{number}") for number in range(5)))
    index.prepare(Place(dir=tmp_path / "h"))
    runs = tmp_path / "h" / "runs"
    runs.mkdir()
    (runs / "run-3").symlink_to("nowhere")
    with pytest.raises(InfraError, match=r"the import stopped after 3 of 5 records: cannot make .*run-3") as caught:
        import_records(Place(dir=tmp_path / "h"), path, now=NOW)
    assert "import the same file again" in caught.value.hint
    (runs / "run-3").unlink()
    import_records(Place(dir=tmp_path / "h"), path, now=NOW)
    assert len(index.list_runs(Place(dir=tmp_path / "h"), limit=9)) == 5


def test_a_record_against_its_own_key_is_refused(tmp_path: Path, make_record: MakeRecord) -> None:
    """What the key says of model and questions is what the record itself holds."""
    for fields in ({"n": 5}, {"n": "4"}, {"model": "other"}, {"protocol.shots": 8}):
        with pytest.raises(ConfigError, match="is not what its spec and questions give"):
            import_records(Place(dir=tmp_path / "h"), _file(tmp_path / "in", make_record(key_fields=fields)), now=NOW)


def _kill_when_there(
    folder: Path, words: list[str], runs: Path, *, at_least: int, by: signal.Signals = signal.SIGKILL
) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "gatekit", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if runs.is_dir() and len(list(runs.iterdir())) >= at_least:
            break
        time.sleep(0.002)
    process.send_signal(by)
    _, err = process.communicate(timeout=60)
    return process.returncode, err
