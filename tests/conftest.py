"""Fixtures for every room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared study material beside the project; its absence skips a test, and fails it in CI."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        if os.environ.get("CI"):
            pytest.fail("the shared folder is required in CI")
        pytest.skip("needs the shared folder beside the project")
    return folder


@pytest.fixture(scope="session")
def gsm8k_dir(shared: Path) -> Path:
    """The real GSM8K files."""
    return shared / "gsm8k"
