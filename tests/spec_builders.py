"""A complete spec to vary, made in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gatekit.records.spec import (
    Api,
    Client,
    Engine,
    EngineKind,
    Gate,
    Hardware,
    History,
    Method,
    Model,
    Protocol,
    ShotOverlap,
    ShotSource,
    Spec,
    Task,
)

BASE = Spec(
    name="laguna-b200",
    model=Model(name="poolside/Laguna-XS-2.1-INT4", revision="a" * 40, server_args={}, server_env={}),
    hw=Hardware(name="b200", vendor="nvidia"),
    engine=Engine(name="vllm", kind=EngineKind.LAUNCH, env={}),
    protocol=Protocol(
        name="gsm8k_chat",
        api=Api.CHAT,
        shots=5,
        shots_source=ShotSource.TRAIN,
        shots_overlap=ShotOverlap.REFUSE,
        shot_template="Question: {question}\nAnswer: {answer}\n\n",
        question_template="Question: {question}\nAnswer:",
        stop=("Question",),
        max_tokens=1024,
        temperature=0.0,
        extractor="exact",
    ),
    task=Task(name="gsm8k", dataset="gsm8k", files={}),
    gate=Gate(name="hand", method=Method.STATIC_FLOOR, floor=0.9),
    history=History(name="local", dir="history"),
    client=Client(concurrency=8, request_timeout_s=60.0, deadline_s=3600.0, attempts=3, outage_s=60.0),
)


def spec_of(name: str = BASE.name, **parts: Mapping[str, object]) -> Spec:
    """The base spec with the given parts changed: `gate={"floor": 0.8}` changes a field of the gate."""
    changed = {part: replace(getattr(BASE, part), **fields) for part, fields in parts.items()}
    return replace(BASE, name=name, **changed)
