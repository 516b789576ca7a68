"""What the bundled answer server is told: one JSON document, written by the one who starts it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatekit.records.answers import Cell
from gatekit.records.spec import EngineKind, Faults, Latency


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerConfig:
    """Which answers to serve and under which name and key.

    `questions` is the path of JSON lines {id, text, reference}. `accuracy` to `flip_seed` belong to
    sim, `answers` to `answers_sha256` to replay. Port 0 is any free one. A key of None asks for none. `repeats` is how
    often each question is asked, `first_seed` the seed of the first time (None: without), `answered` what was
    answered before.
    """

    kind: EngineKind
    served_model: str
    build: str
    api_key: str | None = None
    port: int = 0
    questions: str
    seed: int = 0
    accuracy: float = 1.0
    dispersion: float = 1.0
    flip_seed: int = 0
    latency: Latency = field(default_factory=Latency)
    faults: Faults = field(default_factory=Faults)
    answers: str | None = None
    variant: str | None = None
    answers_sha256: str | None = None
    repeats: int = 1
    first_seed: int | None = None
    answered: tuple[Cell, ...] = ()
