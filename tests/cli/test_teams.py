"""A team's own config folder in every command that reads configs, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Ran, here

ROOT = Path(__file__).resolve().parents[2]
MINE = """\
defaults:
  - override /engine: sim
  - override /task: gsm8k_synth
  - override /gate: static_floor

model:
  name: org/mine
  server_args: {}
  server_env: {}
task:
  n: 20
gate:
  floor: 0.5
"""
TOTALS = "finished_at,n,correct\n2026-11-01T03:00:00Z,20,19\n"
MATRIX = "description: Ours.\nrows:\n  - {model: mine, hw: cpu}\n"
SHADOWED = "gatekit: hw=cpu: {0}/hw/cpu.yaml shadows the shipped hw/cpu.yaml [shadowed]\n"

COMMANDS = {
    "run": ("run", "model=mine"),
    "bare": ("model=mine",),
    "sweep": ("-m", "model=mine", "task.n=10"),
    "matrix": ("run", "--matrix", "ours"),
    "plan": ("plan", "model=mine"),
    "plan matrix": ("plan", "ours"),
    "audit": ("audit", "model=mine"),
    "audit all": ("audit",),
    "thresholds": ("thresholds", "recompute", "model=mine"),
    "thresholds all": (
        "thresholds",
        "recompute",
    ),
    "thresholds show": ("thresholds", "show", "model=mine"),
    "history import": ("history", "import", "totals.csv", "--format", "totals", "model=mine"),
    "validate": ("validate",),
    "lint": ("lint",),
}


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A working folder with a team's configs: a model, a matrix, and a machine that shadows a shipped one."""
    for name, text in (
        ("model/mine", MINE),
        ("matrix/ours", MATRIX),
        ("hw/cpu", "name: cpu\nvendor: none\ncount: 0\n"),
        ("hw/h100", "name: h100\nvendor: nvidia\narchitecture: hopper\ncount: 1\n"),
    ):
        path = tmp_path / "ours" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "totals.csv").write_text(TOTALS)
    return tmp_path


def usable(ran: Ran) -> bool:
    return "unknown-option" not in ran.err and "unknown-matrix" not in ran.err and ran.code != 70


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by_variable", [False, True])
def test_every_command_knows_the_folder(command: str, by_variable: bool, team: Path) -> None:
    """--config-dir and GATEKIT_CONF_PATH bring a team's options into every command, and shadowing is told once."""
    if by_variable:
        ran = here(team, *COMMANDS[command], extra={"GATEKIT_CONF_PATH": f":{team}/ours/:"})
    else:
        ran = here(team, *COMMANDS[command], "--config-dir", "ours/")
    assert usable(ran), ran.err
    assert ran.err.count("hw=cpu: ") == 1, ran.err
    assert SHADOWED.format("ours") in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_only_what_is_used_is_told(command: str, team: Path) -> None:
    """A shadowing file that no spec of the command uses is told by validate and lint alone, which list all."""
    told = "hw=h100: " in here(team, *COMMANDS[command], "--config-dir", "ours").err
    assert told is (command in ("validate", "lint"))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_shadowing_nothing_is_told(command: str, team: Path) -> None:
    """Options with names of their own are no reason for a warning."""
    (team / "ours/hw/cpu.yaml").unlink()
    (team / "ours/hw/h100.yaml").unlink()
    ran = here(team, *COMMANDS[command], "--config-dir", "ours")
    assert usable(ran)
    assert "shadow" not in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_folder_is_one_line(command: str, team: Path) -> None:
    """In every command a folder that does not exist is wrong input: exit 2, one line."""
    ran = here(team, *COMMANDS[command], "--config-dir", "nowhere")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "--config-dir: config folder 'nowhere' does not exist" in ran.err


def test_a_folder_without_groups_is_told(team: Path) -> None:
    """A folder that brings nothing is used, but not in silence: the one beneath it may have been meant."""
    (team / "ours").rename(team / "conf")
    ran = here(team, "plan", "model=simulated", "--config-dir", ".")
    assert ran.code == 0
    assert ran.err.endswith("holds no config group; did you mean conf? [empty-config-dir]\n"), ran.err


def test_json_stays_one_document(team: Path) -> None:
    """What is told goes to stderr: stdout is the product alone."""
    ran = here(team, "plan", "model=mine", "--json", "--config-dir", "ours")
    assert ran.data["model"]["name"] == "org/mine"
    assert ran.err == SHADOWED.format("ours")
