"""Checkpoints that load, stay healthy and answer in perfect form, and are not the model they say they are.

    python -m benchmarks.tiny_model.damage FILE.gguf FOLDER         # every variant as FOLDER/NAME.gguf

Weights are damaged with numpy alone; each variant says what a deployment would have to get wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.tiny_model.checkpoint import Array, Checkpoint, load, write_gguf

LLAMA2 = "{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"
NO_GENERATION_PROMPT = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
Change = Callable[[Checkpoint], Checkpoint]
Weight = Callable[[str, Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way to be served: what changes, and in which form of file the result is stored."""

    name: str
    change: Change
    file_type: str = "F16"


def variants() -> Iterator[Variant]:
    """The healthy forms, then the damage, each kind from mild to gross."""
    yield Variant(name="f16", change=lambda checkpoint: checkpoint)
    yield Variant(name="f32", change=lambda checkpoint: checkpoint, file_type="F32")
    yield Variant(name="q8_0", change=lambda checkpoint: checkpoint, file_type="Q8_0")
    yield Variant(name="q4_0", change=lambda checkpoint: checkpoint, file_type="Q4_0")
    for name, change in _CHANGES.items():
        yield Variant(name=name, change=change)


# --- weights


def _weights(of: Weight, only: Callable[[str], bool], checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with `of` applied to the weights whose names `only` picks, stored as float16."""
    changed = {
        name: of(name, found.astype(np.float32)).astype(np.float16) if only(name) else found
        for name, found in checkpoint.weights.items()
    }
    return replace(checkpoint, weights=changed)


def _linear(name: str) -> bool:
    return name.endswith("_proj.weight")


def _matrix(name: str) -> bool:
    return _linear(name) or name.endswith("embed_tokens.weight")


def _every(_: str) -> bool:
    return True


def _rounded(bits: int, group: int | None, _: str, weight: Array) -> Array:
    """Round-to-nearest integers of so many bits, a scale for each row, or for each group of a row."""
    rows = weight.reshape(-1, group or weight.shape[1])
    largest = 2 ** (bits - 1) - 1
    scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-8) / largest
    found: Array = np.clip(np.round(rows / scale), -largest - 1, largest) * scale
    return found.reshape(weight.shape)


def _rounded_by_tensor(bits: int, _: str, weight: Array) -> Array:
    """One scale for the whole matrix: what a wrong quantisation granularity does."""
    largest = 2 ** (bits - 1) - 1
    scale = np.abs(weight).max() / largest
    found: Array = np.clip(np.round(weight / scale), -largest - 1, largest) * scale
    return found


def _scales_shifted(name: str, weight: Array) -> Array:
    """int8 by row, with the scales of one layer shifted by a row."""
    if ".layers.1." not in name:
        return _rounded(8, None, name, weight)
    scale = np.abs(weight).max(axis=1, keepdims=True) / 127
    found: Array = np.round(weight / scale) * np.roll(scale, 1, axis=0)
    return found


def _float(mantissa_bits: int, least_exponent: int, _: str, weight: Array) -> Array:
    """Rounded to the nearest float of so many bits, ties to even, without a scale."""
    exponent = np.maximum(np.frexp(weight)[1] - 1, least_exponent)
    step = np.exp2((exponent - mantissa_bits).astype(np.float32))
    found: Array = np.round(weight / step) * step
    return found


def _scaled(factor: float, _: str, weight: Array) -> Array:
    return weight * factor


def _noisy(share: float, name: str, weight: Array) -> Array:
    """Gaussian noise of a share of the matrix's own standard deviation, the same each time."""
    noise = np.random.default_rng(list(name.encode())).standard_normal(weight.shape, dtype=np.float32)
    found: Array = weight + share * weight.std() * noise
    return found


def _kv_heads_swapped(_: str, weight: Array) -> Array:
    return np.roll(weight, weight.shape[0] // 2, axis=0)


def _ones(_: str, weight: Array) -> Array:
    return np.ones_like(weight)


def _layers_swapped(checkpoint: Checkpoint) -> Checkpoint:
    one, other = "model.layers.1.", "model.layers.2."
    turned: Mapping[str, str] = {
        name: name.replace(one, other) if name.startswith(one) else name.replace(other, one)
        for name in checkpoint.weights
    }
    return replace(checkpoint, weights={name: checkpoint.weights[turned[name]] for name in checkpoint.weights})


# --- arithmetic, tokenizer, template


def _rope_theta(theta: float, checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, shape=replace(checkpoint.shape, rope_theta=theta))


def _rms_eps(eps: float, checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, shape=replace(checkpoint.shape, rms_eps=eps))


def _digits_swapped(one: str, other: str, checkpoint: Checkpoint) -> Checkpoint:
    swap = {one: other, other: one}
    return replace(checkpoint, tokens=tuple(swap.get(token, token) for token in checkpoint.tokens))


def _half_the_merges(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, merges=checkpoint.merges[: len(checkpoint.merges) // 2])


def _template(text: str, checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, chat_template=text)


def _on(of: Weight, only: Callable[[str], bool] = _linear) -> Change:
    return partial(_weights, of, only)


def _only(end: str) -> Callable[[str], bool]:
    return lambda name: name.endswith(end)


_CHANGES: Mapping[str, Change] = {
    "bf16": _on(partial(_float, 7, -126), _every),
    "int8_chan": _on(partial(_rounded, 8, None)),
    "fp8_e4m3_noscale": _on(partial(_float, 3, -6)),
    "fp8_e5m2_noscale": _on(partial(_float, 2, -14)),
    "int4_g32": _on(partial(_rounded, 4, 32)),
    "int4_g32_all_emb": _on(partial(_rounded, 4, 32), _matrix),
    "int4_chan": _on(partial(_rounded, 4, None)),
    "int4_tensor_bad": _on(partial(_rounded_by_tensor, 4)),
    "int3_g32": _on(partial(_rounded, 3, 32)),
    "int8_layer1_scales_swapped": _on(_scales_shifted),
    "down_proj_L2_x1.1": _on(partial(_scaled, 1.1), _only("layers.2.mlp.down_proj.weight")),
    "down_proj_L2_x1.25": _on(partial(_scaled, 1.25), _only("layers.2.mlp.down_proj.weight")),
    "noise_1pct": _on(partial(_noisy, 0.01)),
    "noise_10pct": _on(partial(_noisy, 0.10)),
    "rope_theta_9000": partial(_rope_theta, 9e3),
    "rope_theta_20000": partial(_rope_theta, 2e4),
    "rope_theta_100000": partial(_rope_theta, 1e5),
    "rope_theta_1000000": partial(_rope_theta, 1e6),
    "rms_eps_1e-2": partial(_rms_eps, 1e-2),
    "norm_L3_reset": _on(_ones, _only("layers.3.input_layernorm.weight")),
    "kv_heads_swapped_L1": _on(_kv_heads_swapped, _only("layers.1.self_attn.k_proj.weight")),
    "layers_1_2_swapped": _layers_swapped,
    "tok_digits_8_9_swapped": partial(_digits_swapped, "8", "9"),
    "tok_digits_1_7_swapped": partial(_digits_swapped, "1", "7"),
    "tok_half_merges": _half_the_merges,
    "chat_template_llama2": partial(_template, LLAMA2),
    "chat_template_no_gen_prompt": partial(_template, NO_GENERATION_PROMPT),
}


def main(source: str, folder: str) -> None:
    """Write every variant of a checkpoint."""
    checkpoint, target = load(Path(source)), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for variant in variants():
        write_gguf(variant.change(checkpoint), target / f"{variant.name}.gguf", variant.file_type)
        print(f"wrote {target / variant.name}.gguf")


if __name__ == "__main__":
    main(*sys.argv[1:])
