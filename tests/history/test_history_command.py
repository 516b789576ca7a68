"""`gatekit history`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import here
from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode, InfraError
from gatekit.history.place import Place
from gatekit.history.records_folder import write_record
from gatekit.history.remember import remember
from gatekit.records.answers import Status
from gatekit.records.run import RunRecord, record_to_plain
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]


def _run(*arguments: str | Path, code: ExitCode = ExitCode.PASS) -> str:
    stdout = io.StringIO()
    with redirect_stdout(stdout):
        assert run([str(argument) for argument in arguments], environ={}) is code
    return stdout.getvalue()


def test_list_is_an_aligned_table(tmp_path: Path, make_record: MakeRecord) -> None:
    """Each run is one line, newest first, columns aligned, accuracy in per cent."""
    remember(Place(dir=tmp_path), make_record("r1", outcome=Outcome.FAIL))
    lost = (Status.CORRECT, Status.CORRECT, Status.LOST, Status.WRONG)
    remember(Place(dir=tmp_path), make_record("run-two", statuses=lost, outcome=Outcome.INFRA, build=None))
    remember(Place(dir=tmp_path), make_record("r3", statuses=(), outcome=Outcome.INFRA))
    assert _run("list", "--dir", tmp_path).splitlines() == [
        "RUN      FINISHED                   SPEC      ENGINE       CORRECT  ACCURACY          OUTCOME",
        "r3       2026-11-30T03:00:09+00:00  tiny-cpu  vllm 0.10.1  0/0      -                 INFRA",
        "run-two  2026-11-30T03:00:09+00:00  tiny-cpu  vllm         2/4      50.00 to 75.00 %  INFRA",
        "r1       2026-11-30T03:00:09+00:00  tiny-cpu  vllm 0.10.1  3/4      75.00 %           FAIL",
    ]


def test_simulated_run_is_marked(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run without a model never looks like one with a model."""
    record = make_record()
    assert record.served is not None
    remember(Place(dir=tmp_path), replace(record, served=replace(record.served, simulated=True)))
    assert _run("list", "--dir", tmp_path).splitlines()[1].endswith("PASS (simulated)")


def test_list_says_when_it_is_cut(tmp_path: Path, make_record: MakeRecord) -> None:
    """A list that leaves runs out says so."""
    for number in range(3):
        remember(Place(dir=tmp_path), make_record(f"r{number}"))
    lines = _run("list", "--limit", "2", "--dir", tmp_path).splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["r2", "r1"]
    assert lines[3] == "(older runs are not shown: --limit is 2)"
    assert len(_run("list", "--limit", "3", "--dir", tmp_path).splitlines()) == 4


def test_foreign_names_are_escaped(tmp_path: Path, make_record: MakeRecord) -> None:
    """Control and bidi characters of names reach neither the table nor the JSON."""
    evil = "x\x1b]0;PWN\x07\u202e\ud800\n"
    remember(Place(dir=tmp_path), make_record(spec_name=evil, model=evil, build=evil))
    table, document = _run("list", "--dir", tmp_path), _run("list", "--json", "--dir", tmp_path)
    for text in (table, document):
        assert text.replace("\n", "").isprintable()
    assert len(table.splitlines()) == 2
    assert "x\\x1b]0;PWN\\x07\\u202e\\ud800\\n" in table
    assert json.loads(document)["runs"][0]["model"] == evil.replace("\ud800", "\\ud800")


def test_list_json_is_one_document(tmp_path: Path, make_record: MakeRecord) -> None:
    """--json gives every column; an accuracy only where no answer is lost."""
    remember(Place(dir=tmp_path), make_record("r1"))
    remember(Place(dir=tmp_path), make_record("r2", statuses=(Status.CORRECT, Status.LOST)))
    document = json.loads(_run("list", "--json", "--spec", "tiny-cpu", "--model", "org/tiny", "--dir", tmp_path))
    assert document["dir"] == str(tmp_path)
    assert [(row["run_id"], row["accuracy"]) for row in document["runs"]] == [("r2", None), ("r1", 0.75)]
    assert document["runs"][1]["outcome"] == "PASS"


def test_empty_history_is_said_plainly(tmp_path: Path, make_record: MakeRecord) -> None:
    """Without runs the list says so, exits 0 and creates nothing; a filter that finds none is named."""
    folder = tmp_path / "none"
    folder.mkdir()
    assert _run("list", "--dir", folder) == f"no runs yet in {folder}/index.sqlite\n"
    assert json.loads(_run("list", "--json", "--dir", folder)) == {"dir": str(folder), "runs": [], "unfinished": []}
    assert list(folder.iterdir()) == []
    remember(Place(dir=tmp_path), make_record())
    said = _run("--dir", tmp_path, "list", "--model", "a\x1b")
    assert said == f"no runs of model a\\x1b in {tmp_path}/index.sqlite\n"


def test_show_json_is_the_record(tmp_path: Path, make_record: MakeRecord) -> None:
    """`show RUN --json` gives the record itself, for the id or its beginning, in ASCII."""
    remember(Place(dir=tmp_path), make_record("night-1"))
    text = _run("show", "night", "--json", "--dir", tmp_path)
    assert text.isascii()
    assert json.loads(text) == json.loads(json.dumps(record_to_plain(make_record("night-1"))))


def test_show_explains_the_run(tmp_path: Path, make_record: MakeRecord) -> None:
    """`show RUN` explains the verdict of that run in printable lines."""
    remember(Place(dir=tmp_path), make_record("night-1", spec_name="evil\x1b[31m"))
    text = _run("show", "night", "--dir", tmp_path)
    assert "PASS" in text
    assert "night-1" in text
    assert text.replace("\n", "").isprintable()
    assert text.endswith("\n")


def test_rebuild_brings_lost_runs_back(tmp_path: Path, make_record: MakeRecord) -> None:
    """`rebuild` indexes the records; a broken one is named and makes the exit code 3."""
    write_record(tmp_path, make_record("r1"))
    with pytest.raises(InfraError, match="missing or empty"):
        _run("list", "--dir", tmp_path)
    assert _run("rebuild", "--dir", tmp_path) == "added 1 run to the index, 0 were in it\n"
    broken = write_record(tmp_path, make_record("r2"))
    broken.write_text("{}")
    for command in ("rebuild", "sync"):
        said = _run(command, "--dir", tmp_path, code=ExitCode.INFRA)
        assert f"not added: run record {broken} is broken" in said


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["lst"],
        ["list", "--limit", "0"],
        ["list", "--limit", "-5"],
        ["list", "--limit", "1.5"],
        ["list", "--limit", "9" * 5000],
        ["list", "--limt", "3"],
        ["list", "--lim", "3"],
        ["list", "\x1b[31m"],
        ["show"],
        ["show", "--json"],
        ["rebuild", "--jsn"],
    ],
)
def test_wrong_arguments_are_a_config_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are one printable line with the way to help, and exit 2; nothing else is printed."""
    with pytest.raises(ConfigError) as caught:
        run(arguments, environ={})
    (line,) = caught.value.lines()
    assert line.isprintable()
    assert len(line) < 500
    assert "--help" in line
    assert capsys.readouterr() == ("", "")


def test_unknown_run_is_a_config_error(tmp_path: Path, make_record: MakeRecord) -> None:
    """Showing a run that is not there names one that is."""
    remember(Place(dir=tmp_path), make_record("night-1"))
    with pytest.raises(ConfigError, match="no run 'nihgt-1'") as caught:
        _run("show", "nihgt-1", "--dir", tmp_path)
    assert "night-1" in caught.value.hint


@pytest.mark.parametrize("command", [[], ["list"], ["show"], ["sync"], ["rebuild"]])
def test_help_is_the_product(tmp_path: Path, command: list[str]) -> None:
    """--help is on stdout, alone, and passes."""
    ran = here(tmp_path, "history", *command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("usage: gatekit history")


def test_unasked_questions_are_not_wrong(tmp_path: Path, make_record: MakeRecord) -> None:
    """A run that was stopped says how many were asked, and its accuracy is the range of what it may have been."""
    record = make_record("cut", planned=8)
    remember(Place(dir=tmp_path), replace(record, counts=replace(record.counts, n=8, unasked=4)))
    assert "  3/4 asked  37.50 to 87.50 %  " in _run("list", "--dir", tmp_path)
    (row,) = json.loads(_run("list", "--json", "--dir", tmp_path))["runs"]
    assert (row["unasked"], row["accuracy"]) == (4, None)


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["plot"],
        ["rebuild"],
        ["sync"],
        ["compare", "a", "b"],
        ["show", "a"],
        ["export", "-"],
        ["rescore", "a"],
        ["verify"],
        ["quarantine", "a", "--reason", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_mistyped_folder_is_no_empty_history(tmp_path: Path, words: list[str]) -> None:
    """A folder that is not there is refused by name, and nothing is made of it."""
    with pytest.raises(ConfigError, match="no such folder") as caught:
        _run(*words, "--dir", tmp_path / "typo")
    assert (caught.value.reason, "typo" in caught.value.message) == ("no-history", True)
    assert list(tmp_path.iterdir()) == []


def test_only_the_list_of_the_default_folder_may_be_early(tmp_path: Path) -> None:
    """Before the first run `history list` says that there are none yet; other commands have nothing to work on."""
    early = here(tmp_path, "history", "list")
    assert (early.code, early.out.startswith("no runs yet in .gatekit")) == (0, True)
    assert here(tmp_path, "history", "rebuild").code == 2


@pytest.mark.parametrize(
    ("words", "prog"),
    [(["list", "--limt", "3"], "list"), (["rebuild", "x"], "rebuild"), (["show"], "show"), (["rescore"], "rescore")],
)
def test_a_wrong_argument_points_to_its_own_help(tmp_path: Path, words: list[str], prog: str) -> None:
    """The hint names the help of the subcommand, which lists what it takes."""
    with pytest.raises(ConfigError) as caught:
        _run(*words, "--dir", tmp_path)
    assert f"see gatekit history {prog} --help" in caught.value.lines()[0]


def test_every_act_on_the_history_is_told_as_a_document(tmp_path: Path, make_record: MakeRecord) -> None:
    """--json of the commands that change something gives one document with what came of it."""
    here, there = tmp_path / "here", tmp_path / "there"
    write_record(here, make_record("r1"))
    for command, known in (("rebuild", 0), ("sync", 1)):
        said = json.loads(_run(command, "--json", "--dir", here))
        assert said == {"added": 1 - known, "known": known, "problems": []}
    file = tmp_path / "out.jsonl"
    assert json.loads(_run("export", file, "--json", "--dir", here)) == {
        "file": str(file),
        "format": "jsonl",
        "runs": 1,
        "acts": 0,
    }
    with pytest.raises(ConfigError, match="stdout"):
        _run("export", "-", "--json", "--dir", here)
    said = json.loads(_run("import", file, "--json", "--dir", there))
    assert (said["added"], said["known"], said["first"], said["last"]) == (1, 0, "r1", "r1")
    for command in ("quarantine", "release"):
        said = json.loads(_run(command, "r1", "--reason", "why", "--json", "--dir", there))
        assert (said["act"]["kind"], said["act"]["target"]) == (command, "r1")
        assert Path(said["path"]).is_file()
