"""What is served is what was checked: files that change, that cannot be read, and a server that loads others."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from command_line import Ran, here, record
from small_server import install, run

SCRIPT = Path(__file__).resolve().parents[1] / "small_engine.py"
# The path of the weights is the second word behind the program.
SWAP = "open(sys.argv[2], 'w').write('other')"


def weights(folder: Path) -> tuple[Path, str]:
    """A file of weights, and the arguments that pin it."""
    path = folder / "w.gguf"
    path.write_text("good")
    return path, f"model.sha256={hashlib.sha256(b'good').hexdigest()}"


def infra(ran: Ran) -> str:
    """Why there is no verdict."""
    assert ran.code == 3, ran.out + ran.err
    reason: str = ran.data["reason_code"]
    return reason


def test_pinned_weights_are_swapped_before_they_are_loaded(tmp_path: Path) -> None:
    """Weights that were hashed and then written anew, before the server opened them, are not the pinned ones."""
    path, pin = weights(tmp_path)
    ran = run(tmp_path, f"model.name={path}", pin, extra=install(tmp_path, before=SWAP))
    assert infra(ran) == "weights-changed"
    assert str(path) in ran.data["reason"]


def test_weights_are_swapped_while_they_are_served(tmp_path: Path) -> None:
    """Weights that change while questions are asked, pinned or not, give no verdict, and their answers are not used."""
    path, _ = weights(tmp_path)
    extra = install(tmp_path, on_post=f"if len(POSTS) == 20:\n    {SWAP}")
    ran = run(tmp_path, f"model.name={path}", "--run-id", "r1", extra=extra)
    assert infra(ran) == "weights-changed"
    again = run(tmp_path, f"model.name={path}", "--resume", "r1", extra=extra)
    assert (again.code, "[run-finished]" in again.err) == (2, True), again.err


def test_a_folder_changes_while_it_is_loaded(tmp_path: Path) -> None:
    """A config that the server or anybody else rewrites after it was searched for code is a change."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    swap = "open(sys.argv[2] + '/config.json', 'w').write('{ }')"
    ran = run(tmp_path, f"model.name={model}", extra=install(tmp_path, before=swap))
    assert infra(ran) == "weights-changed"


def test_weights_that_stay(tmp_path: Path) -> None:
    """Weights that nobody touches pass, with their digest in the record."""
    path, pin = weights(tmp_path)
    ran = run(tmp_path, f"model.name={path}", pin, extra=install(tmp_path))
    assert ran.code == 0, ran.err
    assert record(ran, tmp_path)["served"]["details"]["weights_sha256"] in pin


@pytest.mark.parametrize("when", ["before", "late"])
def test_a_pipe_among_the_configs(tmp_path: Path, when: str) -> None:
    """A pipe that stands for a config, from the start or once the server runs, is not waited for and not trusted."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    if when == "before":
        os.mkfifo(model / "z_config.json")
    make = "os.mkfifo(sys.argv[2] + '/z_config.json')" if when == "late" else "pass"
    began_s = time.monotonic()
    ran = run(tmp_path, f"model.name={model}", extra=install(tmp_path, before=make))
    assert infra(ran) == "remote-code-refused"
    assert "not a regular file" in ran.data["reason"]
    assert time.monotonic() - began_s < 60


def small(folder: Path, told: Path, *more: str) -> Ran:
    """A run on an engine that tells where its weights are."""
    info = json.dumps({"model_path": str(told)})
    engine = folder / "team" / "engine" / "small.yaml"
    engine.parent.mkdir(parents=True, exist_ok=True)
    engine.write_text(
        "name: small\nkind: launch\nflags: {port: --port, served_model_name: --served-model-name}\n"
        f"command: [{sys.executable}, {SCRIPT}, '{{model}}']\nhealth_path: /health\ninfo_path: /info\n"
        f"effective: {{model_path: model_path}}\nenv: {{SMALL_INFO: {json.dumps(info)}}}\n"
    )
    quick = ("hw=cpu", "task.n=20", "gate=static_floor", "gate.floor=0.8", "--json")
    return here(folder, "run", "--config-dir", str(folder / "team"), "engine=small", *quick, *more)


def test_a_server_that_tells_of_other_weights(tmp_path: Path) -> None:
    """A server that names another file than it was given is refused; a link to it is the same file."""
    path, pin = weights(tmp_path)
    other, link = tmp_path / "other.gguf", tmp_path / "link.gguf"
    other.write_text("bad")
    link.symlink_to(path)
    ran = small(tmp_path, other, f"model.name={path}", pin)
    assert infra(ran) == "wrong-weights"
    assert str(path) in ran.data["reason"]
    assert str(other) in ran.data["reason"]
    for same in (path, link):
        ran = small(tmp_path, same, f"model.name={path}", pin)
        assert ran.code == 0, ran.err
    ran = small(tmp_path, tmp_path / "cache" / "x", "model.name=org/on-the-hub")
    assert ran.code == 0, ran.err


def test_weights_by_an_argument(tmp_path: Path) -> None:
    """Two weights on one command line are a mistake: the record would name the pinned ones."""
    path, _ = weights(tmp_path)
    for option in ("-m", "--model"):
        ran = here(tmp_path, "run", "model=tiny_gsm", f"engine.args=['{option}', {path}]")
        assert (ran.code, "[option-has-key]" in ran.err) == (2, True)


@pytest.mark.parametrize("option", ["--trust_remote_code", "--trust-remote-code", "--trust"])
def test_remote_code_by_an_argument(tmp_path: Path, option: str) -> None:
    """Code of a model's is allowed by the model's keys alone, whatever the option's spelling, for `plan` too."""
    for command in ("run", "plan"):
        ran = here(tmp_path, command, "engine=vllm", "hw=cpu", f"engine.args=['{option}']", "model.name=some/hub-id")
        assert (ran.code, "[option-has-key]" in ran.err) == (2, True)
