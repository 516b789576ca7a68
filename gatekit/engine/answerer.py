"""Who answers behind the bundled server: a simulated model, or a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gatekit.engine.answer_config import AnswerConfig
from gatekit.engine.chance import uniform
from gatekit.engine.generation import Ended, Limits, before_stop, generate, tokens
from gatekit.engine.replay import Recording, read_answers
from gatekit.engine.sim import chances, right_questions, sampled_words, wrong_reference
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Question
from gatekit.records.spec import EngineKind

UNKNOWN = "I do not know."


class Answerer(Protocol):
    """Answers known questions."""

    def answer(self, question: Question, limits: Limits, repeat: int) -> Ended | None:
        """The answer within the limits; None when there is none and the request must fail.

        `repeat` says which one this is, from 0, of a question that is asked several times.
        """


class Sampling:
    """A model whose every question has a chance of its own; each of its repeats is a draw by itself."""

    def __init__(self, config: AnswerConfig, questions: Sequence[Question]) -> None:
        self._config = config
        self._chances = chances(
            [question.text for question in questions],
            accuracy=config.accuracy,
            dispersion=config.dispersion,
            seed=config.seed,
        )

    def answer(self, question: Question, limits: Limits, repeat: int) -> Ended:
        """The reference, or a slip of it, by the draw of this seed or, without one, of this repeat."""
        occasion = repeat + (self._config.first_seed or 0)
        flip_seed, text = self._config.flip_seed, question.reference
        if uniform(flip_seed, "repeat", occasion, question.text) >= self._chances[question.text]:
            text = wrong_reference(text, seed=self._config.seed + occasion)
        return generate(sampled_words(text, flip_seed=flip_seed, occasion=occasion), limits)


class Simulated:
    """A model of a stated accuracy that answers with the reference, or with a slip of it."""

    def __init__(self, config: AnswerConfig, questions: Sequence[Question]) -> None:
        self._config = config
        self._right = right_questions(
            [question.text for question in questions],
            accuracy=config.accuracy,
            dispersion=config.dispersion,
            seed=config.seed,
            flip_seed=config.flip_seed,
        )

    def answer(self, question: Question, limits: Limits, repeat: int) -> Ended:
        """The reference for a question that is answered right, a slip of it for any other."""
        if question.text in self._right:
            return generate(question.reference, limits)
        return generate(wrong_reference(question.reference, seed=self._config.seed), limits)


class Recorded:
    """Completions as they once came; stop strings apply, the token limit was applied when they were made."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def answer(self, question: Question, limits: Limits, repeat: int) -> Ended | None:
        """The recorded completion of this repeat, None when it was lost."""
        completion = self._recording.find(question, repeat)
        if completion is None:
            return None
        if completion.text is None:
            return Ended(completion=completion)
        text, stop_reason = before_stop(completion.text, limits.stop)
        if stop_reason is None:
            return Ended(completion=completion)
        cut = Completion(
            text=text,
            finish_reason="stop",
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=tokens(text),
        )
        return Ended(completion=cut, stop_reason=stop_reason)


def answerer(config: AnswerConfig, questions: Sequence[Question]) -> Answerer:
    """The one the config asks for. Raises InfraError when its recording has changed since it was checked."""
    if config.kind is EngineKind.SIM:
        return Simulated(config, questions) if config.repeats == 1 else Sampling(config, questions)
    recording = read_answers(Path(config.answers or ""), config.variant)
    if config.answers_sha256 not in (None, recording.sha256):
        raise InfraError(f"{config.answers} changed while it was being served", reason="answers-changed")
    return Recorded(recording)
