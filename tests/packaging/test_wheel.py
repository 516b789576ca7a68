"""A wheel of the tree in a clean virtual environment, used from a team's own folder: slow, needs a package registry."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from command_line import Ran, environment

ROOT = Path(__file__).resolve().parents[2]
MATRIX = "description: Ours.\nrows:\n  - {model: mine, hw: cpu, engine: sim, task: gsm8k_synth}\n"

pytestmark = pytest.mark.slow


def call(folder: Path, *command: str, timeout_s: float = 600) -> Ran:
    kept = {name: value for name, value in environment().items() if name not in ("PYTHONPATH", "PYTHONHOME", "CI")}
    done = subprocess.run(
        command, cwd=folder, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `gatekit` of a wheel that was built from the tree and installed with what it depends on, and no more."""
    folder = tmp_path_factory.mktemp("wheel")
    built = call(folder, sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", str(ROOT))
    assert built.code == 0, built.err
    (wheel,) = (folder / "dist").glob("gatekit-*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    installed = call(folder, str(python), "-m", "pip", "install", str(wheel))
    assert installed.code == 0, installed.err
    return folder / "venv" / "bin" / "gatekit"


@pytest.fixture
def team(program: Path, tmp_path: Path) -> Path:
    """A folder with a team's own model, made by the installed `gatekit init`, and a matrix."""
    ran = call(tmp_path, str(program), "init", "model", "mine", "--name", "acme/mine", "--floor", "0.5")
    assert ran.code == 0, ran.err
    (tmp_path / "conf/matrix").mkdir()
    (tmp_path / "conf/matrix/ours.yaml").write_text(MATRIX)
    return tmp_path


def test_it_is_the_wheel(program: Path, tmp_path: Path) -> None:
    """What runs is the installed package, with configs and schemas inside it."""
    python = program.parent / "python"
    where = "import gatekit, gatekit.resources as r; print(gatekit.__file__, r.conf_dir(), r.schema_dir())"
    places = call(tmp_path, str(python), "-I", "-c", where).out.split()
    assert len(places) == 3
    assert all(f"{program.parents[1]}/" in place and "site-packages" in place for place in places)


def test_a_team_validates_plans_and_runs(program: Path, team: Path) -> None:
    """A team's own model file, in a folder that knows nothing of the project, is validated, planned and run."""
    checked = call(team, str(program), "validate", "conf/model/mine.yaml")
    assert checked.code == 0, checked.err
    planned = call(team, str(program), "plan", "ours", "--config-dir", "conf", "--json")
    assert [one["spec"]["model"]["name"] for one in planned.data["specs"]] == ["acme/mine"]
    asked = ("--config-dir", "conf", "model=mine", "engine=sim", "task=gsm8k_synth", "engine.latency.median_s=0")
    ran = call(team, str(program), *asked, "--json")
    assert (ran.code, ran.err) == (0, ran.err)
    assert ran.data["verdict"] == "PASS"
    assert call(team, str(program), "lint", "--config-dir", "conf", "--strict").code == 0


def test_shadowing_is_announced(program: Path, team: Path) -> None:
    """A team's file with a shipped name takes its place, and every command that uses it says so."""
    made = call(team, str(program), "init", "hw", "cpu", "--vendor", "none")
    told = "hw=cpu: conf/hw/cpu.yaml shadows the shipped hw/cpu.yaml [shadowed]"
    assert told in made.err
    for command in (("plan", "model=mine", "engine=sim"), ("validate",), ("lint",)):
        ran = call(team, str(program), *command, "--config-dir", "conf")
        assert (ran.code, ran.err.count(told)) == (0, 1), ran.err


def test_nothing_is_made_inside_the_package(program: Path, team: Path) -> None:
    """The shipped configs of a wheel are no place for a team's files."""
    places = call(team, str(program.parent / "python"), "-c", "import gatekit.resources as r; print(r.conf_dir())")
    shipped = places.out.strip()
    ran = call(team, str(program), "init", "model", "other", "--config-dir", shipped)
    assert (ran.code, "[installed-package]" in ran.err) == (2, True)
    assert not Path(shipped, "model", "other.yaml").exists()


def test_json_of_an_error_is_one_document(program: Path, team: Path) -> None:
    """A wrong folder is one JSON document and one line in the installed program too."""
    ran = call(team, str(program), "--config-dir", "nowhere", "model=mine", "--json")
    assert ran.code == 2
    assert "nowhere" in json.dumps(ran.data)
