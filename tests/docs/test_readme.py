"""The README is the first test: its commands and examples run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import here

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {name: (ROOT / name).read_text() for name in ("README.md", "docs/configuration.md")}


def examples(text: str) -> list[str]:
    """Every `gatekit` or `python -m gatekit` line of a text, continued lines joined, comments dropped."""
    joined = text.replace("\\\n", " ")
    typed = ("    python -m gatekit", "    gatekit ")
    return [line.split("  #")[0].strip() for line in joined.splitlines() if line.startswith(typed)]


ALL = [example for text in TEXTS.values() for example in examples(text)]


@pytest.mark.parametrize("command", ALL)
def test_every_example_is_accepted(tmp_path: Path, command: str) -> None:
    """Each example does what it says; a run is planned instead of started, and a first recomputation has too little
    history, which is exit 4."""
    arguments = shlex.split(command.removeprefix("python -m "))[1:]
    for name in {"RUN", "OTHER"} & set(arguments):
        assert here(tmp_path, "task.n=60", "engine.latency.median_s=0", "--run-id", name).code == 0
    is_run = arguments[:1] == [] or "=" in arguments[0] or arguments[0].startswith("-")
    ran = here(tmp_path, *(["plan"] if is_run else []), *arguments)
    is_first = arguments[:2] == ["thresholds", "recompute"] and "--check" not in arguments
    assert ran.code == (4 if is_first else 0), ran.err


def test_there_are_examples() -> None:
    """The README shows the gate in use."""
    assert len(ALL) >= 8


def test_the_two_commands() -> None:
    """The README has exactly one command that installs and runs, and one that passes the tests."""
    lines = [line.strip() for line in TEXTS["README.md"].splitlines()]
    assert lines.count("pip install . && python -m gatekit") == 1
    assert lines.count("pip install '.[dev]' && pytest") == 1


def test_the_default_gate_passes_and_a_worse_model_fails(tmp_path: Path) -> None:
    """The README's first command passes, and its second, with the accuracy it names, exits 1."""
    assert here(tmp_path).code == 0
    (worse,) = [example for example in ALL if "engine.accuracy" in example]
    assert here(tmp_path, *shlex.split(worse)[3:]).code == 1


def test_the_team_model_of_the_docs(tmp_path: Path) -> None:
    """The model file that the docs show composes as it stands."""
    text = TEXTS["docs/configuration.md"].split("`ours/model/qwen3_8b.yaml`:")[1].split("and run it")[0]
    folder = tmp_path / "ours" / "model"
    folder.mkdir(parents=True)
    (folder / "qwen3_8b.yaml").write_text(re.sub(r"^ {4}", "", text, flags=re.MULTILINE).strip() + "\n")
    ran = here(tmp_path, "plan", "--config-dir", "ours", "model=qwen3_8b", "hw=h100", "--json")
    assert ran.code == 0, ran.err
    assert ran.data["model"]["name"] == "Qwen/Qwen3-8B"


def test_the_options_of_the_docs_are_the_shipped_ones() -> None:
    """The table of groups lists every shipped option and no other."""
    for folder in (ROOT / "conf").iterdir():
        if folder.is_dir():
            (row,) = re.findall(rf"^\| `{folder.name}` \|.*\|(.*)\|$", TEXTS["docs/configuration.md"], re.MULTILINE)
            assert set(re.findall(r"`(\w+)`", row)) == {path.stem for path in folder.glob("*.yaml")}
