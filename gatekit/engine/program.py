"""Where the program of a launched engine is: on PATH, or inside an installed Python package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gatekit.records.spec import Engine


def find_program(engine: Engine, path: str) -> str | None:
    """The program that `engine.command` names, looked for on `path`; else `engine.packaged` where it is installed.

    None when it is in neither place.
    """
    name = (engine.command or ("",))[0]
    found = shutil.which(name, path=path)
    if found is None and engine.packaged is not None:
        found = _in_a_package(engine.packaged)
    return found


def _in_a_package(place: str) -> str | None:
    """The executable file at `place` under the first folder of installed packages that has one.

    Nothing is imported. The working directory, which `python -m` looks into first, is no such folder: a checkout
    must not bring its own server.
    """
    here = Path.cwd().resolve()
    folders = (Path(entry).resolve() for entry in sys.path if entry)
    candidates = (folder / place for folder in folders if folder != here)
    return next((str(file) for file in candidates if file.is_file() and os.access(file, os.X_OK)), None)
