"""The replay script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def replay(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tests/replay_extraction.py", str(file)], cwd=ROOT, capture_output=True, text=True
    )


def test_the_public_cases_pass(shared: Path) -> None:
    """The script passes all the public cases and says how many."""
    done = replay(shared / "cases" / "extraction_public.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "56 passed, 0 failed\n", "")


def test_a_planted_mismatch_is_found(tmp_path: Path) -> None:
    """A wrong expectation gives one escaped line and exit 1; values compare exactly, not as text."""
    file = tmp_path / "cases.json"
    rows = [("#### 18\x1b[31m", "17"), ("#### 18.0", "18"), ("#### 3/4", "0.75"), ("none", None), ("5", None)]
    file.write_text(json.dumps([{"text": text, "expected": value, "why": "planted"} for text, value in rows]))
    done = replay(file)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        r"'#### 18\x1b[31m': expected 17, got 18",
        "'5': expected null, got 5",
        "3 passed, 2 failed",
    ]


@pytest.mark.parametrize("content", [None, "{", "{}", '[{"text": 1}]', '[{"text": "1", "expected": "x"}]', "[1]"])
def test_an_unusable_file_is_one_line(tmp_path: Path, content: str | None) -> None:
    """A missing or invalid file gives exit 2 and one line."""
    file = tmp_path / "cases.json"
    if content is not None:
        file.write_text(content)
    done = replay(file)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
