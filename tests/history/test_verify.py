"""Whether every bit of the history is what was written."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import here
from gatekit.history.acts import make_act, record_act, write_act
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path, write_record
from gatekit.history.remember import check_ready, remember, sync
from gatekit.history.verify import Verified, verify
from gatekit.records.act import ActKind
from gatekit.records.answers import Status
from gatekit.records.canonical import canonical_json, digest
from gatekit.records.run import RunRecord, record_to_plain
from postgres_server import PostgresServer

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)


@pytest.fixture
def kept(place: Place, make_record: MakeRecord) -> Place:
    """A history of three runs in two series, an act, and one run whose answers are not whole."""
    remember(place, make_record("run-1"))
    remember(place, make_record("run-2", build="0.11"))
    lost = (Status.CORRECT, Status.LOST, Status.WRONG, Status.NO_ANSWER)
    remember(place, make_record("other", key_fields={"max_tokens": 512}, statuses=lost))
    record_act(place, make_act(ActKind.QUARANTINE, "run-1", reason="the GPU was hot", now=NOW))
    return place


def _reasons(verified: Verified) -> list[str]:
    return [finding.reason for finding in verified.findings]


def test_an_intact_history_is_well(kept: Place) -> None:
    """No finding and no note, and everything was looked at."""
    verified = verify(kept)
    assert (verified.findings, verified.notes) == ((), ())
    assert (verified.records, verified.rows, verified.acts) == (3, 3, 1)
    assert (verified.chains.series, verified.chains.starts, verified.chains.forks) == (2, 2, 0)


def test_an_empty_history_is_well(place: Place) -> None:
    """Where nothing was written nothing is wrong, and nothing is made."""
    assert verify(place).findings == ()
    assert list(place.dir.iterdir()) == []


def test_every_flipped_bit_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """Each of 200 random single-bit flips in record files, act files and the database file is found, and none of
    them is left when it is flipped back; verifying changes no file."""
    place = Place(dir=tmp_path / "history")
    for number in range(3):
        remember(place, make_record(f"run-{number}", build=f"0.{number}"))
    record_act(place, make_act(ActKind.QUARANTINE, "run-1", reason="the GPU was hot", now=NOW))
    groups = [
        sorted(place.dir.glob("runs/*/record.json")),
        sorted(place.dir.glob("acts/*.json")),
        [place.dir / "index.sqlite"],
        [place.dir / "index.sqlite"],
    ]
    rng = random.Random(20261130)
    before = {path: path.read_bytes() for group in groups for path in group}
    header = [(place.dir / "index.sqlite", bit) for bit in rng.sample(range(100 * 8), 20)]
    spread = [rng.choice(groups[number % 4]) for number in range(180)]
    flips = header + [(path, rng.randrange(8 * len(before[path]))) for path in spread]
    assert len(flips) == 200
    for path, bit in flips:
        data = bytearray(before[path])
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        verified = verify(place)
        assert verified.findings, f"bit {bit} of {path.name} was flipped and not found"
        assert path.read_bytes() == data, f"verify changed {path.name}"
        path.write_bytes(before[path])
    assert verify(place).findings == ()
    assert {path: path.read_bytes() for path in before} == before


_CHANGES = {
    "digest": "'sha256:' || repeat('0', 64)",
    "previous": "'sha256:' || repeat('0', 64)",
    "supersedes": "'x'",
    "comparability_key": "'x'",
    "gate": "'x'",
    "spec_name": "'x'",
    "model": "'x'",
    "hw": "'x'",
    "engine": "'x'",
    "build": "NULL",
    "protocol": "'x'",
    "dataset": "'x'",
    "n": "5",
    "correct": "4",
    "wrong": "2",
    "no_answer": "1",
    "truncated": "1",
    "lost": "1",
    "unasked": "1",
    "measured": "FALSE",
    "outcome": "'FAIL'",
    "reason_code": "'x'",
    "simulated": "TRUE",
    "started_at": "'x'",
    "finished_at": "'x'",
    "path": "'x'",
    '"right"': "NULL",
}


def _update(place: Place, postgres: PostgresServer | None, sql: str) -> None:
    """As somebody who can: past the triggers of either database."""
    if place.url is None:
        connection = sqlite3.connect(place.dir / "index.sqlite")
        connection.create_function("repeat", 2, lambda text, times: text * times)
        triggers = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute(sql)
        connection.commit()
        connection.close()
        return
    assert postgres is not None
    database = place.url.rpartition("/")[2]
    postgres.execute(f"SET session_replication_role = replica; {sql}", database=database)


def test_every_changed_column_is_named(kept: Place, request: pytest.FixtureRequest) -> None:
    """Each column of a row that differs from its record is a finding with run, column and both values."""
    postgres = None if kept.url is None else request.getfixturevalue("postgres")
    names = ", ".join(f"{name} = {value}" for name, value in _CHANGES.items())
    _update(kept, postgres, f"UPDATE runs SET {names} WHERE run_id = 'run-2'")
    found = {finding.what.split()[1] for finding in verify(kept).findings if finding.where == "runs run-2"}
    assert found == {name.strip('"') for name in _CHANGES}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("UPDATE keys SET fields = '{}' WHERE fields LIKE '%256%'", "row-differs"),
        ("UPDATE gates SET gate = '{}'", "row-differs"),
        ("INSERT INTO keys VALUES ('stray', '{}')", "row-differs"),
        ("DELETE FROM gates", "row-missing"),
        ("UPDATE acts SET reason = 'because'", "row-differs"),
        ("UPDATE acts SET target = 'run-2'", "row-differs"),
    ],
)
def test_a_changed_table_is_found(kept: Place, request: pytest.FixtureRequest, sql: str, reason: str) -> None:
    """Shared texts and acts are compared too, on both databases."""
    postgres = None if kept.url is None else request.getfixturevalue("postgres")
    _update(kept, postgres, sql)
    assert reason in _reasons(verify(kept))


def test_what_is_written_meanwhile_is_never_damage(place: Place, make_record: MakeRecord) -> None:
    """While two writers add runs, verify finds nothing, and at the end it finds all of them well."""
    check_ready(place)

    def write(name: str) -> None:
        for number in range(25):
            remember(place, make_record(f"{name}-{number}"))

    writers = [threading.Thread(target=write, args=(name,)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert verify(place).findings == ()
    assert (verify(place).records, verify(place).rows) == (50, 50)


def test_a_missing_row_says_sync(kept: Place, make_record: MakeRecord) -> None:
    """A record that the index misses, because its writer was killed, is whole: a note whose command mends it."""
    write_record(kept.dir, make_record("late"))
    write_act(kept, make_act(ActKind.RELEASE, "run-1", reason="it was the sensor", now=NOW))
    verified = verify(kept)
    assert verified.findings == ()
    url = "" if kept.url is None else f" --url '{kept.shown}'"
    rows = [note for note in verified.notes if "is not in the index" in note]
    assert len(rows) == 2
    assert rows[0].startswith("runs late is not in the index")
    assert all(f"`gatekit history sync --dir {kept.dir}{url}` adds it" in note for note in rows)
    sync(kept)
    verified = verify(kept)
    assert verified.findings == ()
    assert not any("is not in the index" in note for note in verified.notes)


def test_a_missing_file_is_found(kept: Place) -> None:
    """A row without its record is a finding on SQLite; a shared database has runs of other machines: a note."""
    shutil.rmtree(record_path(kept.dir, "run-1").parent)
    verified = verify(kept)
    if kept.url is None:
        assert _reasons(verified) == ["file-missing"]
    else:
        assert verified.findings == ()
        assert verified.notes == ("1 runs of other machines were not checked: run-1",)


def test_a_missing_predecessor_is_an_error(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run whose predecessor is in no file and no row is named; a second start and a fork are notes."""
    place = Place(dir=tmp_path)
    _, first = remember(place, make_record("run-1"))
    its_digest = record_to_plain(first)["digest"]
    write_record(tmp_path, make_record("run-2", previous=its_digest))
    write_record(tmp_path, make_record("run-3", previous=its_digest, build="0.12"))
    write_record(tmp_path, make_record("run-4", build="0.13"))
    sync(place)
    verified = verify(place)
    assert verified.findings == ()
    assert (verified.chains.starts, verified.chains.forks) == (2, 1)
    assert [note.split()[2:4] for note in verified.notes] == [["has", "2"], ["forks:", "2"]]
    write_record(tmp_path, make_record("run-5", previous="sha256:" + "0" * 64))
    write_record(tmp_path, make_record("run-6", previous=its_digest, key_fields={"max_tokens": 512}))
    sync(place)
    found = {finding.where: finding.what for finding in verify(place).findings}
    assert found["run run-5"].endswith("is missing")
    assert found["run run-6"].endswith("is in another series")
    assert len(found) == 2


def test_a_record_in_another_folder_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """The folder's name is the run's id."""
    place = Place(dir=tmp_path)
    path, _ = remember(place, make_record("run-1"))
    path.parent.rename(path.parent.with_name("run-9"))
    assert _reasons(verify(place)) == ["record-broken"]


def test_a_wrong_key_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record that is whole but claims a comparability key that its fields do not have is no evidence."""
    place = Place(dir=tmp_path)
    record = make_record("run-1")
    remember(place, replace(record, comparability=replace(record.comparability, key="sha256:" + "1" * 64)))
    (finding,) = verify(place).findings
    assert "not the digest of its fields" in finding.what


def test_a_record_that_breaks_the_schema_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record with a valid digest over an invalid content is found."""
    place = Place(dir=tmp_path)
    path, _ = remember(place, make_record("run-1"))
    plain = record_to_plain(make_record("run-1")) | {"events": [1]}
    del plain["digest"]
    path.write_bytes(canonical_json(plain | {"digest": digest(plain)}) + b"\n")
    assert "record-broken" in _reasons(verify(place))


def test_a_lost_index_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """Records without an index are a lost index, and the hint names the command that makes it anew."""
    place = Place(dir=tmp_path)
    remember(place, make_record("run-1"))
    (tmp_path / "index.sqlite").unlink()
    (finding,) = verify(place).findings
    assert finding.reason == "index-missing"
    assert "gatekit history rebuild" in finding.hint


def test_the_command_says_what_where_why_and_what_next(tmp_path: Path, make_record: MakeRecord) -> None:
    """Exit 0 and one count line when all is well; else exit 3, one line a finding, and the count at the end."""
    place = Place(dir=tmp_path / ".gatekit")
    path, _ = remember(place, make_record("run-1"))
    well = here(tmp_path, "history", "verify")
    assert (well.code, well.err) == (0, "")
    assert well.out == "all is well: 1 record, 1 row, 0 acts; 1 series, 1 start, 0 forks\n"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"3 of 4", b"4 of 4"))
    broken = here(tmp_path, "history", "verify")
    assert broken.code == 3
    first, count = broken.out.splitlines()
    assert first == (
        "run record .gatekit/runs/run-1/record.json is broken: the record's digest does not match its content; "
        "restore the file from a copy, or move its folder out of runs/ [record-broken]"
    )
    assert count == "1 finding: 0 records, 1 row, 0 acts; 0 series, 0 starts, 0 forks"
    document = here(tmp_path, "history", "verify", "--json")
    assert (document.code, document.data["findings"][0]["reason"]) == (3, "record-broken")
    assert document.data["records"] == 0
    nowhere = here(tmp_path, "history", "verify", "--dir", "nowhere")
    assert (nowhere.code, nowhere.err.count("\n")) == (2, 1), "a folder that is not there is not well"


def test_a_record_that_contradicts_itself_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """A record whose bytes and digest are right, but whose counts are not those of its answers, is a finding."""
    place = Place(dir=tmp_path)
    record = make_record("odd")
    remember(place, replace(record, counts=replace(record.counts, correct=4, wrong=0)))
    (finding,) = verify(place).findings
    assert finding.reason == "record-contradicts-itself"
    assert "run odd: contradicts itself: its counts are not those of its answers" in finding.line()
    ran = here(tmp_path, "history", "verify", "--dir", ".")
    assert (ran.code, "record-contradicts-itself" in ran.out) == (3, True)
