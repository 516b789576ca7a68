"""A saved answer read again, by any extractor: no server is asked."""

from __future__ import annotations

from dataclasses import replace

from gatekit.records.answers import Completion, Observation, Question, Status
from gatekit.task.score import TOOL_CALL, Extractor


def can_rescore(seen: Observation) -> bool:
    """Whether the observation keeps all that an extractor needs; a lost one stays lost by itself."""
    return seen.status is Status.LOST or seen.expected is not None


def rescore(seen: Observation, extractor: Extractor) -> Observation:
    """The same answer as this extractor reads it; a lost one stays as it is.

    Raises ValueError when the reference answer was not saved with it.
    """
    if seen.status is Status.LOST:
        return seen
    if seen.expected is None:
        raise ValueError(f"question {seen.question_id} was kept without its reference answer")
    completion = Completion(
        text=seen.text,
        reasoning=seen.reasoning,
        finish_reason=seen.finish_reason,
        prompt_tokens=seen.prompt_tokens,
        completion_tokens=seen.completion_tokens,
        has_tool_calls=seen.detail == TOOL_CALL,
    )
    question = Question(id=seen.question_id, text="", reference=f"#### {seen.expected}")
    scored = extractor.score(completion, question)
    return replace(seen, status=scored.status, predicted=scored.predicted, detail=scored.detail)
