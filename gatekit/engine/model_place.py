"""A model that is named by a path is there before its server starts, where the server sees what we see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gatekit.engine.argv import model_path, path_override
from gatekit.errors import InfraError
from gatekit.records.spec import Spec
from gatekit.report.escape import escape_terminal

# Programs whose servers see other files than this process: containers, other machines, other roots.
_ELSEWHERE = frozenset(
    {
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "oc",
        "apptainer",
        "singularity",
        "enroot",
        "udocker",
        "lxc-attach",
        "lxc",
    }
    | {"ssh", "srun", "salloc", "chroot", "nsenter", "unshare", "bwrap", "proot", "systemd-nspawn", "machinectl"}
)
_PATH_BEGINS = ("/", "./", "../", "~")
_SHOWN_CHARACTERS = 200


def model_not_here(spec: Spec, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The warning for a path of a model at which there is nothing here, of a server that may see other files.

    Raises InfraError for a server that sees what we see. A hub id is no path: whether it is there the hub knows.
    """
    path = model_path(spec, environ)
    if not path.startswith(_PATH_BEGINS) or _is_there(path):
        return ()
    key = spec.model.path_env if path_override(spec, environ) else "model.name"
    what = f"there is nothing at {escape_terminal(path, limit=_SHOWN_CHARACTERS)}, which {key} names as the model"
    program = Path((spec.engine.command or ("",))[0]).name
    if program in _ELSEWHERE or spec.engine.foreign_listener:
        return (f"not verified: {what}; the server, started by {program}, may see other files",)
    home = "; ~ is not expanded" if path.startswith("~") else ""
    raise InfraError(what, reason="model-missing", hint=f"give the folder or file of the weights, or a hub id{home}")


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return True  # whoever cannot look knows nothing
