"""Fixtures for every room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from raw_server import Handler, RawServer, Start

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The study material beside the project; without it a test is skipped, and in CI it fails."""
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


@pytest.fixture
def raw_server() -> Iterator[Start]:
    """Starts raw servers; all are stopped after the test."""
    started: list[RawServer] = []

    def start(handler: Handler) -> RawServer:
        server = RawServer(handler)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()
