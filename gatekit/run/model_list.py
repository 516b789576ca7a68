"""The models that a server lists, and what the list says of the one that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gatekit.records.canonical import Plain
from gatekit.run.server_info import described

# What moves while one server runs (created, permission, status) or is made for a run (aliases) is not among them.
_KEYS = (
    *("root", "parent", "owned_by", "max_model_len"),
    *("meta.ftype", "meta.n_params", "meta.size", "meta.n_vocab", "meta.n_embd", "meta.n_ctx", "meta.n_ctx_train"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """The names of all models in their order, and of the one that is asked what else is said, by key, as short texts.

    Of a model that two entries name, the first one speaks.
    """

    names: tuple[str, ...]
    said: Mapping[str, str] = field(default_factory=dict)


def model_list(data: Mapping[str, Plain], asked: str) -> ModelList | None:
    """The list in a response body; None where it is none."""
    listed = data.get("data")
    if not isinstance(listed, list):
        return None
    named = [(str(one["id"]), one) for one in listed if isinstance(one, dict) and "id" in one]
    said = next((described(one, _KEYS) for name, one in named if name == asked), {})
    return ModelList(names=tuple(name for name, _ in named), said=said)
