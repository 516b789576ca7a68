"""The exact command lines of the shipped specs: a change of one is a change of what is measured."""

from __future__ import annotations

import pytest

from gatekit.engine.argv import server_argv
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.spec.resolve import resolve

INKLING = "thinkingmachines/Inkling-Small-NVFP4"
GOLDEN = {
    ("laguna_int4", "b200"): (
        "vllm serve poolside/Laguna-XS-2.1-INT4 --host 127.0.0.1 --port 8123 --served-model-name gatekit-m"
        " --max-model-len 4096 --enforce-eager --seed 0 --trust-remote-code"
    ),
    ("laguna_nvfp4", "b200"): (
        "vllm serve poolside/Laguna-XS.2-NVFP4 --host 127.0.0.1 --port 8123 --served-model-name gatekit-m"
        " --max-model-len 4096 --enforce-eager --seed 0 --trust-remote-code"
    ),
    ("inkling_small_nvfp4", "b200x4"): (
        f"python3 -m sglang.launch_server --model-path {INKLING} --host 127.0.0.1 --port 8123"
        " --served-model-name gatekit-m --tp 4 --quantization modelopt_fp4 --attention-backend fa4 --page-size 128"
        " --fp4-gemm-backend flashinfer_trtllm --moe-runner-backend flashinfer_trtllm_routed"
        " --mamba-radix-cache-strategy extra_buffer --swa-full-tokens-ratio 0.1 --mamba-full-memory-ratio 0.1"
        " --mem-fraction-static 0.85"
    ),
    ("diffusiongemma_fp8", "h100x2"): (
        "vllm serve RedHatAI/diffusiongemma-26B-A4B-it-FP8-dynamic --host 127.0.0.1 --port 8123"
        " --served-model-name gatekit-m --tensor-parallel-size 2 --max-model-len 4096 --enforce-eager --seed 0"
        " --attention-backend TRITON_ATTN"
    ),
}


def seed(model: str, hw: str, *more: str) -> Spec:
    return resolve((f"model={model}", f"hw={hw}", *more), dirs=(conf_dir(),))


@pytest.mark.parametrize(("model", "hw"), GOLDEN)
def test_the_seed_specs(model: str, hw: str) -> None:
    """Each of the four nightly models starts with exactly this command."""
    argv = server_argv(seed(model, hw), port=8123, served_model="gatekit-m", environ={})
    assert " ".join(argv) == GOLDEN[model, hw]
