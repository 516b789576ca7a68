"""From answers, as they arrive, to observations: scored, journalled, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind, Observation, Question, Status
from gatekit.run.journal import Journal
from gatekit.run.loop import Answer
from gatekit.run.plan import Plan
from gatekit.run.progress import Progress
from gatekit.task.score import Extractor

_REASON_CHARACTERS = 200
_ENOUGH_TO_SUSPECT = 20
_SAME_SHARE = 0.9
_SHOWN_IDS = 20
_SHOWN_DETAIL = 120


class Observer:
    """Takes the answers of one run."""

    def __init__(self, plan: Plan, journal: Journal, progress: Progress) -> None:
        self._questions = plan.selection.questions
        self._extractor = plan.extractor
        self._journal = journal
        self._progress = progress
        self._observations: dict[int, Observation] = {}
        self._correct = 0
        self._lost = 0

    @property
    def done(self) -> int:
        """How many questions are finished."""
        return len(self._observations)

    def add(self, answer: Answer) -> Status:
        """Score one answer, write it to the journal, then count it; how its question ended."""
        observation = observe(answer, self._questions[answer.index], self._extractor)
        self._journal.append(observation)
        self._observations[answer.index] = observation
        self._correct += observation.status is Status.CORRECT
        self._lost += observation.status is Status.LOST
        self._progress.answered(self.done, len(self._questions), self._correct, self._lost)
        return observation.status

    def finished(self) -> tuple[Observation, ...]:
        """The finished questions alone, in asking order: of a run that needed no more."""
        return tuple(self._observations[index] for index in sorted(self._observations))

    def in_order(self, failure: InfraError | None) -> tuple[Observation, ...]:
        """One observation per question, in asking order; what was never finished is lost."""
        why = "never asked" if failure is None else failure.message
        return tuple(
            self._observations.get(index) or _never_asked(question, why)
            for index, question in enumerate(self._questions)
        )


def observe(answer: Answer, question: Question, extractor: Extractor) -> Observation:
    """The observation of one question. A lost answer is never scored."""
    result = answer.result
    if isinstance(result, Failure):
        return Observation(
            question_id=question.id,
            status=Status.LOST,
            expected=_expected(question),
            attempts=answer.attempts,
            failure=result,
        )
    scored = extractor.score(result, question)
    return Observation(
        question_id=question.id,
        status=scored.status,
        expected=_expected(question),
        predicted=scored.predicted,
        detail=scored.detail,
        text=result.text,
        reasoning=result.reasoning,
        finish_reason=result.finish_reason,
        prompt_tokens=result.prompt_tokens,
        completion_tokens=result.completion_tokens,
        latency_s=None if answer.latency_s is None else round(answer.latency_s, 6),
        attempts=answer.attempts,
    )


def suspicions(observations: tuple[Observation, ...]) -> tuple[str, ...]:
    """What is wrong with the answers as a whole: all the same, all empty; and why answers were lost, by kind."""
    texts = [(seen.text or "").strip() for seen in observations if seen.failure is None]
    return (*_sameness(texts), *_losses(observations))


def _sameness(texts: list[str]) -> Iterator[str]:
    if texts and not any(texts):
        yield "every answer is empty: a parser fault?"
    elif len(texts) >= _ENOUGH_TO_SUSPECT:
        text, times = Counter(texts).most_common(1)[0]
        share = times / len(texts)
        if share >= _SAME_SHARE:
            yield f"{100 * share:.0f}% " + ("identical outputs" if text else "empty answers: a parser fault?")


def _losses(observations: tuple[Observation, ...]) -> Iterator[str]:
    """One line per kind of failure: how many, the first one's detail, and which questions."""
    kinds: dict[FailureKind, list[Observation]] = {}
    for seen in observations:
        if seen.failure is not None and seen.failure.kind is not FailureKind.NOT_ASKED:
            kinds.setdefault(seen.failure.kind, []).append(seen)
    for kind, lost in kinds.items():
        assert lost[0].failure is not None
        more = ", ..." if len(lost) > _SHOWN_IDS else ""
        ids = ", ".join(str(seen.question_id) for seen in lost[:_SHOWN_IDS]) + more
        yield f"{len(lost)} lost by {kind.value}: {lost[0].failure.detail[:_SHOWN_DETAIL]}; questions {ids}"


def _expected(question: Question) -> str:
    return question.reference.rpartition("####")[2].strip()


def _never_asked(question: Question, why: str) -> Observation:
    failure = Failure(kind=FailureKind.NOT_ASKED, detail=why[:_REASON_CHARACTERS])
    return Observation(
        question_id=question.id, status=Status.LOST, expected=_expected(question), attempts=0, failure=failure
    )
