"""docs/teams.md: its commands run in the repository that it describes, its snippets are what it says they are."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import here

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "teams.md").read_text()
STEPS = [line.strip() for line in TEXT.splitlines() if line.startswith("    python -m gatekit")]
QUICK = "engine.latency.median_s=0"


def snippet(name: str) -> Any:
    """The YAML block of the page that begins with the file's name."""
    found = re.search(rf"```yaml\n# {re.escape(name)}\n(.*?)```", TEXT, re.DOTALL)
    assert found, name
    return yaml.load(found[1], Loader=yaml.BaseLoader)


def words(command: str, folder: Path) -> list[str]:
    arguments = shlex.split(command.removeprefix("python -m "))[1:]
    return [word.replace("/srv/gatekit", str(folder / "history")) for word in arguments]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder in which the commands of the page were run, in their order."""
    for step in STEPS:
        more = [QUICK] if " run " in step else []
        ran = here(tmp_path, *words(step, tmp_path), *more)
        assert ran.code == 0, (step, ran.out, ran.err)
    return tmp_path


def test_the_page_from_start_to_ci(repository: Path) -> None:
    """Every command works in its order, and the layout, CI and pre-commit snippets work on what they left."""
    for name in ("model/qwen3_8b.yaml", "hw/gb300x4.yaml", "matrix/nightly.yaml"):
        assert (repository / "conf" / name).is_file()
        assert name in TEXT
    workflow = snippet(".github/workflows/gates.yml")
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    # Not by `python -m`, for which Python looks into the checkout first.
    commands = [run for run in runs if run.startswith("gatekit ")]
    assert len(commands) == 5
    for command in commands:
        rehearsal = ["engine=sim", "task=gsm8k_synth", QUICK] if " run " in command else []
        # A rehearsal is no run of the real gate: lint says so, by its id.
        expected = 2 if "--history" in command else 0
        ran = here(repository, *words(command, repository), *rehearsal, extra=workflow["env"])
        assert ran.code == expected, (command, ran.out, ran.err)
        assert expected == 0 or "gate-never-ran" in ran.out
    for hook in snippet(".pre-commit-config.yaml")["repos"][0]["hooks"]:
        assert here(repository, *words(hook["entry"], repository)).code == 0


def test_the_file_that_builds_on_a_shipped_one(tmp_path: Path) -> None:
    """The option that builds on a shipped one composes as shown, and shadows nothing."""
    text = TEXT.split("`conf/hw/h100_ours.yaml` with\n\n")[1].split("\n\n")[0]
    path = tmp_path / "conf/hw/h100_ours.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(line.removeprefix("    ") for line in text.splitlines()) + "\n")
    ran = here(tmp_path, "plan", "hw=h100_ours", "--config-dir", "conf", "--json")
    assert (ran.data["hw"]["memory_gib"], ran.data["hw"]["gpu"], ran.err) == (93, "H100", "")


def test_the_pinned_version_is_this_one() -> None:
    """The version that the page pins is the one it belongs to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"gatekit=={project['version']}\n" in TEXT
