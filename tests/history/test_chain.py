"""The order of arrival, read from the records alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from gatekit.history.chain import in_order
from gatekit.history.run_row import NewRow, run_row
from gatekit.records.run import RunRecord, record_to_plain

MakeRecord = Callable[..., RunRecord]
Rows = Callable[..., list[NewRow]]


@pytest.fixture
def rows(make_record: MakeRecord) -> Rows:
    """Rows of one series from (name, day, name of the run before or None)."""

    def make(*runs: tuple[str, int, str | None], **fields: object) -> list[NewRow]:
        digests: dict[str | None, str | None] = {None: None, "gone": "sha256:gone"}
        found = []
        for name, day, before in runs:
            finished = f"2026-11-{day:02}T00:00:00Z"
            record = make_record(name, previous=digests[before], finished_at=finished, key_fields=fields or None)
            digests[name] = record_to_plain(record)["digest"]
            found.append(run_row(record, str(digests[name])))
        return found

    return make


def _shuffled(rows: Sequence[NewRow], seed: int) -> list[NewRow]:
    mixed = list(rows)
    random.Random(seed).shuffle(mixed)
    return mixed


ARRIVALS = [
    # Clocks that went backwards do not matter.
    [("a", 9, None), ("b", 3, "a"), ("c", 7, "b"), ("d", 1, "c")],
    # b was kept while the database was away, and came after c.
    [("a", 1, None), ("c", 3, "a"), ("b", 2, None), ("d", 4, "b")],
    # Two were kept and came together; the next one follows the last.
    [("a", 1, None), ("x", 5, "a"), ("b", 2, None), ("c", 3, None), ("d", 6, "c")],
    # b's process died before it was added; c took its place, and b came later.
    [("a", 1, None), ("c", 3, "a"), ("b", 2, "a"), ("d", 4, "b")],
    # The record of the run before is gone.
    [("b", 2, "gone"), ("c", 3, "b")],
    [],
]


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_series_is_ordered_by_its_chain(rows: Rows, arrival: list[tuple[str, int, str | None]], seed: int) -> None:
    """Whatever order the files are found in, the runs come out as they arrived."""
    expected = rows(*arrival)
    assert in_order(_shuffled(expected, seed)) == expected


def test_series_are_side_by_side(rows: Rows) -> None:
    """Runs of several series are ordered by their times, and never against their chain."""
    one = rows(("a", 1, None), ("b", 5, "a"), ("c", 3, "b"), ("d", 9, "c"), shots=1)
    two = rows(("p", 2, None), ("q", 4, "p"), ("r", 6, "q"), shots=2)
    assert [row.run_id for row in in_order(_shuffled([*one, *two], 4))] == ["a", "p", "q", "b", "c", "r", "d"]


def test_a_long_chain_is_no_recursion(rows: Rows) -> None:
    """Thousands of runs in one chain are ordered without a stack of calls."""
    names = [f"r{number}" for number in range(3000)]
    expected = rows(*((name, 1, before) for name, before in zip(names, [None, *names[:-1]], strict=True)))
    assert in_order(_shuffled(expected, 5)) == expected
