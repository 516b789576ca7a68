"""From answers, as they arrive, to observations: scored, journalled, counted."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind, Observation, Question, Status, as_lost, cells
from gatekit.report.by_question import is_repeated, named
from gatekit.run.empties import is_empty
from gatekit.run.journal import Journal
from gatekit.run.kept_text import kept_reasoning
from gatekit.run.loop import Answer
from gatekit.run.plan import Plan
from gatekit.run.progress import Progress
from gatekit.run.repeated_texts import same_every_time
from gatekit.task.score import Extractor

_REASON_CHARACTERS = 200
_ENOUGH_TO_SUSPECT = 20
_SAME_SHARE = 0.9
_SHOWN_IDS = 20
_SHOWN_DETAIL = 120


class _Tally(NamedTuple):
    """How many questions are finished, and how; one is made for each answer, which a dataclass is slow at."""

    done: int = 0
    correct: int = 0
    lost: int = 0
    empty: int = 0


class Observer:
    """Takes the answers of one run, after those of its earlier parts; a question that these lost counts as open.

    A place is that of an answer: all questions in asking order, as often as they are repeated.
    """

    def __init__(self, plan: Plan, journal: Journal, progress: Progress, before: Sequence[Observation] = ()) -> None:
        self._questions = plan.selection.questions
        self._planned = plan.answers
        self._extractor = plan.extractor
        self._journal = journal
        self._progress = progress
        self._observations: dict[int, Observation] = {}
        self._lost_before: dict[int, Observation] = {}
        self._tally = _Tally()
        self._not_yet_told: deque[tuple[int, _Tally]] = deque()
        index_of = {cell: index for index, cell in enumerate(cells(plan.dataset.question_ids))} if before else {}
        for seen in before:
            self._take_back(index_of.get(seen.cell), seen)

    @property
    def answered(self) -> int:
        """How many questions brought an answer."""
        return self._tally.done - self._tally.lost

    @property
    def missing(self) -> tuple[int, ...]:
        """The places of the questions that are still to be asked."""
        return tuple(index for index in range(self._planned) if index not in self._observations)

    @property
    def planned(self) -> int:
        """How many answers a whole run has."""
        return self._planned

    def ended(self) -> Iterator[tuple[int, Observation]]:
        """Every question that was asked to its end, by its place, those that an earlier part lost included."""
        yield from self._lost_before.items()
        yield from self._observations.items()

    def in_order_of_completion(self) -> Iterator[tuple[int, Observation]]:
        """Every finished question by its place."""
        return iter(self._observations.items())

    def add(self, answer: Answer) -> Observation:
        """Score one answer, write it to the journal, then count it. What is told of it waits for the disk."""
        question, repeat = self._place(answer.index)
        observation = observe(answer, question, self._extractor, repeat=repeat)
        before = self._lost_before.pop(answer.index, None)
        if before is not None:
            observation = replace(observation, attempts=before.attempts + observation.attempts)
        self._journal.answer(observation)
        self._count(answer.index, observation)
        self._not_yet_told.append((self._journal.written, self._tally))
        return observation

    def lose(self, places: Iterable[int], why: Failure) -> None:
        """Count the answers at these places as lost: for this run, not in the journal."""
        for place in places:
            seen = self._observations.get(place)
            if seen is not None and seen.status is not Status.LOST:
                self._observations[place] = as_lost(seen, why)

    def tell(self) -> None:
        """Tell of those answers that are on the disk."""
        told: _Tally | None = None
        while self._not_yet_told and self._not_yet_told[0][0] <= self._journal.synced:
            told = self._not_yet_told.popleft()[1]
        if told is not None:
            self._progress.answered(told.done, self._planned, told.correct, told.lost, told.empty)

    def tell_all(self) -> None:
        """Bring every answer to the disk and tell of all. Raises InfraError as the journal does."""
        self._journal.sync()
        self._not_yet_told.clear()
        told = self._tally
        if told.done:
            self._progress.answered(told.done, self._planned, told.correct, told.lost, told.empty)

    def _place(self, index: int) -> tuple[Question, int]:
        """The question and which repeat of it."""
        repeat, number = divmod(index, len(self._questions))
        return self._questions[number], repeat

    def _take_back(self, index: int | None, seen: Observation) -> None:
        if index is None or _expected(self._place(index)[0]) != seen.expected:
            what = f"the journal {self._journal.path} is broken: it answers question {seen.question_id}, never asked so"
            raise InfraError(what, reason="journal-broken", hint="run again under another run id")
        if seen.status is Status.LOST:
            self._lost_before[index] = seen
        else:
            self._count(index, seen)

    def _count(self, index: int, seen: Observation) -> None:
        self._observations[index] = seen
        tally = self._tally
        self._tally = _Tally(
            done=tally.done + 1,
            correct=tally.correct + (seen.status is Status.CORRECT),
            lost=tally.lost + (seen.status is Status.LOST),
            empty=tally.empty + is_empty(seen),
        )

    def finished(self) -> tuple[Observation, ...]:
        """The finished questions alone, in asking order: of a run that needed no more."""
        return tuple(self._observations[index] for index in sorted(self._observations))

    def in_order(self, failure: InfraError | None) -> tuple[Observation, ...]:
        """One observation per question and repeat, in asking order; what was never finished is lost."""
        why = "never asked" if failure is None else failure.message
        return tuple(
            self._observations.get(index) or self._lost_before.get(index) or _never_asked(*self._place(index), why)
            for index in range(self._planned)
        )


def observe(answer: Answer, question: Question, extractor: Extractor, *, repeat: int = 0) -> Observation:
    """The observation of one answer to a question. A lost answer is never scored."""
    result = answer.result
    if isinstance(result, Failure):
        return Observation(
            question_id=question.id,
            repeat=repeat,
            status=Status.LOST,
            expected=_expected(question),
            attempts=answer.attempts,
            failure=result,
        )
    scored = extractor.score(result, question)
    return Observation(
        question_id=question.id,
        repeat=repeat,
        status=scored.status,
        expected=_expected(question),
        predicted=scored.predicted,
        detail=scored.detail,
        text=result.text,
        reasoning=kept_reasoning(result.reasoning),
        finish_reason=result.finish_reason,
        prompt_tokens=result.prompt_tokens,
        completion_tokens=result.completion_tokens,
        latency_s=None if answer.latency_s is None else round(answer.latency_s, 6),
        first_token_s=None if result.first_token_s is None else round(result.first_token_s, 6),
        attempts=answer.attempts,
    )


def suspicions(observations: tuple[Observation, ...]) -> tuple[str, ...]:
    """What is wrong with the answers as a whole: all the same, all empty; and why answers were lost, by kind."""
    texts = [(seen.text or "").strip() for seen in observations if seen.failure is None]
    return (*_sameness(texts), *same_every_time(observations), *_losses(observations))


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
    repeated = is_repeated(observations)
    for seen in observations:
        if seen.failure is not None and seen.failure.kind is not FailureKind.NOT_ASKED:
            kinds.setdefault(seen.failure.kind, []).append(seen)
    for kind, lost in kinds.items():
        assert lost[0].failure is not None
        more = ", ..." if len(lost) > _SHOWN_IDS else ""
        ids = ", ".join(named(seen.cell, is_repeated=repeated) for seen in lost[:_SHOWN_IDS]) + more
        yield f"{len(lost)} lost by {kind.value}: {lost[0].failure.detail[:_SHOWN_DETAIL]}; questions {ids}"


def _expected(question: Question) -> str:
    return question.reference.rpartition("####")[2].strip()


def _never_asked(question: Question, repeat: int, why: str) -> Observation:
    failure = Failure(kind=FailureKind.NOT_ASKED, detail=why[:_REASON_CHARACTERS])
    return Observation(
        question_id=question.id,
        repeat=repeat,
        status=Status.LOST,
        expected=_expected(question),
        attempts=0,
        failure=failure,
    )
