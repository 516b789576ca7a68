"""How quickly and how lightly the command line starts."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import environment, gatekit, here

HEAVY = (
    "scipy",
    "numpy",
    "hydra",
    "omegaconf",
    "aiohttp",
    "asyncio",
    "jsonschema",
    "sqlalchemy",
    "rich",
    "yaml",
)


@pytest.mark.parametrize(
    "arguments", [("--help",), ("--version",), ("nonsense",), ("history", "--help"), ("history", "list", "-x")]
)
def test_light_commands_import_nothing_heavy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Help, version and a mistyped command load none of the heavy libraries."""
    code = (
        "import sys, runpy\n"
        f"sys.argv = ['gatekit', *{arguments!r}]\n"
        "try:\n    runpy.run_module('gatekit', run_name='__main__')\n"
        "except SystemExit:\n    pass\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_help_costs_little_more_than_python(tmp_path: Path) -> None:
    """Help takes at most a few times what an empty Python process takes, measured side by side."""

    def seconds(*command: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *command], cwd=tmp_path, env=environment(), capture_output=True, check=True)
        return time.perf_counter() - began

    bare, helped = [], []
    for _ in range(7):
        bare.append(seconds("-c", "import argparse, signal, json"))
        helped.append(seconds("-m", "gatekit", "--help"))
    assert statistics.median(helped) < 4 * statistics.median(bare)


def test_help_names_the_exit_codes(tmp_path: Path) -> None:
    """Help is on stdout, exits 0, and says what the codes mean."""
    ran = gatekit(tmp_path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "1 FAIL (a measured regression)" in ran.out


def test_plan_runs_nothing(tmp_path: Path) -> None:
    """`plan` and `--cfg` print the resolved spec and leave no trace."""
    ran = here(tmp_path, "plan", "model=laguna_int4", "hw=b200")
    assert ran.code == 0
    assert "poolside/Laguna-XS-2.1-INT4" in ran.out
    assert here(tmp_path, "--cfg", "model=laguna_int4", "hw=b200").out == ran.out
    assert list(tmp_path.iterdir()) == []


def test_options_may_come_first(tmp_path: Path) -> None:
    """An option before the command means the same as after it."""
    assert here(tmp_path, "--json", "plan", "task.n=7").data["task"]["n"] == 7
    assert here(tmp_path, "--config-dir", str(tmp_path), "plan", "task.n=7").code == 0


def test_plan_as_json(tmp_path: Path) -> None:
    """`plan --json` is one document; a sweep is a list of them."""
    assert here(tmp_path, "plan", "--json").data["engine"]["kind"] == "sim"
    swept = here(tmp_path, "plan", "-m", "task.n=1,2", "--json").data
    assert [spec["task"]["n"] for spec in swept] == [1, 2]
