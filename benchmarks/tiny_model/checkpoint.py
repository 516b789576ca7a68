"""A small Llama with its tokenizer, in memory, and its two forms on disk: a Hugging Face folder and a GGUF file.

Needs numpy; GGUF files need `gguf` (0.19.0). No torch: a safetensors file is a JSON header and raw arrays. Both forms
hold the same weights bit for bit, so that each is made from the other:

    python -m benchmarks.tiny_model.checkpoint FOLDER FILE.gguf [F16|F32|Q8_0|Q4_0]
    python -m benchmarks.tiny_model.checkpoint FILE.gguf FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]

NAME = "gatekit-tiny"
FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "Q4_0": 2}
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SAFETENSORS_TYPES = {"F16": np.float16, "F32": np.float32}
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_OTHER_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a Llama and the two numbers of its arithmetic that a config holds."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    context: int
    rms_eps: float
    rope_theta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Weights by Hugging Face name, the tokens by id (a byte-level BPE and three special ones), and how a chat is put.

    The vocabulary of the weights is padded: it has more rows than there are tokens.
    """

    shape: Shape
    weights: Mapping[str, Array]
    tokens: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]
    chat_template: str


def load(path: Path) -> Checkpoint:
    """The checkpoint in a folder or a GGUF file."""
    return read_folder(path) if path.is_dir() else read_gguf(path)


# --- the Hugging Face folder


def read_folder(folder: Path) -> Checkpoint:
    """The checkpoint of a folder with config.json, model.safetensors, tokenizer.json and tokenizer_config.json."""
    config, tokenizer = _json(folder / "config.json"), _json(folder / "tokenizer.json")
    known: dict[str, int] = tokenizer["model"]["vocab"]
    ids = known | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return Checkpoint(
        shape=Shape(
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head=config["head_dim"],
            vocabulary=config["vocab_size"],
            context=config["max_position_embeddings"],
            rms_eps=config["rms_norm_eps"],
            rope_theta=config["rope_theta"],
        ),
        weights=_read_safetensors(folder / "model.safetensors"),
        tokens=tuple(sorted(ids, key=ids.__getitem__)),
        merges=tuple(
            (m.split(" ")[0], m.split(" ")[1]) if isinstance(m, str) else (m[0], m[1])
            for m in tokenizer["model"]["merges"]
        ),
        chat_template=_json(folder / "tokenizer_config.json")["chat_template"],
    )


def write_folder(checkpoint: Checkpoint, folder: Path) -> None:
    """Write the folder that vLLM, SGLang and transformers serve."""
    folder.mkdir(parents=True, exist_ok=True)
    ends = [_id(checkpoint, END_OF_TEXT), _id(checkpoint, TURN_END)]
    common = {"bos_token_id": ends[0], "eos_token_id": ends, "pad_token_id": ends[0]}
    contents: dict[str, Any] = {
        "config.json": _config(checkpoint.shape) | common | {"torch_dtype": "float16"},
        "generation_config.json": common | {"do_sample": False},
        "tokenizer.json": tokenizer_json(checkpoint),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": TURN_END,
            "pad_token": END_OF_TEXT,
            "model_max_length": checkpoint.shape.context,
            "clean_up_tokenization_spaces": False,
            "chat_template": checkpoint.chat_template,
        },
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    _write_safetensors(checkpoint.weights, folder / "model.safetensors")


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.rms_eps,
        "rope_theta": shape.rope_theta,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
    }


def tokenizer_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """A byte-level BPE over the words of Qwen2, which makes every digit a token."""
    specials = (END_OF_TEXT, TURN_START, TURN_END)
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": QWEN2_WORDS}, "behavior": "Isolated", "invert": False}
    added = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": _id(checkpoint, text), "content": text, **added} for text in specials],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, byte_level | {"add_prefix_space": False, "use_regex": False}],
        },
        "post_processor": byte_level | {"trim_offsets": False},
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: index for index, text in enumerate(checkpoint.tokens) if text not in specials},
            "merges": [list(pair) for pair in checkpoint.merges],
        },
    }


def _read_safetensors(path: Path) -> dict[str, Array]:
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return {
        name: np.frombuffer(
            content[start + about["data_offsets"][0] : start + about["data_offsets"][1]],
            dtype=_SAFETENSORS_TYPES[about["dtype"]],
        ).reshape(about["shape"])
        for name, about in header.items()
        if name != "__metadata__"
    }


def _write_safetensors(weights: Mapping[str, Array], path: Path) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    at = 0
    for name in sorted(weights):
        part = np.ascontiguousarray(weights[name], dtype=np.float16).tobytes()
        header[name] = {"dtype": "F16", "shape": list(weights[name].shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def _id(checkpoint: Checkpoint, token: str) -> int:
    return checkpoint.tokens.index(token)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# --- the GGUF file


def read_gguf(path: Path) -> Checkpoint:
    """The checkpoint of an F16 or F32 file that `write_gguf` wrote."""
    import gguf

    reader = gguf.GGUFReader(path)
    field = {name: found.contents() for name, found in reader.fields.items()}
    shape = Shape(
        hidden=field["llama.embedding_length"],
        intermediate=field["llama.feed_forward_length"],
        layers=field["llama.block_count"],
        heads=field["llama.attention.head_count"],
        kv_heads=field["llama.attention.head_count_kv"],
        head=field["llama.rope.dimension_count"],
        vocabulary=field["llama.vocab_size"],
        context=field["llama.context_length"],
        rms_eps=_shortest(field["llama.attention.layer_norm_rms_epsilon"]),
        rope_theta=_shortest(field["llama.rope.freq_base"]),
    )
    names = {_gguf_name(name): name for name in _weight_names(shape.layers)}
    types = zip(field["tokenizer.ggml.tokens"], field["tokenizer.ggml.token_type"], strict=True)
    return Checkpoint(
        shape=shape,
        weights={
            names[tensor.name]: _turned(names[tensor.name], tensor.data, shape, back=True).astype(np.float16)
            for tensor in reader.tensors
        },
        tokens=tuple(token for token, kind in types if kind != gguf.TokenType.UNUSED),
        merges=tuple((left, right) for left, right in (m.split(" ") for m in field["tokenizer.ggml.merges"])),
        chat_template=field["tokenizer.chat_template"],
    )


def write_gguf(checkpoint: Checkpoint, path: Path, file_type: str = "F16") -> None:
    """Write the file that llama.cpp serves; Q4_0 leaves the embedding at Q8_0, norms are always F32."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    _write_shape(writer, checkpoint.shape, file_type)
    _write_tokenizer(writer, checkpoint)
    for name, found in checkpoint.weights.items():
        tensor = _turned(name, found, checkpoint.shape).astype(np.float32)
        if tensor.ndim == 1 or file_type == "F32":
            writer.add_tensor(_gguf_name(name), tensor)
        elif file_type == "F16":
            writer.add_tensor(_gguf_name(name), tensor.astype(np.float16))
        else:
            is_embedding = name == "model.embed_tokens.weight"
            kind = gguf.GGMLQuantizationType["Q8_0" if is_embedding else file_type]
            quantised = gguf.quants.quantize(np.ascontiguousarray(tensor), kind)
            writer.add_tensor(_gguf_name(name), quantised, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_shape(writer: Any, shape: Shape, file_type: str) -> None:
    writer.add_name(NAME)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.rms_eps)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(FILE_TYPES[file_type])


def _write_tokenizer(writer: Any, checkpoint: Checkpoint) -> None:
    import gguf

    padding = tuple(f"[PAD{i}]" for i in range(len(checkpoint.tokens), checkpoint.shape.vocabulary))
    specials = (END_OF_TEXT, TURN_START, TURN_END)
    kinds = [gguf.TokenType.CONTROL if token in specials else gguf.TokenType.NORMAL for token in checkpoint.tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*checkpoint.tokens, *padding])
    writer.add_token_types([*kinds, *(gguf.TokenType.UNUSED for _ in padding)])
    writer.add_token_merges([f"{left} {right}" for left, right in checkpoint.merges])
    writer.add_eos_token_id(_id(checkpoint, TURN_END))
    writer.add_eot_token_id(_id(checkpoint, TURN_END))
    writer.add_pad_token_id(_id(checkpoint, END_OF_TEXT))
    writer.add_bos_token_id(_id(checkpoint, END_OF_TEXT))
    writer.add_add_bos_token(False)
    writer.add_chat_template(checkpoint.chat_template)


def _weight_names(layers: int) -> list[str]:
    parts = [f"layers.{layer}.{part}" for layer in range(layers) for part in _LAYER_NAMES]
    return [f"model.{part}.weight" for part in (*parts, *_OTHER_NAMES)]


def _gguf_name(name: str) -> str:
    bare = name.removeprefix("model.").removesuffix(".weight")
    if bare in _OTHER_NAMES:
        return f"{_OTHER_NAMES[bare]}.weight"
    _, layer, part = bare.split(".", 2)
    return f"blk.{layer}.{_LAYER_NAMES[part]}.weight"


def _turned(name: str, tensor: Array, shape: Shape, *, back: bool = False) -> Array:
    """The rows of queries and keys in llama.cpp's order: it turns neighbours where Hugging Face turns halves."""
    heads = {"q_proj": shape.heads, "k_proj": shape.kv_heads}.get(name.split(".")[-2])
    if heads is None:
        return tensor
    half = tensor.shape[0] // heads // 2
    split = (heads, half, 2) if back else (heads, 2, half)
    return tensor.reshape(*split, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)


def _shortest(value: float) -> float:
    """The shortest decimal that is this float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))


def main(source: str, target: str, file_type: str = "F16") -> None:
    """Convert one form into the other, by the target's name."""
    checkpoint = load(Path(source))
    if target.endswith(".gguf"):
        write_gguf(checkpoint, Path(target), file_type)
    else:
        write_folder(checkpoint, Path(target))
    print(f"wrote {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
