"""Which questions are asked, in which order, and which worked examples are shown."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gatekit.errors import ConfigError
from gatekit.records.answers import Question
from gatekit.records.spec import Protocol, ShotOverlap, ShotSource, Task
from gatekit.task.dataset import QuestionSet, said_rows

MOST_ANSWERS = 1_000_000
"""How many answers a run may ask for, questions times repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The questions in asking order, the shots in showing order, and what a reader of the score must know."""

    questions: tuple[Question, ...]
    shots: tuple[Question, ...]
    warnings: tuple[str, ...] = ()


def needs_train(protocol: Protocol) -> bool:
    """Whether the protocol's worked examples come from the train split."""
    return protocol.shots > 0 and protocol.shots_source is ShotSource.TRAIN


def select(questions: QuestionSet, task: Task, protocol: Protocol) -> Selection:
    """The first n test questions, or a seeded permutation of just these, and the first k shots.

    Raises ConfigError when more questions or shots are asked for than there are, when repeats make them too many
    answers, and when a shot would be evaluated although `protocol.shots_overlap` does not allow it.
    """
    shots = _shots(questions, protocol)
    skipped = protocol.shots if _skips(protocol) else 0
    asked = questions.test[skipped:][: _count(len(questions.test), task, skipped)]
    _check_answers(len(asked), protocol.repeats)
    if task.order_seed is not None:
        asked = _permuted(asked, task.order_seed)
    return Selection(questions=asked, shots=shots, warnings=_overlap_warnings(asked, shots, protocol))


def check_n(task: Task, protocol: Protocol, rows: int) -> None:
    """Raises the ConfigError of `select` when a test split of so many rows does not suffice, or asks for too much."""
    _check_answers(_count(rows, task, protocol.shots if _skips(protocol) else 0), protocol.repeats)


def said_questions(task: Task, protocol: Protocol) -> int | None:
    """How many questions a spec asks for, whether there are as many or not; None where only a file tells."""
    if task.n is not None:
        return task.n
    rows = said_rows(task, "test")
    return None if rows is None else max(0, rows - (protocol.shots if _skips(protocol) else 0))


def _check_answers(questions: int, repeats: int) -> None:
    if repeats == 1 or questions * repeats <= MOST_ANSWERS:
        return
    raise ConfigError.one(
        f"protocol.repeats is {repeats}, and {repeats} x {questions:,} answers are more than {MOST_ANSWERS:,}",
        reason="too-many-answers",
        hint=f"set protocol.repeats={max(1, MOST_ANSWERS // questions)} or less, or a smaller task.n",
    )


def _skips(protocol: Protocol) -> bool:
    return protocol.shots_source is ShotSource.TEST_HEAD and protocol.shots_overlap is ShotOverlap.SKIP


def _shots(questions: QuestionSet, protocol: Protocol) -> tuple[Question, ...]:
    source = questions.train if protocol.shots_source is ShotSource.TRAIN else questions.test
    check_shots(protocol, len(source), questions.name)
    return source[: protocol.shots]


def check_shots(protocol: Protocol, rows: int, dataset: str) -> None:
    """Raises ConfigError (`too-many-shots`) when the split that the shots come from, of so many rows, is too short."""
    if protocol.shots > rows:
        split = "train" if protocol.shots_source is ShotSource.TRAIN else "test"
        raise ConfigError.one(
            f"protocol.shots is {protocol.shots:,} but {dataset} has {rows:,} {split} rows to take them from",
            reason="too-many-shots",
            hint="lower protocol.shots or give a folder with a larger split as task.path",
        )


def _count(rows: int, task: Task, skipped: int) -> int:
    """How many questions are asked; never capped in silence."""
    available = max(0, rows - skipped)
    n = available if task.n is None else task.n
    if 1 <= n <= available:
        return n
    shown = f", of which {skipped:,} are shown as worked examples" if skipped else ""
    raise ConfigError.one(
        f"task.n is {n:,} but the dataset has {rows:,} test questions{shown}: from 1 to {available:,} can be asked",
        reason="n-out-of-range",
        hint=f"set task.n={available} or less, or task.n=null for all of them",
    )


def _permuted(asked: tuple[Question, ...], seed: int) -> tuple[Question, ...]:
    order = list(asked)
    Random(seed).shuffle(order)  # noqa: S311 - a reproducible order, not a secret
    return tuple(order)


def _overlap_warnings(asked: tuple[Question, ...], shots: tuple[Question, ...], protocol: Protocol) -> tuple[str, ...]:
    """What to say about shots that are also evaluated; ConfigError unless leaking was asked for."""
    shown = {shot.text for shot in shots}
    leaked = sorted(question.id for question in asked if question.text in shown)
    if not leaked:
        return ()
    rows = _rows(leaked)
    if protocol.shots_overlap is ShotOverlap.LEAK:
        return (
            f"{len(leaked)} of the {len(asked):,} evaluated questions (test {rows}) are also shown as worked "
            f"examples, with their answers: the score is too high by up to {len(leaked) / len(asked):.3f} "
            "and compares only with runs that leak the same way",
        )
    raise ConfigError.one(
        f"{len(leaked)} of the worked examples would also be evaluated (test {rows})",
        reason="shots-overlap",
        hint="set protocol.shots_source=train, or protocol.shots_overlap=skip to leave these questions out",
    )


def _rows(ids: list[int]) -> str:
    """`row 3`, `rows 0-4` or `rows 0, 3 and 5 more`, counted from zero as the records do."""
    if len(ids) == 1:
        return f"row {ids[0]}"
    if ids == list(range(ids[0], ids[-1] + 1)):
        return f"rows {ids[0]}-{ids[-1]}"
    more = f" and {len(ids) - 2} more" if len(ids) > 2 else ""
    return f"rows {ids[0]}, {ids[1]}{more}"
