"""What went wrong between question and answer, as counts by kind: lost answers, answers without one, and retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gatekit.records.answers import Observation, Status
from gatekit.records.run import RETRIED, RunRecord
from gatekit.report.by_question import is_repeated, named

_EXAMPLES = 5


def fault_lines(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Label and text for each thing that went wrong; nothing of a run without faults."""
    yield from _lost(record.observations)
    if whys := why_none(record.observations):
        yield "no answer", ", ".join(f"{times} {why.replace('_', ' ')}" for why, times in whys.items())
    if (again := retried(record.events)) is not None:
        yield "retried", again


def retried(events: Iterable[str]) -> str | None:
    """How often which fault was answered by another attempt, such as `131 x HTTP 500`; None where none was.

    >>> retried(["ready after 0.1 s", "retried: 2 x HTTP 500"])
    '2 x HTTP 500'
    """
    found = [event.removeprefix(RETRIED) for event in events if event.startswith(RETRIED)]
    return "; ".join(found) or None


def why_none(observations: Iterable[Observation]) -> dict[str, int]:
    """How many answers had no number to read, by why (empty, tool_call, unparsed), without zeros."""
    whys = Counter(seen.detail or "unknown" for seen in observations if seen.status is Status.NO_ANSWER)
    return dict(sorted(whys.items()))


def _lost(observations: tuple[Observation, ...]) -> Iterator[tuple[str, str]]:
    kinds: dict[str, list[str]] = {}
    repeated = is_repeated(observations)
    for observation in observations:
        if observation.failure is not None:
            question = named(observation.cell, is_repeated=repeated)
            kinds.setdefault(observation.failure.kind.value, []).append(question)
    for kind, ids in sorted(kinds.items()):
        some = ", ".join(ids[:_EXAMPLES]) + (", ..." if len(ids) > _EXAMPLES else "")
        yield "failures", f"{len(ids)} lost by {kind} (questions {some})"
