"""Where downloaded datasets are kept: a variable, the user's cache folder, or nowhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CACHE_VARIABLE = "GATEKIT_CACHE_DIR"


def cache_dir(environ: Mapping[str, str]) -> Path:
    """`$GATEKIT_CACHE_DIR`, else gatekit's folder in the user's cache; without a home one that holds nothing."""
    if environ.get(CACHE_VARIABLE):
        return Path(environ[CACHE_VARIABLE])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "gatekit"
    try:
        return Path.home() / ".cache" / "gatekit"
    except RuntimeError:  # no home: datasets by task.path still work
        return Path(os.devnull) / "gatekit"
