"""Histories that several files start from, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kept_nights import keep_nights
from nights import ASKED, series


@pytest.fixture(scope="session")
def four_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four healthy nights of different builds, from 30 August to 2 September 2026. Only to be copied."""
    folder = tmp_path_factory.mktemp("four_nights")
    keep_nights(folder, series("night", 0.95, 4, first="2026-08-30", step=0.003), *ASKED)
    return folder


@pytest.fixture
def folder(four_nights: Path, tmp_path: Path) -> Path:
    """A copy of that folder for one test."""
    return Path(shutil.copytree(four_nights, tmp_path / "work"))
