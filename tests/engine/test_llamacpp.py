"""llama.cpp's server as an engine: its command line, its program, and the weights it is given."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.argv import server_argv
from gatekit.engine.launched import check_machine
from gatekit.engine.program import find_program
from gatekit.engine.serve import check
from gatekit.engine.weights import served_weights
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import count
from gatekit.records.canonical import digest, to_plain
from gatekit.records.run import Comparability, Dataset, RunRecord, record_from_plain, record_to_plain
from gatekit.records.spec import Engine, EngineKind, Model, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.resources import conf_dir, weights_file
from gatekit.run.server_info import described
from gatekit.spec.resolve import resolve

PINNED = "89aef56eb8cf73a92f685fdc29eaf0c25672480ae786bed63caea008d00d4abe"


def tiny(*overrides: str) -> Spec:
    return resolve(("model=tiny_gsm", *overrides), dirs=(conf_dir(),))


def program(folder: Path, *parts: str) -> Path:
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def packaged(place: str | None) -> Engine:
    return Engine(name="llamacpp", kind=EngineKind.LAUNCH, env={}, command=("llama-server",), packaged=place)


def test_the_whole_command() -> None:
    """The shipped engine starts llama-server with an alias, and with one context of max_model_len a slot."""
    argv = server_argv(tiny(), port=8123, served_model="gatekit-x", environ={})
    assert argv == (
        *("llama-server", "-m", str(weights_file("tiny_gsm-f16.gguf")), "--metrics", "--host", "127.0.0.1"),
        *(
            "--port",
            "8123",
            "--alias",
            "gatekit-x",
            "--parallel",
            "16",
            "--ctx-size",
            "16384",
            "--seed",
            "0",
            "--cache-ram",
            "0",
        ),
    )


def test_the_context_grows_with_the_concurrency() -> None:
    """A server that shares its context among slots gets max_model_len for each request in flight."""
    argv = server_argv(tiny("client.concurrency=40", "engine.max_model_len=300"), port=1, served_model="s", environ={})
    assert argv[argv.index("--parallel") + 1] == "40"
    assert argv[argv.index("--ctx-size") + 1] == "12000"


def test_no_more_slots_than_the_server_has() -> None:
    """llama-server refuses to start with more than 256 slots: requests beyond them wait inside it."""
    argv = server_argv(tiny("client.concurrency=300"), port=1, served_model="s", environ={})
    assert argv[argv.index("--parallel") + 1] == "256"
    assert argv[argv.index("--ctx-size") + 1] == str(256 * 1024)


def test_a_shared_context_without_a_size() -> None:
    """Without max_model_len a slot would get a share of llama.cpp's default, too little for a prompt: refused."""
    with pytest.raises(ConfigError) as caught:
        check(tiny("engine.max_model_len=null"), {"PATH": ""})
    assert caught.value.reason == "context-missing"


def test_the_program_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A llama-server that the user has on PATH is used before the one of a package."""
    own = program(tmp_path, "bin", "llama-server")
    inside = program(tmp_path, "site", "some_package", "bin", "llama-server")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    engine = packaged("some_package/bin/llama-server")
    assert find_program(engine, str(own.parent)) == str(own)
    assert find_program(engine, str(tmp_path)) == str(inside)
    assert find_program(packaged(None), str(tmp_path)) is None


def test_the_working_directory_brings_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout that holds a folder called like the package does not get its program started."""
    program(tmp_path, "some_package", "bin", "llama-server")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert find_program(packaged("some_package/bin/llama-server"), str(tmp_path)) is None


def test_without_the_program(tmp_path: Path) -> None:
    """Where llama-server is nowhere, the error is INFRA and names the command that installs it."""
    spec = tiny("engine.packaged=some_package/bin/llama-server")
    with pytest.raises(InfraError, match="llama-server") as caught:
        check_machine(spec, {"PATH": str(tmp_path)})
    assert caught.value.reason == "engine-not-installed"
    assert "pip install 'gatekit[demo]'" in str(caught.value.hint)


@pytest.mark.parametrize("place", ["/bin/sh", "../x/llama-server", "a/../../x", "llama-server", "a//b"])
def test_a_packaged_program_stays_in_its_package(place: str) -> None:
    """engine.packaged names a file below a package: no absolute path and no way out."""
    with pytest.raises(ConfigError, match="packaged"):
        tiny(f"engine.packaged={place}")


def test_the_shipped_weights_are_the_pinned_ones() -> None:
    """The file that gatekit ships is the one that its model file pins, and the record names its digest."""
    spec = tiny()
    assert spec.model.sha256 == PINNED
    assert hashlib.sha256(weights_file(spec.model.shipped or "").read_bytes()).hexdigest() == PINNED
    assert served_weights(spec, {}) == {"weights_sha256": PINNED}


def test_other_weights_than_the_pinned_ones(tmp_path: Path, make_spec: Any) -> None:
    """A file that is not the pinned one, or is not there, is INFRA before a server starts."""
    path = tmp_path / "model.gguf"
    model = Model(name=str(path), sha256=PINNED, server_args={}, server_env={})
    with pytest.raises(InfraError) as caught:
        served_weights(make_spec(model=model), {})
    assert caught.value.reason == "weights-unreadable"
    path.write_bytes(b"GGUF")
    with pytest.raises(InfraError) as caught:
        served_weights(make_spec(model=model), {})
    assert caught.value.reason == "weights-digest-mismatch"


def test_weights_put_in_their_place(tmp_path: Path) -> None:
    """What model.path_env names is served as it is, under the same key, and the record tells its digest."""
    path = tmp_path / "other.gguf"
    path.write_bytes(b"other")
    found = {"TINY_GSM_PATH": str(path)}
    assert served_weights(tiny(), found) == {"weights_sha256": hashlib.sha256(b"other").hexdigest()}
    assert str(path) in server_argv(tiny(), port=1, served_model="s", environ=found)
    assert served_weights(tiny(), {"TINY_GSM_PATH": str(tmp_path)}) == {}


def test_a_hub_id_has_no_digest(make_spec: Any) -> None:
    """A model that is no file here is left to its server."""
    assert served_weights(make_spec(), dict(os.environ)) == {}


def test_what_the_server_says_of_itself() -> None:
    """Of the info route the named values are kept, long ones as digests, control characters spelled out."""
    said = {"a": {"n": 3}, "text": "x\x1b[31m", "long": "y" * 201, "list": [1], "none": None, "flag": True}
    assert described(said, ("a.n", "text", "long", "list", "none", "flag", "a.n.deeper", "missing")) == {
        "a.n": "3",
        "text": "x\\x1b[31m",
        "long": digest("y" * 201),
        "list": digest([1]),
        "flag": "True",
    }


def test_records_from_before_these_keys(make_spec: Any) -> None:
    """A record whose spec lacks the keys that came later reads, and is written again with the digest it had."""
    record = RunRecord(
        run_id="r1",
        gatekit_version="0.1.0",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:01:00Z",
        spec=make_spec(),
        dataset=Dataset(name="gsm8k", digests={}, question_ids=(), shot_ids=()),
        comparability=Comparability(key="k", fields={}),
        served=None,
        counts=count(()),
        observations=(),
        verdict=Verdict(outcome=Outcome.PASS, reason_code="passed", reason="fine"),
    )
    plain = record_to_plain(record_from_plain(record_to_plain(record)))  # a whole number of seconds becomes a float
    later = (("model", "sha256"), ("model", "shipped"), ("engine", "packaged"), ("engine", "info_keys"))
    for section, name in later:
        assert name not in plain["spec"][section]
        assert name in to_plain(record)["spec"][section]
    assert record_to_plain(record_from_plain(plain)) == plain
    record = record_from_plain(plain)
    kept = record_to_plain(replace(record, spec=replace(record.spec, engine=tiny().engine, model=tiny().model)))
    assert all(name in kept["spec"][section] for section, name in later)
    assert record_to_plain(record_from_plain(json.loads(json.dumps(kept)))) == kept
