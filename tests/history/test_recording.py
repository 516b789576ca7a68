"""Many processes that record at once, and processes that die while they do."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.records_folder import write_record
from gatekit.history.remember import rebuild, sync
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord
from worker_pool import WarmWorker

MakeRecord = Callable[..., RunRecord]
PROCESSES, SERIES = 4, 5

_SETUP = """
from dataclasses import replace
from pathlib import Path
import alembic.command, psycopg
from gatekit.history import migrations
from gatekit.history.place import Place
from gatekit.history.records_folder import read_record
from gatekit.history.remember import remember
from gatekit.records.canonical import digest
from gatekit.records.run import Comparability
"""
# What a task is told: folder, URL or -, a record to copy, a prefix of the ids, from which number, to which.
_TASK = """
folder, url, source, prefix, start, stop = argument.split()
place = Place(dir=Path(folder), url=None if url == "-" else url)
record = read_record(Path(source))
for number in range(int(start), int(stop)):
    fields = {"series": number % 5}
    key = Comparability(key=digest(fields), fields=fields)
    run_id = f"{prefix}{number:05}"
    remember(place, replace(record, run_id=run_id, comparability=key))
    print(run_id, flush=True)
"""


def _order(place: Place, source: Path, prefix: str, start: int, stop: int) -> str:
    return f"{place.dir} {place.url or '-'} {source} {prefix} {start} {stop}"


@pytest.fixture
def source(tmp_path: Path, make_record: MakeRecord) -> Path:
    """A small record to copy."""
    return write_record(tmp_path / "source", make_record())


@pytest.fixture
def history(place: Place, tmp_path: Path) -> Place:
    """A history in a folder of its own, once with each database."""
    return Place(dir=tmp_path / "history", url=place.url)


@pytest.mark.parametrize("each", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_processes_record_at_once(history: Place, source: Path, each: int) -> None:
    """T08: four processes that record 200 runs each at once, from the first on, give 800 records and rows, no error,
    no duplicate, and one unbroken chain in each series."""
    workers = [WarmWorker(_SETUP, _TASK) for _ in range(PROCESSES)]
    try:
        for number, worker in enumerate(workers):
            worker.start(_order(history, source, f"p{number}-", 0, each))
        said = [worker.wait() for worker in workers]
    finally:
        for worker in workers:
            worker.stop()
    assert [code for code, _ in said] == [0] * PROCESSES, said
    names = [f"p{process}-{number:05}" for process in range(PROCESSES) for number in range(each)]
    assert sorted(name for _, lines in said for name in lines) == names
    assert sorted(row.run_id for row in index.list_runs(history, limit=2000)) == names
    series = list(index.all_keys(history))
    assert len(series) == SERIES
    for one in series:
        rows_of_key = index.series(history, key=one.key)
        assert [row.previous for row in rows_of_key] == [None, *(row.digest for row in rows_of_key[:-1])]
    assert rebuild(history).known == PROCESSES * each
    assert verify(history).findings == ()


@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_recorders_lose_nothing(history: Place, source: Path, kills: int) -> None:
    """After 200 SIGKILLs at any instant of recording every acknowledged run is there, file and row; what was not
    acknowledged is whole or not there, and `sync` leaves a history in which every bit is right."""
    chance = random.Random(11)
    acknowledged: list[str] = []
    elsewhere = Place(dir=history.dir / "warm", url=history.url)
    with WarmWorker(_SETUP, _TASK, warm=_order(elsewhere, source, "warm", 0, 5)) as worker:
        for number in range(kills):
            pid = worker.start(_order(history, source, f"k{number:03}-", 0, 1000))
            time.sleep(chance.uniform(0.0, 0.15))
            worker.kill(pid)
            code, said = worker.wait()
            assert code == -9, said
            assert not any(line.startswith("error") for line in said), said
            acknowledged += said
    rows = {row.run_id for row in index.list_runs(history, limit=100_000)}
    assert set(acknowledged) <= rows
    assert all((history.dir / "runs" / run_id / "record.json").exists() for run_id in acknowledged)
    assert sync(history).problems == ()
    assert verify(history).findings == ()
    assert len(acknowledged) > kills / 4
