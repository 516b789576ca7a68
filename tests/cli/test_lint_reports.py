"""What lint reports, to whom: nothing of the shipped files to a team, and annotations where CI shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import here
from gatekit.spec.lint import IDS
from gatekit.spec.lint_texts import LINT_TEXTS

ROOT = Path(__file__).resolve().parents[2]
MODEL = """\
defaults:
  - override /engine: vllm
  - override /task: gsm8k_synth
  - override /gate: exact_binomial
model:
  name: org/w_fp8
  quantization: int4
  server_args: {}
  server_env: {}
gate:
  observed: {correct: 1253, n: 1319}
"""


def write(folder: Path, name: str, text: str) -> None:
    path = folder / "ours" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "machine",
    ["name: b200\nvendor: nvidia\ngpu: B200\ncount: 1\n", "name: b200\nvendor: nvidia\ngpu: B200\ncount: 0\n"],
)
def test_a_shipped_matrix_is_not_the_teams_to_mend(machine: str, tmp_path: Path) -> None:
    """A machine of the team's that a shipped matrix cannot use is told at most at the team's own file."""
    write(tmp_path, "hw/b200.yaml", machine)
    ran = here(tmp_path, "lint", "--config-dir", "ours", "--json")
    assert [one["where"].split(":")[0] for one in ran.data["findings"]] == ["ours/hw/b200.yaml"] * (ran.code == 2)
    assert "conf/matrix" not in ran.out


def test_a_broken_model_is_told_once(tmp_path: Path) -> None:
    """That shipped selectors meet a team's broken model is no finding beside the model's own."""
    write(tmp_path, "model/new.yaml", MODEL.replace("quantization: int4", "quantisation: int4"))
    ran = here(tmp_path, "lint", "--config-dir", "ours", "--json")
    assert [one["id"] for one in ran.data["findings"]] == ["unknown-key"]


def test_a_matrix_of_the_teams_own_is(tmp_path: Path) -> None:
    """The team's own matrix is held to what it asks for."""
    write(tmp_path, "matrix/all.yaml", "description: x\nrows:\n  - {model: laguna_int4, hw: h100}\n")
    ran = here(tmp_path, "lint", "--config-dir", "ours", "--json")
    assert [one["where"] for one in ran.data["findings"]] == ["ours/matrix/all.yaml:3:30"]


def test_annotations(tmp_path: Path) -> None:
    """`--format github` gives an error or a warning for each finding, at its line; the summary is on stderr."""
    write(tmp_path, "model/m_fp8.yaml", MODEL)
    ran = here(tmp_path, "lint", "--config-dir", "ours", "--format", "github")
    assert ran.code == 2
    lines = ran.out.splitlines()
    assert lines[0].startswith("::warning file=ours/model/m_fp8.yaml,line=1,col=1,title=model-in-no-matrix::")
    assert lines[1].startswith("::error file=ours/model/m_fp8.yaml,line=7,col=17,title=name-format::")
    assert ran.err.endswith("errors 1, warnings 1\n")


def test_code_scanning(tmp_path: Path) -> None:
    """`--format sarif` gives a SARIF log with the level of each finding, and with every rule explained."""
    write(tmp_path, "model/m_fp8.yaml", MODEL)
    (run,) = here(tmp_path, "lint", "--config-dir", "ours", "--format", "sarif").data["runs"]
    levels = {one["ruleId"]: one["level"] for one in run["results"]}
    assert levels == {"model-in-no-matrix": "warning", "name-format": "error"}
    assert all(one["shortDescription"]["text"] == LINT_TEXTS[one["id"]] for one in run["tool"]["driver"]["rules"])
    (empty,) = here(tmp_path, "lint", "--format", "sarif").data["runs"]
    assert empty["results"] == []


def test_every_finding_is_explained_as_on_its_page() -> None:
    """The sentences for CI are those of docs/lint.md, for every id and no other."""
    page = (ROOT / "docs" / "lint.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:error|warning) \| (.*) \|$", page, re.MULTILINE)
    assert dict(rows) == dict(LINT_TEXTS)
    assert set(LINT_TEXTS) == IDS
