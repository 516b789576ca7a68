"""The weights that are served, where they are one file: which bytes they are, and whether they are the pinned ones."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from gatekit.engine.argv import model_path, path_override
from gatekit.errors import InfraError
from gatekit.history.durable_files import open_regular
from gatekit.records.spec import Spec

_READ_UNPINNED_BYTES = 2**30  # a digest that nobody asked for must not cost minutes


def served_weights(spec: Spec, environ: Mapping[str, str]) -> dict[str, str]:
    """What a record says of the weights: `weights_sha256`; nothing for a folder, a hub id, and a large unpinned file.

    Raises InfraError when the file is not there, cannot be read, or is not the one that `model.sha256` pins. A path
    that `model.path_env` puts in its place is served as it is: whoever sets the variable means other weights.
    """
    pinned = None if path_override(spec, environ) else spec.model.sha256
    path = Path(model_path(spec, environ))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or (pinned is None and status.st_size > _READ_UNPINNED_BYTES):
            found = None
        else:
            found = _sha256(path)
    except OSError as problem:
        if pinned is None:
            return {}  # a hub id, or the server's own complaint
        raise InfraError(
            f"cannot read the weights {path}: {problem.strerror}", reason="weights-unreadable", hint=_again(spec)
        ) from problem
    if pinned is not None and found != pinned:
        what = (
            f"the weights {path} are not the pinned ones: expected sha256 {pinned}, found {found or 'no single file'}"
        )
        raise InfraError(what, reason="weights-digest-mismatch", hint=_again(spec))
    return {} if found is None else {"weights_sha256": found}


def _sha256(path: Path) -> str:
    with os.fdopen(open_regular(path), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _again(spec: Spec) -> str:
    if spec.model.shipped:
        return "install gatekit again: the file belongs to it"
    return "fetch the weights again, or correct model.sha256"
