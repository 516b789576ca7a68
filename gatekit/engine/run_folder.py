"""Files of a run that only their owner may read, and the name a server gets for one run."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.durable_files import open_regular

LOG_NAME = "server.log"
_LONGEST_RUN_NAME = 80


def make_run_folder(path: Path) -> None:
    """Makes the folder, readable by its owner alone, unless it is there. Raises InfraError when it cannot."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise _unwritable(path, problem) from problem


def write_private(path: Path, content: bytes) -> None:
    """Writes a file of mode 0600, over an older one but never through a symlink. Raises InfraError."""
    try:
        descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "wb") as file:
            os.ftruncate(descriptor, 0)
            file.write(content)
    except OSError as problem:
        raise _unwritable(path, problem) from problem


def served_model_name(run_dir: Path) -> str:
    """A model name that no other server has, so that a stranger's answers are never taken for ours."""
    run = re.sub(r"[^A-Za-z0-9._-]+", "-", run_dir.name)[:_LONGEST_RUN_NAME]
    return f"gatekit-{run}-{secrets.token_hex(4)}"


def _unwritable(path: Path, problem: OSError) -> InfraError:
    return InfraError(
        f"cannot write {path}: {problem.strerror}",
        reason="run-folder-unwritable",
        hint="check the folder's owner, mode and free space",
    )
