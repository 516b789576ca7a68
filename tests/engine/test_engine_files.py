"""The shipped engine files: each is whole, and what it reads back is where the real server tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatekit.engine.versions import version_key
from gatekit.records.canonical import to_plain
from gatekit.records.run import _LATER
from gatekit.records.spec import Engine, EngineKind, Refuses
from gatekit.resources import conf_dir
from gatekit.run.effective import metric_values
from gatekit.run.server_info import described, settings
from gatekit.spec.resolve import resolve

LAUNCHED = ("llamacpp", "sglang", "transformers", "vllm")
MANAGED = {"host", "port"}


def engine(name: str) -> Engine:
    model = {"llamacpp": "tiny_gsm", "sglang": "inkling_small_nvfp4", "vllm": "diffusiongemma_fp8"}
    if name == "transformers":
        more = ("model=laguna_int4", "engine=transformers", "hw=b200", "engine.enforce_eager=false")
        return resolve((*more, "engine.max_model_len=null"), dirs=(conf_dir(),)).engine
    hw = {"sglang": "b200x4", "vllm": "h100x2"}.get(name, "cpu")
    return resolve((f"model={model[name]}", f"hw={hw}"), dirs=(conf_dir(),)).engine


@pytest.mark.parametrize("name", LAUNCHED)
def test_each_is_whole(name: str) -> None:
    """A launched engine names its command, how it is installed, its address, its health, and true advisories."""
    found = engine(name)
    assert (found.name, found.kind) == (name, EngineKind.LAUNCH)
    assert found.command
    assert found.install
    assert (found.flags or {}).keys() >= MANAGED
    assert found.health_path == "/health"
    for advisory in found.advisories:
        below, since = version_key(advisory.below), version_key(advisory.since or "0")
        assert below is not None
        assert since is not None
        assert since < below
        assert advisory.id.startswith("CVE-")
        assert advisory.link.startswith(("https://github.com/", "https://nvd.nist.gov/"))


def test_the_advisories_that_refuse() -> None:
    """vLLM's faults that run a model's code, or that of another revision, refuse it; SGLang's only warn."""
    refusing = {one.id for one in engine("vllm").advisories if one.refuses is Refuses.REMOTE_CODE}
    assert refusing == {"CVE-2026-22807", "CVE-2026-27893", "CVE-2026-47155"}
    assert {one.refuses for one in engine("sglang").advisories} == {Refuses.NEVER}


def sample(shared: Path, server: str, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((shared / "engine_samples" / server / f"{name}.json").read_text())
    return found


def test_sglang_tells_all_of_it(shared: Path) -> None:
    """Every path of the file is in what the real server answers, on the route that the file asks."""
    found = engine("sglang")
    answer = sample(shared, "sglang", "get_server_info")
    assert answer["request"]["path"] == found.info_path == found.version_path  # type: ignore[index]  # of a sample
    data = answer["json"]
    assert isinstance(data, dict)
    told = settings(data, found.effective or {})
    assert told.keys() == (found.effective or {}).keys()
    assert (told["attention_backend"], told["quantization"], told["speculative"]) == ("torch_native", "none", "none")
    assert data[found.version_key] == "0.5.23"


def test_llamacpp_tells_all_of_it(shared: Path) -> None:
    """The same of llama-server, whose metrics count drafted tokens."""
    found = engine("llamacpp")
    data = sample(shared, "llama_server", "props")["json"]
    assert isinstance(data, dict)
    told = settings(data, found.effective or {})
    assert (told.pop("model_path"), told) == (data["model_path"], {"max_model_len": "2048", "quantization": "Q4_1"})
    assert described(data, found.info_keys).keys() == set(found.info_keys)
    text = sample(shared, "llama_server", "metrics_after")["text"]
    assert isinstance(text, str)
    assert metric_values(text, found.metrics or {}) == {"speculative_drafted": "0", "speculative_accepted": "0"}


def test_every_new_key_can_be_left_out() -> None:
    """Keys of an engine that came later have defaults, and a record is written without them: old digests hold."""
    plain = to_plain(Engine(name="e", kind=EngineKind.SIM, env={}))
    assert {"quantization", "pass_env", "effective", "log_values", "metrics", "advisories"} <= set(_LATER["engine"])
    assert set(_LATER["engine"]) <= plain.keys()
