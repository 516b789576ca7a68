"""What is really on: read from logs, descriptions and metrics, and held against what was asked for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatekit.errors import InfraError
from gatekit.records.spec import Engine, EngineKind, Model, Spec
from gatekit.resources import conf_dir
from gatekit.run.effective import log_values, metric_values, not_effective, value_in
from gatekit.run.server_info import settings
from gatekit.run.wishes import wishes
from gatekit.spec.resolve import resolve
from spec_builders import spec_of


@pytest.mark.parametrize(
    ("text", "marker", "value"),
    [
        ("a, dtype=torch.bfloat16, b", ", dtype=", "torch.bfloat16"),
        ("kv_cache_dtype=auto, dtype='fp8') x", ", dtype=", "fp8"),
        ("seed=0", "seed=", "0"),
        ("seed=, seed=1]", "seed=", "1"),
        ("Using FLASH_ATTN attention backend out of", "Using {value} attention backend", "FLASH_ATTN"),
        ("Using it. Using X attention backend", "Using {value} attention backend", "X"),
        ("Using 'Y' attention backend", "Using {value} attention backend", "Y"),
        ("nothing", "dtype=", None),
        ("dtype=", "dtype=", None),
        ("dtype=" + "a" * 500, "dtype=", "a" * 120),
        ("dtype=\x1b[31m, b", "dtype=", "\\x1b[31m"),
        ("", "{value}", None),
        ("a.b", ".*{value}", None),
        ("config=Some(method='x', n=1)", "config=", "Some"),
        ("b=2, c=3", "a=\nb=\nc=", "2"),
        ("b=2", "\n\nb=\n", "2"),
        ("b=2", "\n", None),
    ],
)
def test_a_value_in_a_log(text: str, marker: str, value: str | None) -> None:
    """A marker is a plain text: the first word behind it, or between its parts, without quotes and harmless; of several
    lines the first that finds one counts.
    """
    assert value_in(text, marker) == value


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'X'].", "FLASH_ATTN"),
        ("Using AttentionBackendEnum.FLASHINFER backend.", "FLASHINFER"),
        ("Using ROCM_ATTN backend (selected via --attention-backend).", "ROCM_ATTN"),
        ("Using TRITON_ATTN backend out of potential backends: ['TRITON_ATTN'].", "TRITON_ATTN"),
        (
            "Found incompatible backend(s) [A] with decoder. Overriding with B out of potential backends: ['B'].",
            "B",
        ),
        ("Using Flash Attention backend for ViT model.", None),
        ("Using FlashInfer for top-p & top-k sampling.", None),
    ],
)
def test_the_attention_backend_of_vllm(tmp_path: Path, line: str, told: str | None) -> None:
    """Each of vLLM's sentences on the attention backend is read, of CUDA and ROCm, chosen or asked for; no other is."""
    log = tmp_path / "server.log"
    log.write_text(f"(EngineCore pid=9) INFO 11-30 14:29:56 [cuda.py:446] {line}\n", encoding="utf-8")
    assert log_values(log, _vllm_markers()).get("attention_backend") == told


def test_the_speculation_of_vllm(tmp_path: Path) -> None:
    """Which method drafts, and how many tokens, is read from the line in which vLLM describes itself."""
    log = tmp_path / "server.log"
    told = "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=3)"
    log.write_text(f"with config: model='m', speculative_config={told}, tokenizer='m'\n", encoding="utf-8")
    assert log_values(log, _vllm_markers()) == {
        "speculative": "SpeculativeConfig",
        "speculative_method": "ngram",
        "speculative_tokens": "3",
    }


@pytest.mark.parametrize("marker", ["aa", "a{value}b", "a{value}", "{value}a", "a" * 100 + "{value}b"])
def test_no_marker_costs_much(marker: str, tmp_path: Path) -> None:
    """No marker and no log takes long: of a log the first MiB is read, of a marker a thousand places are tried."""
    log = tmp_path / "server.log"
    log.write_bytes(b"a" * 2**23)
    began_s = time.monotonic()
    log_values(log, {f"n{number}": marker for number in range(32)})
    assert time.monotonic() - began_s < 5
    assert log_values(tmp_path / "gone", {"n": marker}) == {}


def _vllm_markers() -> Mapping[str, str]:
    overrides = ("model=tiny_gsm", "engine=vllm", "hw=cpu")
    return resolve(overrides, dirs=(conf_dir(),)).engine.log_values or {}


def test_paths_of_a_description() -> None:
    """A path walks mappings and lists; null is told as none, what is not there is not told."""
    data: dict[str, Any] = {"a": {"b": 1}, "l": [{"x": True}], "n": None, "deep": {"m": {}}}
    paths = {"one": "a.b", "two": "l.0.x", "three": "n", "gone": "a.c", "far": "l.7.x", "odd": "a.b.c", "neg": "l.-1"}
    assert settings(data, paths) == {"one": "1", "two": "True", "three": "none"}


def test_metrics() -> None:
    """Samples of one metric are summed over their labels, whatever those hold; what is no number is left out."""
    text = (
        "# TYPE x:drafted_total counter\n"
        'x:drafted_total{model="a b} 9",engine="0"} 30 1700000000\n'
        "x:drafted_total 10\n"
        'x:drafted_total_created{a="b"} 99\n'
        "x:accepted_total 1e1\n"
        "x:accepted_total NaN\nx:accepted_total\nx:accepted_total{ a\nx:accepted_total word\n"
    )
    names = {"speculative_drafted": "x:drafted_total", "speculative_accepted": "x:accepted_total", "other": "x:other"}
    assert metric_values(text, names) == {
        "speculative_drafted": "40",
        "speculative_accepted": "10",
        "speculative_acceptance": "0.25",
    }
    assert metric_values("x:drafted_total 0\nx:accepted_total 0", names).keys() == {
        "speculative_drafted",
        "speculative_accepted",
    }
    assert metric_values("\n" * 10**6 + "x:other 1", names) == {}


def asking(*, model: dict[str, Any] | None = None, **engine: Any) -> Spec:
    told = dict.fromkeys(
        ("quantization", "kv_cache_dtype", "max_model_len", "enforce_eager", "attention_backend", "seed"), "x"
    )
    fields = {"name": "e", "kind": EngineKind.LAUNCH, "env": {}, "effective": told, **engine}
    return replace(
        spec_of("test"),
        model=Model(**{"name": "m", "server_args": {}, "server_env": {}, **(model or {})}),
        engine=Engine(**fields),
    )


@pytest.mark.parametrize(
    ("spec", "found", "unmet"),
    [
        (asking(model={"quantization": "int4"}), {"quantization": "none"}, "quantization=int4, in effect: none"),
        (asking(model={"quantization": "int4"}), {"quantization": "compressed-tensors"}, ""),
        (asking(model={"quantization": "int4"}), {"quantization": "F16"}, "quantization=int4, in effect: F16"),
        (asking(model={"quantization": "bf16"}), {"quantization": "awq"}, "quantization=bf16, in effect: awq"),
        (asking(model={"quantization": "bf16"}), {"quantization": "None"}, ""),
        (asking(quantization="fp8"), {"quantization": "fp8"}, ""),
        (asking(kv_cache_dtype="fp8"), {"kv_cache_dtype": "torch.fp8_e4m3"}, ""),
        (asking(kv_cache_dtype="fp8"), {"kv_cache_dtype": "auto"}, "kv_cache_dtype=fp8, in effect: auto"),
        (asking(max_model_len=1000), {"max_model_len": "1024"}, ""),
        (asking(max_model_len=1000), {"max_model_len": "512"}, "max_model_len=1000, in effect: 512"),
        (asking(enforce_eager=True), {"enforce_eager": "False"}, "enforce_eager=True, in effect: False"),
        (asking(enforce_eager=True), {"enforce_eager": "true"}, ""),
        (asking(), {"enforce_eager": "True", "seed": "7"}, ""),
        (asking(seed=0), {"seed": "1"}, "seed=0, in effect: 1"),
        (
            asking(model={"server_args": {"e": ("--attention-backend", "TRITON_ATTN")}}),
            {"attention_backend": "FLASH_ATTN"},
            "attention_backend=TRITON_ATTN, in effect: FLASH_ATTN",
        ),
        (asking(args=("--attention-backend=fa4",)), {"attention_backend": "fa4"}, ""),
        (
            asking(seed=0, max_model_len=9),
            {},
            "max_model_len=9, seed=0, and the server does not tell what is in effect",
        ),
    ],
)
def test_what_was_asked_for_is_in_effect(spec: Spec, found: dict[str, str], unmet: str) -> None:
    """A setting that was asked for and is not in effect is told; with require_effective it is a failure."""
    told = f"{'' if found else 'not verified: '}asked for {unmet}"
    assert not_effective(spec, found) == ((told,) if unmet else ())
    strict = replace(spec, engine=replace(spec.engine, require_effective=True))
    if unmet:
        with pytest.raises(InfraError) as caught:
            not_effective(strict, found)
        assert (caught.value.reason, caught.value.message) == ("not-effective", told)
    else:
        assert not_effective(strict, found) == ()


def test_what_llama_cpp_does_not_tell() -> None:
    """A type of the cache that nothing tells is said not to be verified; a seed that greedy decoding never uses is no
    wish, and one that moves answers is.
    """
    known = {"max_model_len": "1024", "quantization": "F16"}
    plain = resolve(("model=tiny_gsm", "hw=cpu"), dirs=(conf_dir(),))
    assert not_effective(plain, known) == ()
    cached = resolve(("model=tiny_gsm", "hw=cpu", "engine.kv_cache_dtype=q8_0"), dirs=(conf_dir(),))
    told = "not verified: asked for {}, and the server does not tell what is in effect"
    assert not_effective(cached, known) == (told.format("kv_cache_dtype=q8_0"),)
    drawn = resolve(("model=tiny_gsm", "hw=cpu", "protocol.temperature=1", "protocol.seed=null"), dirs=(conf_dir(),))
    assert not_effective(drawn, known) == (told.format("seed=0"),)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--kv_cache", "fp8"), {"kv_cache_dtype": "fp8"}),
        (("--eager",), {"enforce_eager": "True"}),
        (("--eager", "--other"), {"enforce_eager": "True"}),
        (("-q=awq",), {"quantization": "awq"}),
        (("--port", "1"), {}),
        (("--kv",), {}),
        (("x",), {}),
    ],
)
def test_arguments_that_ask_for_settings(arguments: tuple[str, ...], found: dict[str, str]) -> None:
    """An argument is read in the engine's own spelling, as servers read it, and only where it sets something."""
    flags = {"kv_cache_dtype": "--kv-cache-dtype", "enforce_eager": "--eager", "quantization": "-q", "port": "--port"}
    assert wishes(asking(args=arguments, flags=flags), frozenset()) == found
