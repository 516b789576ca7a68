"""A model's files as they are looked at: all of them or said not to be, never waited for, and the same to the end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.remote_code import remote_code
from gatekit.engine.snapshot import Snapshot, file_digests, looked_at
from gatekit.engine.supply import Supply
from gatekit.engine.weights import served_weights
from gatekit.errors import InfraError
from gatekit.records.spec import EngineKind, Model, Spec

AUTO_MAP = json.dumps({"auto_map": {"AutoModel": "x.M"}})


def fill(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"0{number}.txt").touch()


def test_a_config_behind_many_files(tmp_path: Path) -> None:
    """However many files stand before it, a config is read."""
    fill(tmp_path, 2000)
    (tmp_path / "config.json").write_text(AUTO_MAP)
    assert remote_code(Snapshot(folder=tmp_path)) == "auto_map in config.json"


def test_more_files_than_are_looked_at(tmp_path: Path) -> None:
    """A folder of which not all was looked at counts as one that brings code; its config is read all the same."""
    (tmp_path / "config.json").write_text("{}")
    fill(tmp_path, 10_000)
    assert remote_code(Snapshot(folder=tmp_path)) == "something not looked at: more than 10,000 files"
    (tmp_path / "config.json").write_text(AUTO_MAP)
    assert remote_code(Snapshot(folder=tmp_path)) == "auto_map in config.json"


def test_more_folders_than_are_entered(tmp_path: Path) -> None:
    """A folder below eight others is not entered, and counts as one that brings code."""
    (tmp_path / "config.json").write_text("{}")
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    found = remote_code(Snapshot(folder=tmp_path))
    assert found == "something not looked at: files in a/b/c/d/e/f/g/h (deeper than 8 folders)"


def test_links_to_folders_are_followed(tmp_path: Path) -> None:
    """A folder behind a link is searched by its name here; circles and links that multiply come to an end."""
    model, other = tmp_path / "model", tmp_path / "other"
    for folder in (model, other):
        folder.mkdir()
    (other / "generate.py").write_text("evil()")
    (model / "config.json").write_text("{}")
    (model / "self").symlink_to(".")
    (model / "up").symlink_to(tmp_path)
    (other / "back").symlink_to(model)
    assert remote_code(Snapshot(folder=model)) == "none"
    (model / "custom_generate").symlink_to(other)
    assert remote_code(Snapshot(folder=model)) == "custom_generate/generate.py"
    (model / "custom_generate").unlink()
    (model / "vision").symlink_to(other)
    (other / "config.json").write_text(AUTO_MAP)
    assert remote_code(Snapshot(folder=model)).startswith("auto_map in ")
    (other / "config.json").unlink()
    for level in range(9):
        (tmp_path / f"level{level}").mkdir()
        for twin in range(9):
            (tmp_path / f"level{level}" / f"to{twin}").symlink_to(tmp_path / f"level{level + 1}")
    (tmp_path / "level9").mkdir()
    began_s = time.monotonic()
    assert looked_at(Snapshot(folder=tmp_path / "level0")).beyond is not None
    assert time.monotonic() - began_s < 20


def test_hidden_folders_are_none_of_the_model(tmp_path: Path) -> None:
    """What a version control or a cache keeps beside the model is loaded by nobody."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.json").write_text(AUTO_MAP)
    assert remote_code(Snapshot(folder=tmp_path)) == "none"


def test_a_pipe_is_never_opened(make_spec: Any, tmp_path: Path) -> None:
    """A pipe in the place of a config, a weights file or a reference of the cache costs no time and is not trusted."""
    began_s = time.monotonic()
    os.mkfifo(tmp_path / "config.json")
    os.mkfifo(tmp_path / "model.safetensors")
    assert "not a regular file" in remote_code(Snapshot(folder=tmp_path))
    assert file_digests(Snapshot(folder=tmp_path))["snapshot.file.model.safetensors"] == "no regular file"
    refs = tmp_path / "models--org--m" / "refs"
    refs.mkdir(parents=True)
    os.mkfifo(refs / "main")
    spec = spec_for(make_spec, "org/m")
    assert Supply(spec, {"HF_HUB_CACHE": str(tmp_path)}, {}).loaded() == {}
    assert served_weights(spec_for(make_spec, str(tmp_path / "model.safetensors")), {}) == {}
    assert time.monotonic() - began_s < 5


def spec_for(make_spec: Any, name: str) -> Spec:
    model = Model(name=name, server_args={}, server_env={})
    spec: Spec = make_spec(name="vllm", kind=EngineKind.LAUNCH, command=("vllm",), model=model)
    return spec


def rewritten(path: Path) -> None:
    """Other bytes, as many of them, at the same times, as far as times can be set."""
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def linked_anew(path: Path) -> None:
    path.rename(path.with_name("first"))
    path.symlink_to("first")


CHANGES: tuple[Callable[[Path], None], ...] = (rewritten, replaced, linked_anew, Path.unlink)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["w.gguf", "config.json", "vision/model.safetensors", "modeling.py", "vocab.txt"])
def test_a_changed_file_is_noticed(make_spec: Any, tmp_path: Path, name: str, change: Callable[[Path], None]) -> None:
    """A file that was written, replaced, linked anew or removed, while it was loaded or served, is INFRA."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
    supply = Supply(spec_for(make_spec, str(path if name == "w.gguf" else tmp_path)), {}, {})
    change(path)
    with pytest.raises(InfraError, match="while they were loaded") as caught:
        supply.loaded()
    assert (caught.value.reason, str(path) in caught.value.message) == ("weights-changed", True)
    path.unlink(missing_ok=True)
    path.write_text("{}")
    time.sleep(0.02)
    supply = Supply(spec_for(make_spec, str(path if name == "w.gguf" else tmp_path)), {}, {})
    supply.loaded()
    supply.refuse_changed()
    change(path)
    with pytest.raises(InfraError, match="while they were served"):
        supply.refuse_changed()


def test_what_no_server_loads_may_change(make_spec: Any, tmp_path: Path) -> None:
    """A log beside the model, what the server fetches while it loads, and another time of reading are no change."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "train.log").write_text("a")
    supply = Supply(spec_for(make_spec, str(tmp_path)), {}, {})
    (tmp_path / "train.log").write_text("b")
    (tmp_path / "model.safetensors").write_text("fetched")
    os.utime(tmp_path, (1, 1))
    assert supply.loaded()["snapshot.remote_code"] == "none"
    (tmp_path / "config.json").read_text()
    supply.refuse_changed()
    (tmp_path / "model.safetensors").write_text("changed")
    with pytest.raises(InfraError, match=r"model\.safetensors"):
        supply.refuse_changed()


def test_a_newer_commit_in_the_cache(make_spec: Any, tmp_path: Path) -> None:
    """An unpinned hub id whose server fetches a newer commit while it loads has not changed under it."""
    repository = tmp_path / "models--org--m"
    (repository / "refs").mkdir(parents=True)
    for commit in ("a" * 40, "b" * 40):
        (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "snapshots" / commit / "config.json").write_text("{}")
    (repository / "refs" / "main").write_text("a" * 40)
    supply = Supply(spec_for(make_spec, "org/m"), {"HF_HUB_CACHE": str(tmp_path)}, {})
    (repository / "refs" / "main").write_text("b" * 40)
    assert supply.loaded()["snapshot.commit"] == "b" * 40
    supply.refuse_changed()
