"""Records whose answers are texts that an extractor can read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gatekit.records.answers import Completion, Observation, Question, count
from gatekit.records.canonical import digest
from gatekit.records.run import Comparability, RunRecord
from gatekit.task.score import EXTRACTORS

MakeRecord = Callable[..., RunRecord]


def scored(make_record: MakeRecord, run_id: str, texts: Sequence[str], **more: object) -> RunRecord:
    """A run of these answers, each to a question whose answer is 18, as the extractor `gatekit` reads them."""
    extractor = EXTRACTORS["gatekit"]
    seen = []
    for number, text in enumerate(texts):
        question = Question(id=number, text="", reference="#### 18")
        found = extractor.score(Completion(text=text, finish_reason="stop"), question)
        seen.append(
            Observation(
                question_id=number,
                status=found.status,
                expected="18",
                predicted=found.predicted,
                detail=found.detail,
                text=text,
                finish_reason="stop",
                attempts=1,
            )
        )
    fields = {"max_tokens": 256, "extractor_version": extractor.version, "protocol.extractor": "gatekit"}
    return replace(
        make_record(run_id, planned=len(texts), **more),
        observations=tuple(seen),
        counts=count(tuple(seen)),
        comparability=Comparability(key=digest(fields), fields=fields),
    )
