"""The command line of a launched engine."""

from __future__ import annotations

from typing import Any

import pytest

from gatekit.engine.argv import server_argv
from gatekit.errors import ConfigError
from gatekit.records.spec import EngineKind, Model, Spec

VLLM: dict[str, Any] = {
    "name": "vllm",
    "kind": EngineKind.LAUNCH,
    "command": ("vllm", "serve", "{model}"),
    "flags": {
        "host": "--host",
        "port": "--port",
        "served_model_name": "--served-model-name",
        "revision": "--revision",
        "tensor_parallel_size": "--tensor-parallel-size",
        "data_parallel_size": "--data-parallel-size",
        "expert_parallel": "--enable-expert-parallel",
        "max_model_len": "--max-model-len",
        "kv_cache_dtype": "--kv-cache-dtype",
        "seed": "--seed",
        "enforce_eager": "--enforce-eager",
        "trust_remote_code": "--trust-remote-code",
    },
}


def laguna(**fields: Any) -> Model:
    return Model(
        **{
            "name": "poolside/Laguna-XS-2.1-INT4",
            "quantization": "int4",
            "trust_remote_code": True,
            "server_args": {},
            "server_env": {},
            **fields,
        }
    )


def argv(spec: Spec, **environ: str) -> str:
    return " ".join(server_argv(spec, port=8123, served_model="gatekit-m", environ=environ))


def test_vllm_for_laguna_int4(make_spec: Any) -> None:
    """The nightly gate's command is exactly the one its maintainers type, with the managed flags added."""
    spec = make_spec(model=laguna(), **VLLM, max_model_len=4096, enforce_eager=True)
    assert argv(spec) == (
        "vllm serve poolside/Laguna-XS-2.1-INT4 --host 127.0.0.1 --port 8123 --served-model-name gatekit-m"
        " --max-model-len 4096 --enforce-eager --trust-remote-code"
    )


def test_defaults_are_left_out(make_spec: Any) -> None:
    """Knobs at their default add nothing to the command."""
    spec = make_spec(model=laguna(trust_remote_code=False), **VLLM)
    assert argv(spec) == (
        "vllm serve poolside/Laguna-XS-2.1-INT4 --host 127.0.0.1 --port 8123 --served-model-name gatekit-m"
    )


def test_every_knob_in_the_order_of_flags(make_spec: Any) -> None:
    """Knobs come in the order of engine.flags, then the model's args for this engine, then the engine's."""
    model = laguna(revision="abc", server_args={"vllm": ("--page-size", "128"), "sglang": ("--other",)})
    spec = make_spec(
        model=model,
        **VLLM,
        tensor_parallel_size=2,
        data_parallel_size=4,
        expert_parallel=True,
        max_model_len=64,
        enforce_eager=True,
        kv_cache_dtype="fp8",
        seed=0,
        args=("--last; touch PWN",),
    )
    assert server_argv(spec, port=1, served_model="s", environ={})[9:] == (
        *("--revision", "abc", "--tensor-parallel-size", "2", "--data-parallel-size", "4"),
        *("--enable-expert-parallel", "--max-model-len", "64", "--kv-cache-dtype", "fp8", "--seed", "0"),
        *("--enforce-eager", "--trust-remote-code", "--page-size", "128", "--last; touch PWN"),
    )


def test_another_path_for_the_model(make_spec: Any) -> None:
    """A set path variable replaces the hub id, and its revision with it; an empty one does not."""
    spec = make_spec(model=laguna(path_env="TEST_MODEL_PATH", revision="abc"), **VLLM)
    assert argv(spec, TEST_MODEL_PATH="/models/l").startswith("vllm serve /models/l --host")
    assert "--revision" not in argv(spec, TEST_MODEL_PATH="/models/l")
    assert "Laguna-XS-2.1-INT4" in argv(spec, TEST_MODEL_PATH="")
    assert "--revision abc" in argv(spec)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ({**VLLM, "command": None}, "engine-command"),
        ({**VLLM, "command": ()}, "engine-command"),
        ({**VLLM, "flags": {"hots": "--host"}}, "unknown-knob"),
    ],
)
def test_refused_engines(make_spec: Any, engine: dict[str, Any], reason: str) -> None:
    """An engine without a command or with an unknown knob is the user's mistake."""
    with pytest.raises(ConfigError) as caught:
        argv(make_spec(model=laguna(), **engine))
    assert caught.value.reason == reason


def test_a_model_that_looks_like_an_option(make_spec: Any) -> None:
    """A model name or path that a server would read as an option is refused, and its source named."""
    with pytest.raises(ConfigError, match=r"model\.name"):
        argv(make_spec(model=laguna(name="--allow-everything"), **VLLM))
    with pytest.raises(ConfigError, match="TEST_MODEL_PATH"):
        argv(make_spec(model=laguna(path_env="TEST_MODEL_PATH"), **VLLM), TEST_MODEL_PATH="-x")
