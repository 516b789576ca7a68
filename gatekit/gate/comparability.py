"""Which runs may be compared: everything that can move a score, and its digest."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum

from gatekit.records.canonical import Plain, digest
from gatekit.records.run import Comparability, Dataset
from gatekit.records.spec import Protocol, Spec

_LABELS = frozenset({"name"})
_DIGESTED = frozenset({"shot_template", "question_template", "system_prompt"})


def comparability(spec: Spec, dataset: Dataset, extractor_version: str) -> Comparability:
    """The key under which runs compare, and the flat fields it is the digest of.

    In: weights, quantisation, whether simulated, dataset digests, ordered question ids, shots, every
    protocol field (texts as digests), the extractor's version. Out: the engine build and its parallelism,
    which are the treatment; the hardware, a covariate; names of configs, which move no score.
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
    found |= {f"dataset.{split}": sha for split, sha in dataset.digests.items()}
    found |= _protocol_fields(spec.protocol)
    return Comparability(key=digest(found), fields=found)


def _protocol_fields(protocol: Protocol) -> dict[str, Plain]:
    """Every field of the protocol: one that is added later is part of the key by itself."""
    names = [f.name for f in fields(protocol) if f.name not in _LABELS]
    return {f"protocol.{name}": _scalar(name, getattr(protocol, name)) for name in names}


def _scalar(name: str, value: object) -> Plain:
    if name in _DIGESTED and value is not None:
        return digest(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value
