"""What makes two runs comparable."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from enum import Enum

import pytest

from gatekit.gate.comparability import comparability
from gatekit.records.canonical import digest
from gatekit.records.run import Dataset
from gatekit.records.spec import EngineKind, Protocol, Spec

Maker = Callable[..., Spec]
DATA = Dataset(name="gsm8k", digests={"test": "sha256:1", "train": "sha256:2"}, question_ids=(0, 1, 2), shot_ids=(5,))


def key(spec: Spec, dataset: Dataset = DATA, version: str = "1") -> str:
    """The comparability key."""
    return comparability(spec, dataset, version).key


def test_the_key_is_the_digest_of_flat_fields(make_spec: Maker) -> None:
    """The fields are JSON scalars and lists, survive JSON, and the key is their digest."""
    found = comparability(make_spec(), DATA, "1")
    assert found.key == digest(json.loads(json.dumps(dict(found.fields))))
    for value in found.fields.values():
        assert value is None or isinstance(value, (str, int, float, bool, list))


@pytest.mark.parametrize("name", [f.name for f in fields(Protocol) if f.name != "name"])
def test_every_protocol_field_is_in_the_key(make_spec: Maker, name: str) -> None:
    """Changing any field of the protocol starts a new series."""
    old = getattr(make_spec().protocol, name)
    other: object = "other"
    if isinstance(old, Enum):
        other = next(value for value in type(old) if value is not old)
    elif isinstance(old, tuple):
        other = (*old, "other")
    elif isinstance(old, (int, float)):
        other = old + 1
    elif name in ("top_p", "top_k", "seed"):
        other = 1
    assert key(make_spec(protocol={name: other})) != key(make_spec())


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"name": "other"}},
        {"model": {"revision": "b" * 40}},
        {"model": {"quantization": "fp8"}},
        {"engine": {"kind": EngineKind.SIM}},
    ],
)
def test_weights_and_simulation_are_in_the_key(make_spec: Maker, change: dict[str, dict[str, object]]) -> None:
    """Other weights, another quantisation, or simulated answers are another series."""
    assert key(make_spec(**change)) != key(make_spec())


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"name": "sglang", "tensor_parallel_size": 4, "data_parallel_size": 2}},
        {"hw": {"name": "h100", "count": 8}},
        {"protocol": {"name": "renamed"}},
        {"gate": {"floor": 0.1}},
        {"client": {"concurrency": 1}},
    ],
)
def test_treatment_hardware_and_names_are_not(make_spec: Maker, change: dict[str, dict[str, object]]) -> None:
    """The engine, its parallelism, the hardware, the gate and names of configs leave the series as it is."""
    assert key(make_spec(**change)) == key(make_spec())


@pytest.mark.parametrize(
    "other",
    [
        replace(DATA, digests={"test": "sha256:1", "train": "sha256:3"}),
        replace(DATA, question_ids=(0, 2, 1)),
        replace(DATA, question_ids=(0, 1)),
        replace(DATA, shot_ids=(6,)),
    ],
)
def test_the_questions_and_shots_are_in_the_key(make_spec: Maker, other: Dataset) -> None:
    """Other files, order, number of questions, shots, or another extractor are another series."""
    assert key(make_spec(), other) != key(make_spec())
    assert key(make_spec(), version="2") != key(make_spec())
