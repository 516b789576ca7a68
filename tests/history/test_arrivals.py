"""The order of arrival: kept beside the records, so that it survives the loss of the database."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatekit.history import index
from gatekit.history.acts import make_act, record_act, write_act
from gatekit.history.arrivals import Arrival, Kind, append_arrivals, arrivals_path, read_arrivals
from gatekit.history.exporting import Chosen, Format, chosen_runs, export
from gatekit.history.importing import import_records
from gatekit.history.past import past_runs
from gatekit.history.place import INDEX_FILE, Place
from gatekit.history.records_folder import read_stored, record_path, write_record
from gatekit.history.remember import KeptError, check_ready, rebuild, remember, sync
from gatekit.history.verify import verify
from gatekit.records.act import ActKind
from gatekit.records.past import Past
from gatekit.records.run import RunRecord
from postgres_server import PostgresServer

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)
SERIES = ({"max_tokens": 256}, {"max_tokens": 512})


@pytest.fixture
def emptied(request: pytest.FixtureRequest) -> Callable[[Place], Place]:
    """The same history after its database was lost."""

    def empty(place: Place) -> Place:
        if place.url is None:
            for path in place.dir.glob(f"{INDEX_FILE}*"):
                path.unlink()
            return place
        server: PostgresServer = request.getfixturevalue("postgres")
        return Place(dir=place.dir, url=server.url(server.new_database()))

    return empty


def _rows(place: Place) -> list[dict[str, object]]:
    return [asdict(row) for row in index.list_runs(place, limit=10_000)]


class _Writer:
    """Does what people and machines do to a history, at random."""

    def __init__(self, place: Place, make_record: MakeRecord, elsewhere: Path, seed: int) -> None:
        self.place, self.make, self.elsewhere = place, make_record, elsewhere
        self.chance = random.Random(seed)
        self.number = 0

    def record(self) -> RunRecord:
        self.number += 1
        day = self.chance.randrange(1, 29)
        return self.make(
            f"r{self.number:03}",
            build=f"0.{self.chance.randrange(6)}",
            key_fields=self.chance.choice(SERIES),
            finished_at=f"2026-{self.chance.randrange(1, 13):02}-{day:02}T00:00:00Z",
        )

    def run(self) -> None:
        remember(self.place, self.record())

    def away(self) -> None:
        """A run whose database was away."""
        write_record(self.place.dir, self.record())

    def sync(self) -> None:
        sync(self.place)

    def act(self) -> None:
        rows = index.list_runs(self.place, limit=100)
        if rows:
            kind = self.chance.choice((ActKind.QUARANTINE, ActKind.RELEASE))
            target = self.chance.choice(rows).run_id
            # All of one second: their names tell nothing of their order.
            record_act(self.place, make_act(kind, target, reason=f"because {self.chance.random()}", now=NOW))

    def import_(self) -> None:
        """Runs of another machine, with a chain of their own, dated before or after those that are here."""
        other = Place(dir=self.elsewhere / f"{self.number}-{self.chance.random()}")
        for _ in range(self.chance.randrange(1, 4)):
            remember(other, self.record())
        file = other.dir / "runs.jsonl"
        export(other, chosen_runs(other, Chosen()), file, Format.JSONL, force=False)
        import_records(self.place, file, now=NOW)


@pytest.mark.parametrize("seed", range(4))
def test_a_rebuilt_index_is_the_lost_one(
    place: Place, make_record: MakeRecord, emptied: Callable[[Place], Place], seed: int, tmp_path: Path
) -> None:
    """Whatever the order of runs, syncs, acts and imports that are dated earlier, a rebuild after the loss of the
    database gives the same rows and the same past in the same order; and what is added later stays behind."""
    place = Place(dir=tmp_path / "history", url=place.url)
    check_ready(place)
    writer = _Writer(place, make_record, tmp_path / "elsewhere", seed)
    deeds = [writer.run, writer.run, writer.away, writer.sync, writer.act, writer.import_]
    for _ in range(14):
        writer.chance.choice(deeds)()
    sync(place)
    for _ in range(2):
        before, acts, noted = _rows(place), index.acts(place), arrivals_path(place).read_bytes()
        pasts = _pasts(place, make_record)
        assert verify(place).findings == ()
        place = emptied(place)
        assert rebuild(place).problems == ()
        assert (_rows(place), index.acts(place)) == (before, acts)
        assert _pasts(place, make_record) == pasts
        assert arrivals_path(place).read_bytes() == noted, "what is noted is not noted again"
        assert verify(place).findings == ()
        writer.place = place
        writer.run()


def _pasts(place: Place, make_record: MakeRecord) -> list[Past]:
    records = [make_record("next", key_fields=fields) for fields in SERIES]
    return [past_runs(place, record.spec, record.comparability) for record in records]


def test_an_import_that_is_dated_earlier_stays_behind(
    place: Place, make_record: MakeRecord, emptied: Callable[[Place], Place], tmp_path: Path
) -> None:
    """Old runs that are imported after new ones do not become the norm by a rebuild."""
    place = Place(dir=tmp_path / "history", url=place.url)
    other = Place(dir=tmp_path / "other")
    remember(other, make_record("old", finished_at="2025-01-01T00:00:00Z"))
    export(other, chosen_runs(other, Chosen()), tmp_path / "old.jsonl", Format.JSONL, force=False)
    remember(place, make_record("a"))
    remember(place, make_record("b"))
    import_records(place, tmp_path / "old.jsonl", now=NOW)
    place = emptied(place)
    rebuild(place)
    assert [row.run_id for row in index.list_runs(place, limit=9)] == ["old", "b", "a"]


def test_an_older_history_is_noted_by_its_next_write(place: Place, make_record: MakeRecord) -> None:
    """A history without the file gets it from the index: by `sync`, and by the next run; until then it is a note."""
    for name in ("b", "a", "c"):
        remember(place, make_record(name))
    record_act(place, make_act(ActKind.QUARANTINE, "a", reason="hot", now=NOW))
    whole = arrivals_path(place).read_bytes()
    arrivals_path(place).unlink()
    verified = verify(place)
    assert verified.findings == ()
    assert any("order of arrival was not written down" in note and "sync" in note for note in verified.notes)
    sync(place)
    assert sorted(arrivals_path(place).read_bytes().splitlines()) == sorted(whole.splitlines())
    assert verify(place).notes == ()
    arrivals_path(place).unlink()
    remember(place, make_record("d"))
    assert list(read_arrivals(place).runs) == ["b", "a", "c", "d"]
    assert arrivals_path(place).stat().st_mode & 0o777 == 0o600


def test_a_line_that_was_torn_is_none(place: Place, make_record: MakeRecord) -> None:
    """A writer that was killed in the middle of a line leaves nothing that the next one, or verify, minds."""
    remember(place, make_record("a"))
    with arrivals_path(place).open("ab") as file:
        file.write(b'{"digest":"sha256:00')
    assert verify(place).findings == ()
    remember(place, make_record("b"))
    assert list(read_arrivals(place).runs) == ["a", "b"]
    assert verify(place).findings == ()


def test_every_flipped_bit_of_the_order_is_found(tmp_path: Path, make_record: MakeRecord) -> None:
    """A changed, lost or moved line is a finding whose command makes the file anew; a rebuild without the index tells
    that the order is not whole."""
    place = Place(dir=tmp_path)
    for name in ("a", "b", "c"):
        remember(place, make_record(name))
    path, data = arrivals_path(place), arrivals_path(place).read_bytes()
    for bit in range(0, 8 * len(data) - 8, 29):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert verify(place).findings, bit
    lines = data.splitlines(keepends=True)
    for other in (lines[1:], [lines[1], lines[0], lines[2]], [lines[0], lines[2]]):
        path.write_bytes(b"".join(other))
        (finding,) = verify(place).findings
        assert finding.reason in ("arrival-missing", "arrivals-differ")
        assert f"`gatekit history sync --dir {tmp_path}` writes it anew" in finding.hint
    path.unlink()
    sync(place)
    assert path.read_bytes() == data
    path.write_bytes(data.replace(b'"id":"b"', b'"id":"x"'))
    (tmp_path / INDEX_FILE).unlink()
    (problem,) = rebuild(place).problems
    assert "damaged in line 2" in problem


def test_a_commit_that_failed_leaves_no_false_order(place: Place, make_record: MakeRecord) -> None:
    """A run that was noted and not committed, and came into the index after another, has its later place."""
    remember(place, make_record("a"))
    away = make_record("away", finished_at="2026-01-01T00:00:00Z")
    path = write_record(place.dir, away)
    append_arrivals(place, [Arrival(kind=Kind.RUN, id="away", digest=read_stored(path).digest)])
    remember(place, make_record("b"))
    assert verify(place).findings == ()
    assert sync(place).added == 1
    assert list(read_arrivals(place).runs) == ["a", "b", "away"]
    assert verify(place).findings == ()


@pytest.mark.parametrize("entry", ["fifo", "folder", "device"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, make_record: MakeRecord, entry: str) -> None:
    """A pipe, a device or a folder in the place of the order is a finding, nothing hangs, and a run is kept."""
    place = Place(dir=tmp_path)
    remember(place, make_record("a"))
    arrivals_path(place).unlink()
    if entry == "fifo":
        os.mkfifo(arrivals_path(place))
    elif entry == "folder":
        arrivals_path(place).mkdir()
    else:
        arrivals_path(place).symlink_to("/dev/zero")
    assert [finding.reason for finding in verify(place).findings] == ["storage-failed"]
    with pytest.raises(KeptError) as caught:
        remember(place, make_record("b"))
    assert "the record itself is kept" in caught.value.hint
    assert record_path(tmp_path, "b").exists()
    shutil.rmtree(arrivals_path(place)) if entry == "folder" else arrivals_path(place).unlink()
    sync(place)
    assert verify(place).findings == ()


def test_acts_of_one_second_keep_their_order(
    place: Place, make_record: MakeRecord, emptied: Callable[[Place], Place]
) -> None:
    """A release and then a quarantine within a second: the run stays set aside after a rebuild."""
    remember(place, make_record("a"))
    for kind in (ActKind.QUARANTINE, ActKind.RELEASE, ActKind.QUARANTINE):
        record_act(place, make_act(kind, "a", reason=f"{kind} {len(index.acts(place))}", now=NOW))
    before = index.acts(place)
    assert [act.kind for act in before][-1] is ActKind.QUARANTINE
    place = emptied(place)
    rebuild(place)
    assert index.acts(place) == before


def test_an_act_without_a_row_is_added_behind(place: Place, make_record: MakeRecord) -> None:
    """An act whose database was away takes its place when `sync` brings it in."""
    remember(place, make_record("a"))
    write_act(place, make_act(ActKind.QUARANTINE, "a", reason="first", now=NOW))
    record_act(place, make_act(ActKind.RELEASE, "a", reason="second", now=NOW))
    sync(place)
    assert [act.reason for act in index.acts(place)] == ["second", "first"]
    assert list(read_arrivals(place).acts) == [act.act_id for act in index.acts(place)]
    assert verify(place).findings == ()
