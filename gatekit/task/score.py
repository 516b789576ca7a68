"""Scoring: one completion against one question's reference, by an extractor chosen by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from gatekit.records.answers import Completion, Question, Status
from gatekit.task.extract import extract
from gatekit.task.legacy import LEGACY, LegacyReader
from gatekit.task.numbers import format_value, read_reference

EMPTY = "empty"  # the detail of an answer without any text
TOOL_CALL = "tool_call"  # and that of one that calls a tool instead
MAX_PREDICTED_CHARS = 200  # a legacy extractor may "read" a megabyte; records keep the beginning of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """How one answered question ended; `predicted` is the canonical value read, `detail` where or why."""

    status: Status
    predicted: str | None = None
    detail: str | None = None


class Extractor(Protocol):
    """A way to read answers. `version` changes when any answer could read differently: it enters the key."""

    @property
    def name(self) -> str:
        """The name a protocol calls it by."""

    @property
    def version(self) -> str:
        """The name with the version of its behaviour."""

    def score(self, completion: Completion, question: Question) -> Scored:
        """The outcome of a question that was answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatekitExtractor:
    """Exact values; of an answer cut off at the token limit only an explicit one counts."""

    name: str = "gatekit"
    version: str = "gatekit-1"

    def score(self, completion: Completion, question: Question) -> Scored:
        """Correct or wrong by exact equality; else truncated or no_answer (tool_call, empty, unparsed)."""
        text = completion.text
        if text is None or not text.strip():
            return _without_text(completion)
        found = extract(text)
        if found.value is None:
            return _unread(completion)
        predicted = format_value(found.value)
        if _is_cut_off(completion) and not found.explicit:
            return Scored(status=Status.TRUNCATED, detail="length")
        status = Status.CORRECT if found.value == _reference_value(question.reference) else Status.WRONG
        return Scored(status=status, predicted=predicted, detail=found.source.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyExtractor:
    """Another harness's reading, truncated answers included: whatever it reads is scored."""

    name: str
    version: str
    reader: LegacyReader

    def score(self, completion: Completion, question: Question) -> Scored:
        """Correct or wrong as the other harness would say; nothing read is no_answer or truncated."""
        text = completion.text
        if text is None or not text.strip():
            return _without_text(completion)
        value = self.reader.answer(text)
        if value is None:
            return _unread(completion)
        status = Status.CORRECT if value == self.reader.reference(question.reference) else Status.WRONG
        return Scored(status=status, predicted=value[:MAX_PREDICTED_CHARS], detail=self.name)


def _is_cut_off(completion: Completion) -> bool:
    return completion.finish_reason == "length"


def _without_text(completion: Completion) -> Scored:
    if completion.has_tool_calls:
        return Scored(status=Status.NO_ANSWER, detail=TOOL_CALL)
    if _is_cut_off(completion):
        return Scored(status=Status.TRUNCATED, detail="length")
    return Scored(status=Status.NO_ANSWER, detail=EMPTY)


def _unread(completion: Completion) -> Scored:
    if _is_cut_off(completion):
        return Scored(status=Status.TRUNCATED, detail="length")
    return Scored(status=Status.NO_ANSWER, detail="unparsed")


@lru_cache(maxsize=16384)
def _reference_value(reference: str) -> Fraction:
    value = read_reference(reference)
    if value is None:
        raise ValueError("the reference holds no single number after one '####'; the dataset reader refuses such rows")
    return value


EXTRACTORS: Mapping[str, Extractor] = {
    "gatekit": GatekitExtractor(),
    **{name: LegacyExtractor(name=name, version=f"{name}-1", reader=reader) for name, reader in LEGACY.items()},
}
