"""However many mistakes there are, what people read stays short, and what programs read stays whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import here
from gatekit.errors import MOST_LINES_KEPT, Problem, shortened
from gatekit.report.problems import github_text, json_text, sarif_text

KEYS = 5000


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with a task of thousands of unknown keys."""
    (tmp_path / "ours" / "task").mkdir(parents=True)
    (tmp_path / "ours" / "task" / "many.yaml").write_text("".join(f"k{number}: 1\n" for number in range(KEYS)))
    return tmp_path


def test_plan(many: Path) -> None:
    """The first hundred are told on stderr, and how many more there are; the document has them all."""
    ran = here(many, "plan", "--json", "--config-dir", "ours", "task=many")
    lines = ran.err.splitlines()
    assert ran.code == 2
    assert len(lines) == 101
    assert lines[-1] == f"gatekit: and {len(ran.data['problems']) - 100:,} more mistakes"
    assert len(ran.data["problems"]) >= KEYS


def test_validate(many: Path) -> None:
    """So it is on stdout; the document of all of them is whole."""
    lines = here(many, "validate", "ours").out.splitlines()
    whole = here(many, "validate", "--json", "ours").data
    assert (len(lines), lines[-1]) == (101, f"and {len(whole['problems']) - 100:,} more mistakes")
    assert (len(whole["problems"]) >= KEYS, whole["left_out"]) == (True, 0)


def test_documents_have_a_bound() -> None:
    """Documents hold ten thousand mistakes, bounded texts, and the number of those left out."""
    problems = [Problem(where=f"a.yaml:{line}:1", what="w", reason="r") for line in range(2, MOST_LINES_KEPT + 8)]
    problems.insert(0, Problem(where="a.yaml:1:1", what="w" * 10_000, reason="r"))
    document = json.loads(json_text(problems, files=1, specs=0, matrices=0))
    (run,) = json.loads(sarif_text(problems, {}, version="1"))["runs"]
    assert (len(document["problems"]), document["left_out"]) == (MOST_LINES_KEPT, 7)
    assert (len(run["results"]), run["properties"]) == (MOST_LINES_KEPT, {"leftOut": 7})
    assert len(document["problems"][0]["what"]) == len(run["results"][0]["message"]["text"]) == 4000
    assert github_text(problems).splitlines()[100:] == [f"::notice title=more::and {MOST_LINES_KEPT - 93:,} more"]


def test_a_cut_shows_no_part_of_a_password() -> None:
    """Half a URL is not known to hold a password, so that a text cut inside of one is cut before it."""
    for before in range(0, 1200, 7):
        shown = shortened("x " * (before // 2) + "postgresql://u:" + "hunter2" * 200 + "@h/db:4:7" + " y" * 200)
        assert "hunter" not in shown
        assert "unter2" not in shown


def test_a_cut_keeps_the_place() -> None:
    """What is cut is the middle: the line of a long path stays."""
    assert Problem(where="a" * 3000 + ":4:7", what="w", reason="r").line().endswith("a:4:7: w [r]")
