"""The replay of oracle files: values computed elsewhere, and that a wrong one is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python tests/replay_oracles.py ARGUMENTS` from the project root."""
    command = [sys.executable, "tests/replay_oracles.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


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
    """All 227 shared cases, computed without scipy.special, are reproduced within their tolerance."""
    done = replay(str(shared / "oracles" / "oracle_public.json"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "227 passed, 0 failed\n", "")


def test_a_planted_mismatch_is_named(tmp_path: Path) -> None:
    """A count off by one and a float beyond tol are each named with expected and got, and exit 1."""
    done = replay(written(tmp_path, power_case(k_pass=2, power=0.8100001)))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "x-1 k_pass: expected 2, got 1"
    assert lines[1].startswith("x-1 power: expected 0.8100001, got 0.8")
    assert lines[-1] == "0 passed, 1 failed"


def test_a_float_within_its_tolerance_passes(tmp_path: Path) -> None:
    """A float that differs by less than tol is no mismatch, and a missing field is one."""
    good = power_case(k_pass=1, power=0.81 * (1 + 5e-11))
    bad = power_case(k_pass=1, strength=0.81)
    assert replay(written(tmp_path, good)).stdout == "1 passed, 0 failed\n"
    assert replay(written(tmp_path, bad)).stdout.endswith("0 passed, 1 failed\n")


def test_kinds_unknown_are_counted_apart(tmp_path: Path) -> None:
    """A kind without implementation is listed, counted apart, and does not fail the rest."""
    unknown = {**power_case(), "kind": "tea_leaves"}
    done = replay(written(tmp_path, unknown, power_case(k_pass=1)))
    assert done.stdout == "1 not implemented: tea_leaves\n1 passed, 0 failed\n"
    assert done.returncode == 0


def test_a_case_that_cannot_be_computed_is_a_mismatch(tmp_path: Path) -> None:
    """Inputs that are missing or impossible fail their case in one line, without a traceback."""
    done = replay(written(tmp_path, {**power_case(k_pass=1), "inputs": {"n": 2}}))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_an_unreadable_file_is_one_line_and_exit_2(tmp_path: Path) -> None:
    """A missing file, a file that is not JSON and one without cases are each one line on stderr and exit 2."""
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "empty.json").write_text("[]", encoding="utf-8")
    for name in ("absent.json", "broken.json", "empty.json"):
        done = replay(str(tmp_path / name))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert name in done.stderr
