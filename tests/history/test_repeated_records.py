"""Records of questions that are asked several times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gatekit.records.canonical import digest
from gatekit.records.run import Comparability, contradiction, record_from_plain, record_to_plain


@pytest.mark.parametrize(
    ("ids", "repeats", "is_whole"),
    [
        ((7, 3, 7, 3), 2, True),
        ((), 2, True),
        ((7, 7, 3, 3), 2, False),  # not pass by pass
        ((7, 3, 7), 2, False),
        ((7, 3), 2, False),
        ((7, 3, 7, 3), 4, False),
        ((7, 7, 7, 7), 2, False),
        ((7, 3, 7, 3), 0, False),
        ((7, 3, 7, 3), 1, False),
    ],
)
def test_a_record_names_each_question_as_often_as_it_repeats(
    make_record: Callable[..., Any], ids: tuple[int, ...], repeats: int, is_whole: bool
) -> None:
    """Pass by pass, each id once in each, or the record contradicts itself."""
    record = make_record()
    fields = {"a": 1}
    record = replace(
        record,
        spec=replace(record.spec, protocol=replace(record.spec.protocol, repeats=repeats)),
        dataset=replace(record.dataset, question_ids=ids),
        counts=replace(record.counts, n=len(ids), correct=0, wrong=0, no_answer=0, truncated=0, lost=len(ids)),
        observations=(),
        comparability=Comparability(key=digest(fields), fields=fields),
    )
    assert (contradiction(record) is None) is is_whole


def test_a_stored_repeat_comes_back(make_record: Callable[..., Any]) -> None:
    """A record with repeats says so in its spec and its answers, and is read as it was written."""
    record = make_record()
    record = replace(
        record,
        spec=replace(record.spec, protocol=replace(record.spec.protocol, repeats=2)),
        observations=tuple(replace(one, repeat=1) for one in record.observations),
    )
    plain = record_to_plain(record)
    assert plain["spec"]["protocol"]["repeats"] == 2
    assert {one["repeat"] for one in plain["observations"]} == {1}
    assert record_from_plain(plain) == record
