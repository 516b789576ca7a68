"""The history as one file for others."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import environment, gatekit, here
from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode, InfraError
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.exporting import neutral
from gatekit.history.place import Place
from gatekit.history.remember import remember
from gatekit.records.act import ActKind
from gatekit.records.answers import Status
from gatekit.records.run import RunRecord, record_from_plain

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)


@pytest.fixture
def kept(tmp_path: Path, make_record: MakeRecord) -> Path:
    """A history folder: two runs of a series, one of them set aside, and one with a lost answer."""
    place = Place(dir=tmp_path / ".gatekit")
    remember(place, make_record("run-1"))
    remember(place, make_record("run-2", build="=cmd|' /C calc'!A0", spec_name="other"))
    lost = (Status.CORRECT, Status.LOST, Status.WRONG, Status.NO_ANSWER)
    remember(place, make_record("run-3", key_fields={"max_tokens": 512}, statuses=lost, build=None))
    record_act(place, make_act(ActKind.QUARANTINE, "run-2", reason="hot", now=NOW))
    return place.dir


def _export(folder: Path, *arguments: str | Path) -> None:
    assert run(["export", *map(str, arguments), "--dir", str(folder)], environ={}) is ExitCode.PASS


def test_each_line_is_a_whole_record(kept: Path, tmp_path: Path) -> None:
    """JSON lines hold the very bytes of the record files, in order of arrival, then of the acts, in a private file."""
    out = tmp_path / "out.jsonl"
    _export(kept, out)
    lines = out.read_bytes().splitlines(keepends=True)
    (act,) = (kept / "acts").iterdir()
    assert lines[:3] == [(kept / f"runs/run-{number}/record.json").read_bytes() for number in (1, 2, 3)]
    assert lines[3:] == [act.read_bytes()]
    assert [record_from_plain(json.loads(line)).run_id for line in lines[:3]] == ["run-1", "run-2", "run-3"]
    assert out.stat().st_mode & 0o777 == 0o600


def test_csv_has_a_row_a_run_and_no_formulas(kept: Path, tmp_path: Path) -> None:
    """Every column of a run in brief; accuracy only where it is known; what begins like a formula is neutralised,
    and one quote less gives it back."""
    _export(kept, tmp_path / "out.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [row["run_id"] for row in rows] == ["run-1", "run-2", "run-3"]
    assert [row["accuracy"] for row in rows] == ["0.75", "0.75", ""]
    assert [row["quarantined"] for row in rows] == ["False", "True", "False"]
    found = index.list_runs(Place(dir=kept), limit=9)[::-1]
    assert [row["comparability_key"] for row in rows] == [one.comparability_key for one in found]
    assert rows[1]["previous"] == found[0].digest
    assert rows[1]["build"] == "'=cmd|' /C calc'!A0"
    assert rows[1]["build"].removeprefix("'") == found[1].build
    assert rows[2]["build"] == ""


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "'"])
def test_every_formula_start_is_neutralised_and_reversible(start: str) -> None:
    """One leading quote is added, and taking one away gives every text back."""
    assert neutral(f"{start}x") == f"'{start}x"
    assert neutral(f"{start}x").removeprefix("'") == f"{start}x"
    assert neutral(f"x{start}") == f"x{start}"


def test_parquet_holds_the_same_rows(kept: Path, tmp_path: Path) -> None:
    """Parquet has typed columns: counts are integers, flags are booleans, unknown is null; texts are as they are."""
    from pyarrow import parquet  # type: ignore[import-untyped]  # it ships no types

    _export(kept, tmp_path / "out.parquet")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["run_id"], row["correct"], row["n"], row["lost"]) for row in rows] == [
        ("run-1", 3, 4, 0),
        ("run-2", 3, 4, 0),
        ("run-3", 1, 4, 1),
    ]
    assert [row["accuracy"] for row in rows] == [0.75, 0.75, None]
    assert [row["quarantined"] for row in rows] == [False, True, False]
    assert rows[1]["build"] == "=cmd|' /C calc'!A0"
    assert rows[0]["previous"] is None


def test_parquet_without_pyarrow_says_what_to_install(kept: Path, tmp_path: Path) -> None:
    """Where the extra is missing the command exits 2 with the command that installs it, and leaves no file."""
    hidden = "import sys; sys.modules['pyarrow'] = None; from gatekit.__main__ import main; main()"
    command = [sys.executable, "-c", hidden, "history", "export", "out.parquet", "--dir", str(kept)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "pip install 'gatekit[parquet]'" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gatekit"]


def test_a_file_that_exists_is_never_overwritten_without_force(kept: Path, tmp_path: Path) -> None:
    """Without --force an existing file stays as it is, a dangling link too; with it the new file takes its place."""
    out, link = tmp_path / "out.csv", tmp_path / "link.csv"
    out.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    for path in (out, link):
        with pytest.raises(ConfigError) as caught:
            _export(kept, path)
        assert caught.value.reason == "export-exists"
    assert out.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    _export(kept, out, "--force")
    assert out.read_text().startswith("run_id,")
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_an_export_that_fails_leaves_nothing(kept: Path, tmp_path: Path) -> None:
    """A record that cannot be read stops the export: no half of a file stays, and no file is replaced."""
    record = kept / "runs/run-3/record.json"
    record.write_bytes(record.read_bytes()[:-2])
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    with pytest.raises(InfraError):
        _export(kept, out, "--force")
    assert out.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".gatekit", "out.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (("--spec", "other"), ["run-2"]),
        (("--model", "org/tiny"), ["run-1", "run-2", "run-3"]),
        (("--key", "KEY"), ["run-3"]),
        (("--key", "SHORT"), ["run-3"]),
    ],
)
def test_runs_can_be_chosen(kept: Path, tmp_path: Path, arguments: tuple[str, str], runs: list[str]) -> None:
    """By spec, by model, by comparability key or the beginning of its digits."""
    key = index.find(Place(dir=kept), "run-3").comparability_key
    named = {"KEY": key, "SHORT": key.removeprefix("sha256:")[:8]}
    _export(kept, tmp_path / "out", arguments[0], named.get(arguments[1], arguments[1]))
    lines = (tmp_path / "out").read_text(errors="replace").splitlines()
    assert [plain["run_id"] for plain in map(json.loads, lines) if "run_id" in plain] == runs


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("out.jsonl", "--spec", "nobody"), "nothing-to-export"),
        (("missing/out.jsonl",), "bad-export-file"),
        ((".",), "bad-export-file"),
        (("-", "--format", "parquet"), "bad-arguments"),
        (("out.xml", "--format", "xml"), "bad-arguments"),
    ],
)
def test_a_wrong_export_is_one_line(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    """What cannot be exported is told in one line, and no file is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        _export(kept, *arguments)
    assert (caught.value.reason, len(caught.value.lines())) == (reason, 1)
    assert [path.name for path in tmp_path.iterdir()] == [".gatekit"]


def test_stdout_holds_the_records_and_acts_alone(kept: Path, tmp_path: Path, make_record: MakeRecord) -> None:
    """`-` writes the very bytes of the records to stdout, also those that are no clean UTF-8."""
    record = make_record("odd")
    assert record.served is not None
    remember(Place(dir=kept), replace(record, served=replace(record.served, details={"x": "\ud800"})))
    command = [sys.executable, "-m", "gatekit", "history", "export", "-"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[-2] + b"\n" == (kept / "runs/odd/record.json").read_bytes()
    assert gatekit(tmp_path, "history", "export", "-", "--format", "csv").out.count("\n") == 5


def test_runs_of_other_machines_are_named_or_left_out(postgres_place: Place, make_record: MakeRecord) -> None:
    """Of a database that machines share a file of whole records holds those that are here, when that is asked for."""
    one = postgres_place
    two = Place(dir=one.dir.parent / f"{one.dir.name}-two", url=one.url)
    remember(one, make_record("of-one"))
    remember(two, make_record("of-two"))
    assert one.url is not None
    at = ("--dir", str(one.dir), "--url", one.url)
    refused = here(one.dir, "history", "export", "all.jsonl", *at)
    assert (refused.code, "1 of 2 runs" in refused.err, "of-two" in refused.err) == (3, True, True), refused.err
    assert "--only-here" in refused.err
    assert not (one.dir / "all.jsonl").exists()
    done = here(one.dir, "history", "export", "all.jsonl", "--only-here", *at)
    assert (done.code, "1 run left out" in done.err) == (0, True), done.err
    assert [json.loads(line)["run_id"] for line in (one.dir / "all.jsonl").read_text().splitlines()] == ["of-one"]
    assert here(one.dir, "history", "export", "all.csv", *at).code == 0
    shown = here(one.dir, "history", "show", "of-two", *at)
    assert (shown.code, "the machine that made the run" in shown.err) == (3, True), shown.err
