"""What was asked and what came back: questions, observations, and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

Cell = tuple[int, int]
"""One answer of a run: the question's id, and which repeat of it, from 0."""


class Status(StrEnum):
    """How a question ended; exactly one of these. Only `lost` is infrastructure."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    TRUNCATED = "truncated"
    LOST = "lost"


class FailureKind(StrEnum):
    """Why a request brought no answer."""

    REFUSED = "refused"
    DNS = "dns"
    TLS = "tls"
    DISCONNECTED = "disconnected"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    REJECTED = "rejected"
    REDIRECT = "redirect"
    NOT_JSON = "not_json"
    BAD_SHAPE = "bad_shape"
    TOO_LARGE = "too_large"
    WRONG_MODEL = "wrong_model"
    ABORTED = "aborted"
    EMPTY = "empty"
    UNCONFIRMED = "unconfirmed"
    NOT_ASKED = "not_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row of a dataset: its zero-based row number, the question, the reference answer as written."""

    id: int
    text: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is sent for one question: `text` for completions, or `messages` as (role, content) for chat."""

    question_id: int
    text: str | None = None
    messages: tuple[tuple[str, str], ...] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.messages is None):
            raise ValueError("a prompt is either a text or messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that brought no answer: its kind, and one sentence of detail without secrets."""

    kind: FailureKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer of a server, as it came. Unknown is None, never 0; `first_token_s` is known of a stream alone."""

    text: str | None
    reasoning: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    has_tool_calls: bool = False
    first_token_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One question's outcome with all that came back for it. `expected` is the reference's answer as written.

    `repeat` says which one this is, from 0, of a question that is asked several times.
    """

    question_id: int
    repeat: int = 0
    status: Status
    expected: str | None = None
    predicted: str | None = None
    detail: str | None = None
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_s: float | None = None
    first_token_s: float | None = None
    attempts: int
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if (self.status is Status.LOST) != (self.failure is not None):
            raise ValueError("a question is lost if and only if it has a failure")

    @property
    def cell(self) -> Cell:
        """Which answer this is."""
        return self.question_id, self.repeat


def as_lost(seen: Observation, why: Failure) -> Observation:
    """The observation of an answer that is not believed: lost for this reason, its text kept to be read."""
    return replace(
        seen, status=Status.LOST, failure=why, predicted=None, detail=None, latency_s=None, first_token_s=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How the planned n answers ended; n is the sum of the rest, always. A question asked R times is R of them.

    `unasked` are those that a run which stopped early did not need; they are not lost.
    """

    n: int
    correct: int
    wrong: int
    no_answer: int
    truncated: int
    lost: int
    unasked: int = 0

    def __post_init__(self) -> None:
        parts = (self.correct, self.wrong, self.no_answer, self.truncated, self.lost, self.unasked)
        if min(parts) < 0 or sum(parts) != self.n:
            raise ValueError(f"counts do not add up: {parts} against n={self.n}")


def tally(statuses: Sequence[Status | None]) -> Counts:
    """How many questions ended in each status; None is one that was not asked."""
    parts = {status.value: sum(found is status for found in statuses) for status in Status}
    return Counts(n=len(statuses), unasked=sum(found is None for found in statuses), **parts)


def cells(question_ids: Sequence[int]) -> Iterator[Cell]:
    """Every answer that is planned; an id that is named again is the next repeat of its question.

    >>> list(cells([7, 3, 7, 3]))
    [(7, 0), (3, 0), (7, 1), (3, 1)]
    """
    times: dict[int, int] = {}
    for question_id in question_ids:
        repeat = times.get(question_id, 0)
        times[question_id] = repeat + 1
        yield question_id, repeat


def statuses(observations: Sequence[Observation], question_ids: Sequence[int]) -> tuple[Status | None, ...]:
    """How each answer ended, in the order of `question_ids`; None for one that was not asked for."""
    found = {observation.cell: observation.status for observation in observations}
    return tuple(map(found.get, cells(question_ids)))


def count(observations: tuple[Observation, ...], *, planned: int | None = None) -> Counts:
    """How many of the observations ended in each status; with `planned` questions, the rest are unasked."""
    tally: Mapping[Status, int] = Counter(o.status for o in observations)
    parts = {status.value: tally.get(status, 0) for status in Status}
    n = len(observations) if planned is None else planned
    return Counts(n=n, unasked=n - len(observations), **parts)
