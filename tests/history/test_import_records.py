"""Whole records from elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from command_line import here
from gatekit.errors import ConfigError, InfraError
from gatekit.history import index
from gatekit.history.exporting import Chosen, Format, chosen_runs, export
from gatekit.history.importing import import_records
from gatekit.history.place import Place
from gatekit.history.remember import rebuild, remember
from gatekit.history.verify import verify
from gatekit.records.canonical import canonical_json, digest
from gatekit.records.run import RunRecord, record_to_plain

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def _exported(place: Place, path: Path) -> Path:
    export(place, chosen_runs(place, Chosen()), path, Format.JSONL, force=True)
    return path


def _lines(path: Path, *records: RunRecord | Mapping[str, object]) -> Path:
    plains = [record_to_plain(one) if isinstance(one, RunRecord) else one for one in records]
    path.write_bytes(b"".join(canonical_json(plain) + b"\n" for plain in plains))
    return path


@pytest.fixture
def there(tmp_path: Path, make_record: MakeRecord) -> Place:
    """Another history, with a clock that was wrong twice, a chain, and a text that is no clean UTF-8."""
    place = Place(dir=tmp_path / "there")
    remember(place, make_record("c", finished_at="2099-01-01T00:00:00Z"))
    remember(place, make_record("b", finished_at="1970-01-01T00:00:00Z", build="a\ud800b"))
    remember(place, make_record("a", build="0.11"))
    return place


def test_there_and_back_nothing_changes(there: Place, place: Place, tmp_path: Path) -> None:
    """Exported, imported elsewhere and indexed anew, the rows are equal, their order too, and all is verified."""
    imported = import_records(place, _exported(there, tmp_path / "out.jsonl"), now=NOW)
    assert (imported.added, imported.known) == (3, 0)
    rows = index.list_runs(there, limit=9)
    assert [row.run_id for row in rows] == ["a", "b", "c"]
    assert index.list_runs(place, limit=9) == rows
    assert verify(place).findings == ()
    for row in rows:
        assert (place.dir / row.path).read_bytes() == (there.dir / row.path).read_bytes()
    if place.url is None:
        (place.dir / "index.sqlite").unlink()
        assert rebuild(place).problems == ()
        assert index.list_runs(place, limit=9) == rows
        assert verify(place).findings == ()


def test_the_same_run_twice_counts_once(there: Place, place: Place, tmp_path: Path) -> None:
    """S09: twice in the file and twice imported, a run is one run, known by its digest."""
    out = _exported(there, tmp_path / "out.jsonl")
    out.write_bytes(out.read_bytes() * 2)
    assert import_records(place, out, now=NOW).added == 3
    again = import_records(place, out, now=NOW)
    assert (again.added, again.known) == (0, 3)
    assert len(index.list_runs(place, limit=9)) == 3


def test_a_wrong_clock_is_told_and_its_run_taken(there: Place, tmp_path: Path) -> None:
    """S10: runs dated 2099 and 1970 come in the order of the file, and are flagged."""
    here = Place(dir=tmp_path / "here")
    imported = import_records(here, _exported(there, tmp_path / "out.jsonl"), now=NOW)
    assert imported.flags == (
        "line 1: dated 2099-01-01T00:00:00Z, which is yet to come",
        "line 2: dated 1970-01-01T00:00:00Z, before GSM8K existed",
    )
    assert [row.run_id for row in index.list_runs(here, limit=9)][::-1] == ["c", "b", "a"]


def test_two_hosts_with_one_run_id(place: Place, tmp_path: Path, make_record: MakeRecord) -> None:
    """T13: other content under a known id is refused with both digests; nothing of the file is taken."""
    mine, theirs = make_record("run-1"), make_record("run-1", build="0.11")
    _, kept = remember(place, mine)
    path = _lines(tmp_path / "in.jsonl", make_record("new"), theirs)
    with pytest.raises(InfraError) as caught:
        import_records(place, path, now=NOW)
    assert caught.value.reason == "run-id-taken"
    for record in (kept, theirs):
        assert record_to_plain(record)["digest"] in caught.value.message
    assert [row.run_id for row in index.list_runs(place, limit=9)] == ["run-1"]
    assert not (place.dir / "runs" / "new").exists()
    assert verify(place).findings == ()


def test_two_hosts_with_one_run_id_through_a_shared_database(
    postgres_place: Place, tmp_path: Path, make_record: MakeRecord
) -> None:
    """T13: the second of two hosts with folders of their own is refused by the database they share."""
    remember(postgres_place, make_record("run-1"))
    other = Place(dir=tmp_path / "other-host", url=postgres_place.url)
    theirs = make_record("run-1", build="0.11")
    with pytest.raises(InfraError) as caught:
        import_records(other, _lines(tmp_path / "in.jsonl", theirs), now=NOW)
    assert caught.value.reason == "run-id-taken"
    assert record_to_plain(theirs)["digest"] in caught.value.message
    assert not (other.dir / "runs").exists()


def test_two_contents_in_one_file_are_refused(tmp_path: Path, make_record: MakeRecord) -> None:
    """A file that says two things of one run is refused with both lines."""
    path = _lines(tmp_path / "in.jsonl", make_record("run-1"), make_record("run-1", build="0.11"))
    with pytest.raises(InfraError, match=r"in\.jsonl:2: .* line 1 holds"):
        import_records(Place(dir=tmp_path / "here"), path, now=NOW)


def _broken(make_record: MakeRecord) -> dict[str, bytes]:
    whole = canonical_json(record_to_plain(make_record("bad")))
    plain = record_to_plain(make_record("bad"))
    wrong = {key: value for key, value in plain.items() if key != "digest"} | {"events": [1]}
    return {
        "other digest": whole.replace(b"3 of 4", b"4 of 4"),
        "no digest": canonical_json({key: value for key, value in plain.items() if key != "digest"}),
        "broken schema": canonical_json(wrong | {"digest": digest(wrong)}),
        "cut off": whole[:-10],
        "a key twice": b'{"format":1,' + whole[1:],
        "NaN": whole.replace(b'"low":0.2', b'"low":NaN'),
        "no object": b"[]",
        "no JSON": b"run_id,n",
        "not UTF-8": whole.replace(b"server ready", b"server \xff\xfe"),
        "too deep": b"[" * 100_000,
    }


_WHAT = (
    "other digest",
    "no digest",
    "broken schema",
    "cut off",
    "a key twice",
    "NaN",
    "no object",
    "no JSON",
    "not UTF-8",
    "too deep",
)


@pytest.mark.parametrize("what", _WHAT)
def test_one_bad_line_refuses_the_file(tmp_path: Path, make_record: MakeRecord, what: str) -> None:
    """A line that is not a whole, intact record is named, and no record is written, not even those before it."""
    here = Place(dir=tmp_path / "here")
    path = _lines(tmp_path / "in.jsonl", make_record("good"))
    path.write_bytes(path.read_bytes() + _broken(make_record)[what] + b"\n")
    with pytest.raises(ConfigError) as caught:
        import_records(here, path, now=NOW)
    assert caught.value.reason == "bad-import"
    assert str(caught.value.problems[0].where) == f"{path}:2"
    assert not here.dir.exists()


def test_an_unusable_file_is_named(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe and an empty file are one line each, and never waited for."""
    here = Place(dir=tmp_path / "here")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "pipe", "empty", "."):
        with pytest.raises(ConfigError) as caught:
            import_records(here, tmp_path / name, now=NOW)
        assert str(tmp_path / name) in caught.value.lines()[0]
    assert not here.dir.exists()


def test_a_record_of_an_older_gatekit_keeps_its_bytes(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record without fields that came later is kept as it was written, and verifies."""
    plain = record_to_plain(make_record("old"))
    content = {key: value for key, value in plain.items() if key not in ("digest", "previous", "supersedes")}
    old = content | {"digest": digest(content)}
    here = Place(dir=tmp_path / "here")
    assert import_records(here, _lines(tmp_path / "in.jsonl", old), now=NOW).added == 1
    assert json.loads((here.dir / "runs/old/record.json").read_bytes()) == old
    assert verify(here).findings == ()


def test_the_command_moves_a_history(there: Place, tmp_path: Path) -> None:
    """Export and import by the command line; a file that is refused exits 2, a taken run id 3."""
    done = here(tmp_path, "history", "export", "out.jsonl", "--dir", "there")
    assert (done.code, done.out, done.err) == (0, "", "gatekit: 3 runs written to out.jsonl\n")
    first = here(tmp_path, "history", "import", "out.jsonl", "--dir", "here")
    assert (first.code, first.out) == (0, "added 3 runs, 0 were in the history; runs c to a\n")
    assert "which is yet to come" in first.err
    assert here(tmp_path, "history", "import", "out.jsonl", "--dir", "here").out.startswith("added 0 runs, 3")
    wrong = here(tmp_path, "history", "import", "out.jsonl", "task.n=3", "--dir", "here")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_broken_json_is_placed_once(tmp_path: Path, make_record: MakeRecord) -> None:
    """The line is that of the file, named once: the decoder would call each line the first."""
    good = json.dumps(record_to_plain(make_record("a")))
    path = tmp_path / "in.jsonl"
    path.write_text(f"{good}\n{good[:-1]}\n")
    with pytest.raises(ConfigError) as caught:
        import_records(Place(dir=tmp_path / "here"), path, now=NOW)
    (line,) = caught.value.lines()
    assert line.startswith(f"{path}:2: not a whole run record: Expecting ',' delimiter at column {len(good)}")
    assert "line 1" not in line


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda plain: plain["comparability"]["fields"].update({"protocol.shots": 8}), "not the digest of its fields"),
        (
            lambda plain: plain["counts"].update(
                correct=plain["counts"]["n"], wrong=0, no_answer=0, truncated=0, lost=0
            ),
            "not those of its answers",
        ),
        (
            lambda plain: plain["spec"]["engine"].update(accuracy=10**400),
            "spec.engine.accuracy: is not what maximum 1 asks for",
        ),
    ],
)
def test_a_record_against_itself_is_refused(
    tmp_path: Path, make_record: MakeRecord, change: Callable[[Any], None], why: str
) -> None:
    """A resealed record whose key, counts or numbers cannot be is refused with its line, and nothing is written."""
    plain = record_to_plain(make_record("odd"))
    del plain["digest"]
    change(plain)
    plain["digest"] = digest(plain)
    (tmp_path / "odd.jsonl").write_bytes(canonical_json(plain) + b"\n")
    with pytest.raises(ConfigError, match=why) as caught:
        import_records(Place(dir=tmp_path / "h"), tmp_path / "odd.jsonl", now=NOW)
    assert "odd.jsonl:1" in caught.value.lines()[0]
    assert not (tmp_path / "h").exists()
