"""Who is asked and what is really on: engines as files, what they get, say of themselves, and are refused for."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from command_line import Ran, attached, here, record
from raw_server import Request, Start, completion, http
from right_answers import asked
from small_team import SCRIPT, run_small, write_engine

SECRETS = {
    "HF_TOKEN": "hf_theHubsOwn",
    "GITHUB_TOKEN": "github-secret",
    "PGPASSWORD": "history-secret",
    "BUILDKITE_AGENT_ACCESS_TOKEN": "agent-secret",
    "GATEKIT_HISTORY_URL": "postgresql://u@h/d",
}


def test_a_new_engine_is_a_new_file(tmp_path: Path) -> None:
    """A file in a team's folder is a whole engine: served, judged, its argv, version and settings in the record."""
    ran = run_small(tmp_path, "engine.max_model_len=512")
    assert (ran.code, ran.data["verdict"]) == (0, "PASS"), ran.err
    stored = record(ran, tmp_path)
    served, details = stored["served"], stored["served"]["details"]
    dump = json.loads((tmp_path / "dump.json").read_text())
    assert dump["argv"][1:3] + dump["argv"][4:] == [
        "org/small",
        "--port",
        "--served-model-name",
        served["model"],
        "--context",
        "512",
    ]
    assert details["command"].split()[2:] == dump["argv"][1:]
    assert details["listener"] == "the started server"
    assert (served["engine"], served["build"], details["flavour"]) == ("small", "small-1.2.3", "mild")
    told = {name.removeprefix("effective."): value for name, value in details.items() if name.startswith("effective.")}
    assert told == {
        "max_model_len": "512",
        "kv_cache_dtype": "auto",
        "speculative_drafted": "50",
        "speculative_accepted": "20",
        "speculative_acceptance": "0.4",
    }
    assert [line for line in stored["verdict"]["warnings"] if "CVE" in line] == [
        "small 1.2.3 has CVE-2020-1: it does too much (mended in 1.3); see https://example.org/1",
        "small 1.2.3 has CVE-2020-2: it runs code (mended in 1.3); see https://example.org/2",
    ]


def test_the_environment_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P18: a launched server gets no secret of the caller, not even the hub's, unless the spec asks for it by name."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert run_small(tmp_path).code == 0
    seen = json.loads((tmp_path / "dump.json").read_text())["environ"]
    assert not set(SECRETS) & set(seen)
    assert not set(SECRETS.values()) & set(seen.values())
    assert run_small(tmp_path, pass_env=["HF_TOKEN", "NOT_SET"]).code == 0
    seen = json.loads((tmp_path / "dump.json").read_text())["environ"]
    assert {name: seen.get(name) for name in (*SECRETS, "NOT_SET")} == dict.fromkeys((*SECRETS, "NOT_SET")) | {
        "HF_TOKEN": SECRETS["HF_TOKEN"]
    }
    assert not any(
        SECRETS["HF_TOKEN"] in path.read_text(errors="replace")
        for path in tmp_path.rglob("*.json")
        if path.name == "record.json"
    )


def test_a_pinned_snapshot_is_served_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pinned revision whole in the cache the server is to fetch nothing; its files are in the record."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "hf" / "hub" / "models--org--small" / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_text("w")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    ran = run_small(tmp_path, f"model.revision={commit}")
    assert ran.code == 0, ran.err
    dump = json.loads((tmp_path / "dump.json").read_text())
    assert (dump["environ"]["HF_HUB_OFFLINE"], dump["argv"][-2:]) == ("1", ["--revision", commit])
    details = record(ran, tmp_path)["served"]["details"]
    assert (details["snapshot.commit"], details["snapshot.files"]) == (commit, "2")
    (folder / "model.safetensors").unlink()
    assert run_small(tmp_path, f"model.revision={commit}").code == 0
    assert "HF_HUB_OFFLINE" not in json.loads((tmp_path / "dump.json").read_text())["environ"]


def test_a_setting_that_is_not_in_effect(tmp_path: Path) -> None:
    """What was asked for and is not on is a warning, and by option an INFRA failure before the first question."""
    asked = ("engine.max_model_len=1024", "engine.kv_cache_dtype=fp8")
    told = "asked for max_model_len=1024, in effect: 512"
    ran = run_small(tmp_path, *asked)
    assert ran.code == 0
    warnings = record(ran, tmp_path)["verdict"]["warnings"]
    assert {told, "asked for kv_cache_dtype=fp8, in effect: auto"} <= set(warnings)
    ran = run_small(tmp_path, *asked, "engine.require_effective=true")
    assert (ran.code, ran.data["reason_code"], ran.data["counts"]["lost"]) == (3, "not-effective", 40)
    assert told in ran.data["reason"]
    ran = run_small(tmp_path, "engine.max_model_len=512", "engine.require_effective=true")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("key", "value"), [("engine.seed", 1), ("engine.enforce_eager", True), ("engine.quantization", "fp8")]
)
def test_a_knob_without_a_flag(tmp_path: Path, key: str, value: object) -> None:
    """A setting that the engine cannot spell is a mistake that names both, in `validate` and `run`."""
    model = {"tensor_parallel_size": 1, "seed": None, "enforce_eager": False}
    team = write_engine(tmp_path, model=model)
    assert here(tmp_path, "validate", "--config-dir", str(team)).code == 0
    write_engine(tmp_path, model=model | {key.removeprefix("engine."): value})
    ran = here(tmp_path, "validate", "--config-dir", str(team))
    assert (ran.code, ran.out.count("[knob-not-spelled]")) == (2, 1), ran.err + ran.out
    assert f"{key}: is set, and engine 'small' has no flag for it" in ran.out
    ran = here(tmp_path, "run", "--config-dir", str(team), "model=small_one", "hw=cpu")
    assert (ran.code, ran.err.count("[knob-not-spelled]")) == (2, 1), ran.err


def test_an_advisory_refuses_code_of_the_model(tmp_path: Path) -> None:
    """A version that runs a model's code unasked is refused where the model brings some, before any question."""
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text('{"auto_map": {"AutoModel": "modeling_x.Model"}}')
    allowed = ("model.trust_remote_code=true", "model.allow_remote_code=true", "model.unpinned=a test")
    named = (f"model.name={folder}",)
    ran = run_small(tmp_path, *named)
    assert (ran.code, ran.err.count("[remote-code-refused]")) == (3, 1), ran.err
    assert "auto_map in config.json" in ran.err
    assert not (tmp_path / "dump.json").exists()
    ran = run_small(tmp_path, *named, *allowed)
    assert (ran.code, ran.data["reason_code"], ran.data["counts"]["lost"]) == (3, "version-advisory", 40)
    assert "small 1.2.3 has CVE-2020-2" in ran.data["reason"]
    ran = run_small(tmp_path, *named, *allowed, env={"SMALL_VERSION": "1.3"})
    assert ran.code == 0, ran.err
    details = record(ran, tmp_path)["served"]["details"]
    assert details["snapshot.remote_code"] == "auto_map in config.json"
    assert details["snapshot.file.config.json"].startswith("sha256:")


def test_a_server_that_serves_another_model(tmp_path: Path) -> None:
    """A launched server that lists another name than its own is not asked."""
    ran = run_small(tmp_path, env={"SMALL_NAME": "somebody"})
    assert (ran.code, ran.data["reason_code"]) == (3, "wrong-model")


def fake_vllm(folder: Path) -> Path:
    """A program of that name on PATH which is the small engine."""
    program = folder / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n" + SCRIPT.read_text())
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_vllm_as_it_is_started(tmp_path: Path) -> None:
    """The shipped vllm engine starts exactly its argv, without a shell, and shows the server no secret."""
    program = fake_vllm(tmp_path)
    dump = tmp_path / "dump.json"
    path = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    arguments = ("model=laguna_int4", "hw=cpu", "model.architectures=null", "task=gsm8k_synth", "task.n=40")
    hostile = "engine.args=['--x=$(touch pwned); `touch pwned`']"
    ran = here(
        tmp_path,
        "run",
        *arguments,
        "gate.measured_under=null",
        "--json",
        hostile,
        f"+engine.env.SMALL_DUMP={dump}",
        "+engine.env.SMALL_VERSION=0.32.0",
        "+engine.env.SMALL_LOG='config: model=x, dtype=torch.bfloat16, max_seq_len=4096, quantization=None, seed=0, x'",
        extra=SECRETS | path,
    )
    assert ran.code == 0, ran.err + ran.out
    stored = record(ran, tmp_path)
    served = stored["served"]
    assert served["details"]["effective.dtype"] == "torch.bfloat16"
    assert "asked for quantization=int4, in effect: None" in stored["verdict"]["warnings"]
    seen = json.loads(dump.read_text())
    port = re.search(r":(\d+)$", served["base_url"])
    assert port
    assert seen["argv"] == [
        *(str(program), "serve", "poolside/Laguna-XS-2.1-INT4", "--host", "127.0.0.1", "--port", port[1]),
        *("--served-model-name", served["model"], "--max-model-len", "4096", "--enforce-eager", "--seed", "0"),
        *("--trust-remote-code", "--x=$(touch pwned); `touch pwned`"),
    ]
    assert served["build"] == "vllm-0.32.0"
    assert not set(SECRETS) & set(seen["environ"])
    assert not set(SECRETS.values()) & set(seen["environ"].values())
    assert seen["environ"]["VLLM_NO_USAGE_STATS"] == "1"
    assert len(seen["environ"]["VLLM_API_KEY"]) > 20
    assert not list(tmp_path.rglob("pwned"))


def attach(folder: Path, url: str, *more: str) -> Ran:
    return here(folder, "run", *attached(url, *more), "--json")


def test_another_model_is_listed(raw_server: Start, tmp_path: Path) -> None:
    """E07: both names are told, and not one question of the dataset is sent."""
    server = raw_server(
        lambda request: http(200, {"data": [{"id": "other"}]} if "models" in request.path else completion("#### 2"))
    )
    ran = attach(tmp_path, server.url)
    assert (ran.code, ran.data["reason_code"], asked(server)) == (3, "wrong-model", 0)
    assert "expected model m" in ran.data["reason"]
    assert "serves other" in ran.data["reason"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_is_wanted(raw_server: Start, tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """E08: asked once, not again; the variable that holds the key is named."""

    def locked(request: Request) -> bytes:
        return http(status, {"error": {"message": "no"}}) if request.path.startswith("/v1") else http(200, "")

    server = raw_server(locked)
    monkeypatch.setenv("MY_KEY", "k" * 12)
    ran = attach(tmp_path, server.url, "engine.api_key_env=MY_KEY")
    assert (ran.code, ran.data["reason_code"]) == (3, "unauthorized")
    assert "MY_KEY" in ran.data["hint"]
    assert "k" * 12 not in ran.out + ran.err
    assert sum(path.startswith("/v1") for path in server.paths()) == 1


def test_the_other_route_only(raw_server: Start, tmp_path: Path) -> None:
    """E09: a server without the chat route is not asked again; the other mode is suggested."""

    def completions_only(request: Request) -> bytes:
        if request.path == "/v1/chat/completions":
            return http(404, {"detail": "Not Found"})
        return http(200, {"data": [{"id": "m"}]} if "models" in request.path else completion("#### 2"))

    server = raw_server(completions_only)
    ran = attach(tmp_path, server.url, "protocol.api=chat")
    assert (ran.code, ran.data["reason_code"], asked(server)) == (3, "not-found", 0)
    assert "protocol.api=completions" in ran.data["hint"]
    assert server.paths().count("/v1/chat/completions") == 1
