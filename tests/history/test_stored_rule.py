"""The rule of a record, read from the end of its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.history.records_folder import write_record
from gatekit.history.stored_rule import read_rule
from gatekit.records.run import RunRecord

MakeRecord = Callable[..., RunRecord]


def test_it_is_the_rule_of_the_verdict(tmp_path: Path, make_record: MakeRecord) -> None:
    """The end of the file gives what the whole record says, whatever its texts are made of."""
    record = make_record()
    trap = ',"verdict":{"rule":{"k_reject":9}}}'
    verdict = replace(record.verdict, warnings=(trap, "é\ud800\x1b"), hint=trap)
    record = replace(record, events=(trap,), verdict=verdict)
    path = write_record(tmp_path, record)
    assert read_rule(path) == record.verdict.rule
    assert record.verdict.rule is not None


def test_a_verdict_without_a_rule_has_none(tmp_path: Path, make_record: MakeRecord) -> None:
    """An INFRA verdict that rests on no rule has no threshold."""
    record = make_record()
    assert read_rule(write_record(tmp_path, replace(record, verdict=replace(record.verdict, rule=None)))) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b',"verdict":{',
        b',"verdict":{"rule":7}}',
        b',"verdict":{"rule":{"k_reject":"2"}}}',
        b',"verdict":{"rule":{"method":"x","n":4,"k_reject":' + b"9" * 5000 + b"}}}",
        b',"verdict":{"rule":' + b"[" * 200_000,
        b"\xff" * 100,
    ],
)
def test_what_is_no_record_has_no_rule(tmp_path: Path, content: bytes) -> None:
    """A damaged file costs a chart its threshold and nothing else."""
    path = tmp_path / "record.json"
    path.write_bytes(content)
    assert read_rule(path) is None


def test_only_files_are_read(tmp_path: Path) -> None:
    """A missing file, a folder and a pipe that nobody writes to have no rule, at once."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        assert read_rule(path) is None
