"""The forms in which mistakes are printed: for people, programs, code scanning and pull requests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from command_line import Ran, here
from gatekit.errors import Problem
from gatekit.report.problems import github_text, json_text, place_of, sarif_text, text
from gatekit.spec.rule_texts import RULE_TEXTS

FILE = "conf/model/ours.yaml"
TEXT = "defaults:\n  - laguna_int4\nmodel:\n  name: 'a%b\\r'\n  revision: main\nengine:\n  acuracy: 0.9\n"


def ran(folder: Path, *more: str) -> Ran:
    (folder / FILE).parent.mkdir(parents=True)
    (folder / FILE).write_text(TEXT)
    return here(folder, "validate", *more)


def test_json(tmp_path: Path) -> None:
    """The JSON document has the documented keys, and the words of every other command's."""
    done = ran(tmp_path, "--json")
    document = done.data
    assert document == {
        "format": 1,
        "exit_code": 2,
        "verdict": "CONFIG",
        "reason_code": "bad-form",
        "checked": {"files": 1, "specs": 1, "matrices": 0, "locks": 0},
        "problems": document["problems"],
        "left_out": 0,
    }
    assert document["problems"][1] == {
        "file": FILE,
        "line": 7,
        "column": 3,
        "id": "unknown-key",
        "what": "engine: unknown key 'acuracy'",
        "hint": "did you mean 'accuracy'?",
        "where": f"{FILE}:7:3",
    }
    assert done.err == "gatekit: 1 file, 1 spec, 0 matrices: 2 mistakes\n"


def test_json_without_a_mistake(tmp_path: Path) -> None:
    """No mistake is a document too."""
    document = here(tmp_path, "validate", "--format", "json").data
    assert (document["exit_code"], document["verdict"], document["problems"]) == (0, None, [])


def test_sarif(tmp_path: Path) -> None:
    """The log is SARIF 2.1.0: results point into the rules by index, regions count from 1, rules have a help text."""
    log = ran(tmp_path, "--format", "sarif").data
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "gatekit"
    assert [result["ruleId"] for result in run["results"]] == ["bad-form", "unknown-key"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert rules[result["ruleIndex"]]["help"]["text"].count("\n") >= 4
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == FILE
    assert run["results"][1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 7, "startColumn": 3}


def test_github(tmp_path: Path) -> None:
    """An annotation a mistake, at its line."""
    done = ran(tmp_path, "--format", "github")
    assert done.out.splitlines()[1] == (
        f"::error file={FILE},line=7,col=3,title=unknown-key::engine: unknown key 'acuracy'; did you mean 'accuracy'?"
    )


HOSTILE = [
    "a\n::stop-commands::x",
    "a\r::error::x",
    "a,title=x::y",
    "a%0A::error::",
    "\x1b]0;title\x07\x1b[2J",
    "\u2028::error::x",
    "a:7:9",
    "::error::",
    "\udcff",
    "a\x85b",
]


@pytest.mark.parametrize("bad", HOSTILE)
def test_nothing_foreign_comes_to_life(bad: str) -> None:
    """Names, values and hints with line ends, commands and controls stay one harmless line in each format."""
    problems = [Problem(where=f"{bad}.yaml:9:3", what=bad, reason="bad-value", hint=bad)]
    shown = text(problems)
    assert len(shown.splitlines()) == 1
    assert shown.isprintable()
    command = github_text(problems)
    assert len(command.splitlines()) == 1
    assert command.isprintable()
    assert re.fullmatch(r"::error file=[^,:]*,line=9,col=3,title=bad-value::.*", command)
    assert re.search("%(?!25|0A|0D|3A|2C)", command) is None
    assert json.loads(json_text(problems, files=1, specs=0, matrices=0))["problems"][0]["file"] == f"{bad}.yaml"
    (result,) = results(problems)
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii()
    assert uri.isprintable()
    assert ":" not in uri
    assert unquote(uri, errors="surrogateescape") == f"{bad}.yaml"


def results(problems: list[Problem]) -> Any:
    return json.loads(sarif_text(problems, RULE_TEXTS, version="1"))["runs"][0]["results"]


@pytest.mark.parametrize("where", ["", "override task.n=0"])
def test_a_mistake_that_stands_in_no_file(where: str) -> None:
    """A mistake of the command line has no file, line or region, and says where it is in words."""
    problem = Problem(where=where, what="wrong", reason="bad-value")
    assert place_of(problem) is None
    assert "locations" not in results([problem])[0]
    assert github_text([problem]) == f"::error title=bad-value::{problem.line()}"


def test_a_mistake_of_a_whole_file() -> None:
    """A file that cannot be read has no line."""
    problem = Problem(where="/a b.yaml", what="wrong", reason="no-such-id")
    (result,) = results([problem])
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "file:///a%20b.yaml"}}}]
    assert github_text([problem]) == "::error file=/a b.yaml,title=no-such-id::wrong"
