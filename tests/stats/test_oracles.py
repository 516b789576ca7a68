"""The replay of oracle files: values computed elsewhere, and that a wrong one is noticed."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "replay_oracles.py"
Replay = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """The script's main on one file, in this process: exit code, stdout, stderr."""
    main = runpy.run_path(str(SCRIPT))["main"]

    def run(path: str) -> tuple[int, str, str]:
        code = main([path])
        return code, *capsys.readouterr()

    return run


def written(folder: Path, *cases: object) -> str:
    """A file of the given cases."""
    path = folder / "cases.json"
    path.write_text(json.dumps({"version": 1, "convention": "", "cases": cases}), encoding="utf-8")
    return str(path)


def power_case(**expected: object) -> dict[str, object]:
    """A case whose true answer is k_pass 1 and power 0.81: both of two wrong at 0.9 each."""
    inputs = {"n": 2, "p0": 0.5, "alpha": 0.25, "p_true": 0.1}
    return {"id": "x-1", "kind": "power", "inputs": inputs, "expected": expected, "tol": 1e-10}


def test_every_shared_case_is_reproduced(shared: Path) -> None:
    """All 227 shared cases are reproduced within their tolerance by the documented command."""
    command = [sys.executable, "tests/replay_oracles.py", str(shared / "oracles" / "oracle_public.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "227 passed, 0 failed\n", "")


def test_a_planted_mismatch_is_named(replay: Replay, tmp_path: Path) -> None:
    """A count off by one and a float beyond tol are each named with expected and got, and exit 1."""
    code, out, _ = replay(written(tmp_path, power_case(k_pass=2, power=0.8100001)))
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "x-1 k_pass: expected 2, got 1"
    assert lines[1].startswith("x-1 power: expected 0.8100001, got 0.8")
    assert lines[-1] == "0 passed, 1 failed"


def test_a_float_within_its_tolerance_passes(replay: Replay, tmp_path: Path) -> None:
    """A float that differs by less than tol is no mismatch, and a missing field is one."""
    good = power_case(k_pass=1, power=0.81 * (1 + 5e-11))
    assert replay(written(tmp_path, good))[:2] == (0, "1 passed, 0 failed\n")
    code, out, _ = replay(written(tmp_path, power_case(k_pass=1, strength=0.81)))
    assert (code, out.splitlines()[-1]) == (1, "0 passed, 1 failed")


def test_kinds_unknown_are_counted_apart(replay: Replay, tmp_path: Path) -> None:
    """A kind without implementation is listed, counted apart, and does not fail the rest."""
    unknown = {**power_case(), "kind": "tea_leaves"}
    code, out, _ = replay(written(tmp_path, unknown, power_case(k_pass=1)))
    assert (code, out) == (0, "1 not implemented: tea_leaves\n1 passed, 0 failed\n")


def test_a_case_that_cannot_be_computed_is_a_mismatch(replay: Replay, tmp_path: Path) -> None:
    """Inputs that are missing or impossible fail their case in one line, without a traceback."""
    code, out, errors = replay(written(tmp_path, {**power_case(k_pass=1), "inputs": {"n": 2}}))
    assert (code, errors) == (1, "")
    assert out.splitlines()[-1] == "0 passed, 1 failed"


@pytest.mark.parametrize(("name", "text"), [("absent", None), ("broken", "{"), ("empty", "[]")])
def test_an_unreadable_file_is_one_line_and_exit_2(replay: Replay, tmp_path: Path, name: str, text: str | None) -> None:
    """A missing file, broken JSON and a file without cases are each one line on stderr, and exit 2."""
    path = tmp_path / f"{name}.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    code, out, errors = replay(str(path))
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert name in errors
