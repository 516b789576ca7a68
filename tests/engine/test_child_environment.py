"""What a server sees of the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gatekit
from gatekit.engine.environment import bundled_environment, engine_environment, inherited
from gatekit.records.spec import Model

PARENT = {
    "PATH": "/bin",
    "HOME": "/home/ci",
    "LC_ALL": "C",
    "NVIDIA_DRIVER_CAPABILITIES": "all",
    "CUDA_VISIBLE_DEVICES": "1",
    "HF_HOME": "/hf",
    "PYTHONPATH": "/mine",
    "HF_TOKEN": "secret",
    "GITHUB_TOKEN": "secret",
    "NVIDIA_API_KEY": "secret",
    "NVIDIA_PAT": "secret",
    "LC_SECRET": "secret",
    "LC_PAT": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PGPASSWORD": "secret",
    "HTTP_PROXY": "http://u:secret@p",
    "LD_PRELOAD": "/secret.so",
    "BUILDKITE_AGENT_ACCESS_TOKEN": "secret",
}


def test_secrets_stay_out() -> None:
    """Only the allowlist passes: no token, password, proxy or preload of the caller reaches a server."""
    kept = inherited(PARENT)
    assert "secret" not in repr(kept)
    assert set(kept) == set(list(PARENT)[:7])
    assert inherited({})["PATH"] == os.defpath


def test_the_spec_adds_its_own(make_spec: Any) -> None:
    """The engine's env overrides the caller's, the model's env for this engine overrides both."""
    model = Model(name="m", server_args={}, server_env={"vllm": {"A": "model", "C": "3"}, "sglang": {"D": "4"}})
    spec = make_spec(name="vllm", model=model, env={"A": "engine", "B": "2", "HOME": "/x", "HF_TOKEN": "given"})
    seen = engine_environment(spec, PARENT)
    assert {name: seen.get(name) for name in "ABCD"} == {"A": "model", "B": "2", "C": "3", "D": None}
    assert (seen["HOME"], seen["PATH"], seen["HF_TOKEN"]) == ("/x", "/bin", "given")


def test_the_bundled_server_finds_this_gatekit(tmp_path: Path) -> None:
    """From any folder the bundled server imports the running gatekit, before the caller's own path."""
    env = bundled_environment({"PYTHONPATH": "/mine", "PATH": os.environ["PATH"]})
    code = "import gatekit, sys; print(gatekit.__file__)"
    found = subprocess.run([sys.executable, "-P", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.strip() == gatekit.__file__
    assert env["PYTHONPATH"].endswith(os.pathsep + "/mine")


def test_the_bundled_server_reads_no_certificates(tmp_path: Path) -> None:
    """The bundled server, which speaks plain HTTP, does not spend its start on the certificates of the machine."""
    env = bundled_environment({"PATH": os.environ["PATH"], "SSL_CERT_FILE": "/mine"})
    code = "import ssl; print(len(ssl.create_default_context().get_ca_certs()))"
    found = subprocess.run([sys.executable, "-P", "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (found.stdout.strip(), found.stderr) == ("0", "")
