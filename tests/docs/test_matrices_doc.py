"""docs/matrices.md is true: its commands run, and its file plans."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import here
from gatekit.resources import schema

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "matrices.md").read_text()
COMMANDS = [line.split("  #")[0].strip() for line in TEXT.splitlines() if line.startswith("    python -m gatekit")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the matrix of the page."""
    text = TEXT.split("`ours/matrix/nightly.yaml`:")[1].split("    python -m gatekit")[0]
    (tmp_path / "ours" / "matrix").mkdir(parents=True)
    (tmp_path / "ours" / "matrix" / "nightly.yaml").write_text(re.sub(r"^ {4}", "", text, flags=re.MULTILINE))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_works(folder: Path, command: str) -> None:
    """Each does what it says; what would start servers on GPUs is planned instead."""
    arguments = shlex.split(command)[3:]
    starts_servers = arguments[0] == "run" and "engine=sim" not in arguments
    ran = here(folder, *arguments, *(["--cfg"] if starts_servers else []))
    assert ran.code == 0, ran.err


def test_the_page_shows_its_commands() -> None:
    """The page plans, lists, prints lines, runs and rehearses."""
    assert len(COMMANDS) == 6


def test_the_file_of_the_page(folder: Path) -> None:
    """The example has the specs that the page speaks of, and leaves out what it says."""
    data = here(folder, "plan", "nightly", "--config-dir", "ours", "--json").data
    assert [one["name"] for one in data["specs"]] == [
        "laguna_int4-b200-vllm",
        "laguna_nvfp4-b200-vllm",
        "diffusiongemma_fp8-b200x2-vllm",
        "laguna_int4-b200x2-vllm",
    ]
    assert [one["what"] for one in data["left_out"]] == ["two GPUs are all it takes"]


def test_the_keys_of_the_page() -> None:
    """The table names every key of the selectors, and no other."""
    for group, definition in (("model", "models"), ("hw", "machines")):
        (row,) = re.findall(rf"^\| `{group}` \|(.*)\|$", TEXT, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == set(schema("matrix")["$defs"][definition]["properties"])
