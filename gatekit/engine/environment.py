"""What a server sees of the environment: an allowlist, so that no secret of the caller reaches it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import gatekit
from gatekit.records.spec import Spec

RUN_MARKER = "GATEKIT_RUN"

INHERITED = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_COLLATE",
        "LC_CTYPE",
        "LC_MESSAGES",
        "LC_MONETARY",
        "LC_NUMERIC",
        "LC_TIME",
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_REQUIRE_ARCH",
        "NVIDIA_REQUIRE_BRAND",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_REQUIRE_DRIVER",
        "NVIDIA_TF32_OVERRIDE",
        "NVIDIA_VISIBLE_DEVICES",
        "TMPDIR",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH",
        "HF_HOME",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "XDG_CACHE_HOME",
    }
)


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that any server gets; PATH falls back to the system's default one."""
    kept = {name: value for name, value in environ.items() if name in INHERITED}
    kept.setdefault("PATH", os.defpath)
    return kept


def engine_environment(spec: Spec, environ: Mapping[str, str]) -> dict[str, str]:
    """A launched engine's environment: the inherited part, what `pass_env` asks for, `env`, and `server_env`."""
    own = spec.model.server_env.get(spec.engine.name, {})
    passed = {name: environ[name] for name in spec.engine.pass_env if name in environ}
    return {**inherited(environ), **passed, **spec.engine.env, **own}


def offline(env: Mapping[str, str]) -> dict[str, str]:
    """The same environment for a server that shall fetch nothing from the hub."""
    return {**env, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def bundled_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the bundled answer server, which imports this very gatekit, checkout or not.

    It names no certificates: aiohttp reads those of the machine when it is imported, a fifth of the server's start,
    and this server speaks plain HTTP on the loopback alone.
    """
    kept = {**inherited(environ), "SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
    package_parent = str(Path(gatekit.__file__).resolve().parents[1])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (package_parent, kept.get("PYTHONPATH"))))
    return kept
