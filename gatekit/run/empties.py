"""Empty answers and tool calls: a few are the model's own and wrong; a larger share is believed of no server."""

from __future__ import annotations

from gatekit.gate.wording import bare_percent
from gatekit.records.answers import Completion, Failure, FailureKind, Observation, Status, as_lost
from gatekit.run.loop import Answer
from gatekit.stats.exact import exact
from gatekit.task.score import EMPTY, TOOL_CALL

_A_FEW = 1
_SAYS_NOTHING = frozenset({EMPTY, TOOL_CALL})


def believed(observations: tuple[Observation, ...], max_share: float) -> tuple[Observation, ...]:
    """The observations, with every empty answer lost where more than one, and more than this share of all, are empty.

    A parser that drops the text of every twentieth answer and a model that gives none look the same from outside.
    As lost answers they cannot move an accuracy: a verdict stands only if it is the same with all of them right.
    """
    empty = sum(map(is_empty, observations))
    if empty <= _A_FEW or empty <= exact(max_share) * len(observations):
        return observations
    share = bare_percent(empty / len(observations))
    calls = sum(seen.detail == TOOL_CALL for seen in observations if is_empty(seen))
    kinds = f", {calls} of them tool calls although no tool was offered" if calls else ""
    limit = bare_percent(max_share)
    what = f"{empty} of {len(observations)} empty ({share}, limit {limit}{kinds}): lost by the server, or"
    why = Failure(kind=FailureKind.EMPTY, detail=f"{what} the model's own? then gate.max_empty_share=1")
    return tuple(as_lost(seen, why) if is_empty(seen) else seen for seen in observations)


def while_asking(answer: Answer, status: Status) -> Status:
    """The status that a stopping rule is told: of an empty answer nobody knows yet how it will count."""
    result = answer.result
    if status is not Status.NO_ANSWER or not isinstance(result, Completion):
        return status
    return status if (result.text or "").strip() else Status.LOST


def still_open(seen: Observation) -> Status:
    """The same of an answer that an earlier part of the run kept."""
    return Status.LOST if is_empty(seen) else seen.status


def is_empty(seen: Observation) -> bool:
    """Whether the answer says nothing: no text at all, or a call of a tool although none was offered."""
    return seen.status is Status.NO_ANSWER and seen.detail in _SAYS_NOTHING
