"""A Llama in plain torch, with the parameter names of Hugging Face. Needs torch (2.13)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.tiny_model.checkpoint import Shape


class Norm(nn.Module):
    """Root-mean-square normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.eps = shape.rms_eps
        self.weight = nn.Parameter(torch.ones(shape.hidden))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.size(-1),), self.weight, self.eps)


class Attention(nn.Module):
    """Causal attention with rotary positions; several query heads share a key and a value."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query = _turn(self._heads(self.q_proj(x), self.shape.heads), cos, sin)
        key = _turn(self._heads(self.k_proj(x), self.shape.kv_heads), cos, sin)
        value = self._heads(self.v_proj(x), self.shape.kv_heads)
        shared = self.shape.heads // self.shape.kv_heads
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
        found = functional.scaled_dot_product_attention(
            query.to(value.dtype), key.to(value.dtype), value, is_causal=True
        )
        return self.o_proj(found.transpose(1, 2).reshape(batch, length, -1))

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.size(0), x.size(1), heads, self.shape.head).transpose(1, 2)


class Mlp(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each around a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(shape), Norm(shape)
        self.self_attn, self.mlp = Attention(shape), Mlp(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Hidden states of token ids; the embedding is also the output matrix."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape)
        frequency = 1.0 / (shape.rope_theta ** (torch.arange(0, shape.head, 2).float() / shape.head))
        angle = torch.outer(torch.arange(shape.context).float(), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                ends_block = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * shape.layers) if ends_block else 1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed_tokens(ids)
        cos, sin = self.get_buffer("cos")[: ids.size(1)], self.get_buffer("sin")[: ids.size(1)]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.size(-1) // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin
