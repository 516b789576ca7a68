"""Which runs may be compared: everything that can move a score, and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum

from gatekit.records.canonical import Plain, digest
from gatekit.records.run import Comparability, Dataset
from gatekit.records.spec import Protocol, Spec

_LABELS = frozenset({"name"})
_DIGESTED = frozenset({"shot_template", "question_template", "system_prompt", "gen_prefix"})
_IN_EVERY_KEY = frozenset(
    {"api", "shots", "shots_source", "shots_overlap", "shot_template", "question_template", "system_prompt", "stop"}
    | {"max_tokens", "temperature", "top_p", "top_k", "seed", "extractor"}
)
"""Fields of a protocol that keys have always had; any other is in a key only where it says something."""
_OF_PROTOCOL = "protocol."


def comparability(spec: Spec, dataset: Dataset, extractor_version: str) -> Comparability:
    """The key under which runs compare, and the flat fields it is the digest of.

    In: weights, quantisation, whether simulated, dataset digests, ordered question ids, shots, every
    protocol field (texts as digests; later ones where they say something), the extractor's version. Out: the
    engine build and its parallelism, which are the treatment; the hardware, a covariate; names of configs, which
    move no score.
    """
    found: dict[str, Plain] = {
        "model": spec.model.name,
        "revision": spec.model.revision,
        "quantization": spec.model.quantization,
        "simulated": spec.simulated,
        "n": len(dataset.question_ids),
        "question_ids": digest(list(dataset.question_ids)),
        "shot_ids": digest(list(dataset.shot_ids)),
        "extractor_version": extractor_version,
    }
    if spec.engine.quantization is not None:  # left out elsewhere: keys from before it hold
        found["engine.quantization"] = spec.engine.quantization
    found |= {f"dataset.{split}": sha for split, sha in dataset.digests.items()}
    found |= _protocol_fields(spec.protocol)
    return Comparability(key=digest(found), fields=found)


def is_later(name: str) -> bool:
    """Whether a field of a key is of those that are left out where they say nothing, and so in no early key.

    >>> is_later("protocol.stream"), is_later("protocol.extra_body.min_p"), is_later("protocol.seed"), is_later("n")
    (True, True, False, False)
    """
    return name.startswith(_OF_PROTOCOL) and name.removeprefix(_OF_PROTOCOL) not in _IN_EVERY_KEY


def _protocol_fields(protocol: Protocol) -> dict[str, Plain]:
    """Every field of the protocol: one that is added later is part of the key by itself, unless it is at its default.

    A mapping is as many fields, so that what differs in it can be named.
    """
    found: dict[str, Plain] = {}
    for field in fields(protocol):
        name, value = field.name, getattr(protocol, field.name)
        if name in _LABELS or (name not in _IN_EVERY_KEY and value == field.default):
            continue
        if isinstance(value, Mapping):
            found |= {f"{_OF_PROTOCOL}{name}.{key}": _scalar(key, item) for key, item in value.items()}
        else:
            found[f"{_OF_PROTOCOL}{name}"] = _scalar(name, value)
    return found


def _scalar(name: str, value: object) -> Plain:
    if name in _DIGESTED and value is not None:
        return digest(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, (tuple, list)) else value
