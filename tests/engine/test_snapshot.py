"""The files of a model: found, told apart whole from half, digested, and searched for code."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.remote_code import remote_code
from gatekit.engine.snapshot import Snapshot, file_digests, find_snapshot, is_complete
from gatekit.engine.supply import checked_environment, loaded_files
from gatekit.errors import InfraError
from gatekit.records.spec import EngineKind, Model, Spec

COMMIT = "0123456789abcdef0123456789abcdef01234567"
INDEX = json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})


def hub(root: Path, files: dict[str, str]) -> Path:
    """A hub cache with one repository of these files, weights as links to blobs of their sha256's name."""
    repository = root / "models--org--m"
    folder = repository / "snapshots" / COMMIT
    for number, (name, text) in enumerate(files.items()):
        blob = repository / "blobs" / (f"{number}".rjust(64, "5") if name.endswith("safetensors") else f"{number:040d}")
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_text(text)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return folder


def spec_for(make_spec: Any, **model: Any) -> Spec:
    fields = {"name": "org/m", "revision": COMMIT, "server_args": {}, "server_env": {}} | model
    spec: Spec = make_spec(name="vllm", kind=EngineKind.LAUNCH, command=("vllm",), model=Model(**fields))
    return spec


WHOLE = {
    "config.json": "{}",
    "tokenizer.json": "[]",
    "model.safetensors.index.json": INDEX,
    "model-1.safetensors": "one",
    "model-2.safetensors": "two",
}


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"])
def test_the_cache_of_the_server(make_spec: Any, tmp_path: Path, variable: str) -> None:
    """The cache is where a server with this environment would look; a whole pinned snapshot takes it offline."""
    below = {"HF_HOME": "hub", "XDG_CACHE_HOME": "huggingface/hub", "HOME": ".cache/huggingface/hub"}
    folder = hub(tmp_path / below.get(variable, ""), WHOLE)
    spec, env = spec_for(make_spec), {variable: str(tmp_path), "HF_HUB_OFFLINE": "0"}
    found = find_snapshot(spec, env, {})
    assert found == Snapshot(folder=folder, commit=COMMIT)
    assert is_complete(found)
    seen = checked_environment(spec, env, {})
    assert (seen["HF_HUB_OFFLINE"], seen["TRANSFORMERS_OFFLINE"]) == ("1", "1")


def test_an_unpinned_model_stays_online(make_spec: Any, tmp_path: Path) -> None:
    """Without a pin the cached files are told by their commit, and the server may fetch newer ones."""
    hub(tmp_path, WHOLE)
    spec, env = spec_for(make_spec, revision=None), {"HF_HUB_CACHE": str(tmp_path)}
    assert checked_environment(spec, env, {}) == env
    assert loaded_files(spec, env, {})["snapshot.commit"] == COMMIT


@pytest.mark.parametrize("lost", ["config.json", "model-2.safetensors", "blob"])
def test_half_a_snapshot_stays_online(make_spec: Any, tmp_path: Path, lost: str) -> None:
    """A snapshot without its config, a shard of its index, or the file behind a link is not whole."""
    folder = hub(tmp_path, {name: text for name, text in WHOLE.items() if name != lost})
    if lost == "blob":
        (folder / "model-1.safetensors").resolve().unlink()
    env = {"HF_HUB_CACHE": str(tmp_path)}
    assert "HF_HUB_OFFLINE" not in checked_environment(spec_for(make_spec), env, {})


def test_the_digests(make_spec: Any, tmp_path: Path) -> None:
    """Small files are hashed, weights of the cache keep the sha256 that names them; one digest is over all."""
    hub(tmp_path, WHOLE)
    told = loaded_files(spec_for(make_spec), {"HF_HUB_CACHE": str(tmp_path)}, {})
    assert told["snapshot.file.config.json"] == "sha256:" + hashlib.sha256(b"{}").hexdigest()
    assert told["snapshot.file.model-1.safetensors"] == f"sha256:{'3'.rjust(64, '5')} by its name, 3 bytes"
    assert (told["snapshot.files"], told["snapshot.commit"], told["snapshot.remote_code"]) == ("5", COMMIT, "none")
    before = told["snapshot.digest"]
    (tmp_path / "models--org--m" / "snapshots" / COMMIT / "tokenizer.json").resolve().write_text("[1]")
    assert loaded_files(spec_for(make_spec), {"HF_HUB_CACHE": str(tmp_path)}, {})["snapshot.digest"] != before


def test_a_folder_of_ones_own(make_spec: Any, tmp_path: Path) -> None:
    """Weights in a folder are hashed; a huge file, a pipe and a link to nowhere are told, and never waited for."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("w")
    with (tmp_path / "huge.safetensors").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "gone.json").symlink_to("nowhere")
    told = file_digests(Snapshot(folder=tmp_path))
    named = {name.removeprefix("snapshot.file."): value for name, value in told.items()}
    assert named["model.safetensors"] == "sha256:" + hashlib.sha256(b"w").hexdigest()
    assert (named["huge.safetensors"], named["pipe.json"]) == (f"{2**40} bytes", "no regular file")
    assert named["gone.json"] == "missing"
    spec = spec_for(make_spec, name=str(tmp_path / "model.safetensors"), revision=None)
    assert loaded_files(spec, {}, {}) == {}


CODE = {
    "auto_map in config.json": ("config.json", {"auto_map": {"AutoModel": "x.M"}}),
    "auto_map in tokenizer_config.json": ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["t.T", None]}}),
    "auto_map in vision/config.json": ("vision/config.json", {"deep": [{"er": {"auto_map": {"A": "b.C"}}}]}),
    "trust_remote_code in config.json": ("config.json", {"inner": {"trust_remote_code": True}}),
    "_attn_implementation_internal in config.json": ("config.json", {"_attn_implementation_internal": "evil/kernels"}),
    "custom_generate/generate.py": ("custom_generate/generate.py", {}),
    "custom_pipelines in config.json": ("config.json", {"custom_pipelines": {"p": {"impl": "p.P"}}}),
    "none": ("config.json", {"auto_map": {}, "trust_remote_code": False, "attn_implementation": "sdpa"}),
}


@pytest.mark.parametrize("found", CODE)
def test_code_is_found(make_spec: Any, tmp_path: Path, found: str) -> None:
    """Whatever names code to be run is found, however deep; the spec must trust and allow it, not only one of them."""
    name, value = CODE[found]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(json.dumps(value))
    assert remote_code(Snapshot(folder=tmp_path)) == found
    spec = spec_for(make_spec, name=str(tmp_path), revision=None)
    both = replace(spec, model=replace(spec.model, trust_remote_code=True, allow_remote_code=True))
    assert loaded_files(both, {}, {})["snapshot.remote_code"] == found
    half = replace(spec, model=replace(spec.model, trust_remote_code=True))
    for one in (spec, half) if found != "none" else ():
        for check in (checked_environment, loaded_files):
            with pytest.raises(InfraError, match=name.rpartition("/")[2]) as caught:
                check(one, {}, {})
            assert caught.value.reason == "remote-code-refused"
            assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "raw", [b"{", b"[" * 200_000, b"\xff\xfe", b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"], ids=range(4)
)
def test_what_cannot_be_read_is_not_trusted(tmp_path: Path, raw: bytes) -> None:
    """A config that is no JSON, or too deep, counts as one that names code; it costs no time."""
    (tmp_path / "config.json").write_bytes(raw)
    began_s = time.monotonic()
    assert remote_code(Snapshot(folder=tmp_path)).startswith("something unreadable")
    assert time.monotonic() - began_s < 5
