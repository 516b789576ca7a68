"""Config files of a team, laid into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """`folder` with these files in it, each text by its relative name."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
