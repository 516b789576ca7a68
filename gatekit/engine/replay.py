"""Recorded completions: of a gatekit record, or of OpenAI's example model solutions."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gatekit.engine.generation import tokens
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Cell, Completion, Observation, Question, Status
from gatekit.records.canonical import Plain
from gatekit.records.run import RECORD_FORMAT, RunRecord, record_from_plain

MOST_BYTES = 128 * 2**20
_BROKEN = (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Completions by question id and repeat (of a record) or by question text (of solutions).

    `sha256` is that of the file; `dataset` is what the ids of a record count in, None for solutions. `repeats` is how
    often each question was asked.
    """

    by_cell: Mapping[Cell, Completion]
    by_text: Mapping[str, Completion]
    sha256: str
    dataset: str | None
    repeats: int = 1

    def find(self, question: Question, repeat: int = 0) -> Completion | None:
        """What was answered to the question that time; None when it was lost or never asked for."""
        return self.by_cell.get((question.id, repeat)) or (self.by_text.get(question.text) if repeat == 0 else None)


def read_answers(path: Path, variant: str | None) -> Recording:
    """The recording in a gatekit record.json, or one column of an example_model_solutions.jsonl.

    Raises ConfigError when the file is missing, no regular file or too large, or when `variant` is not one
    of its columns (a record has none); InfraError when the file cannot be read or is corrupt.
    """
    content = _read(path)
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        document = json.loads(content)
    except _BROKEN:
        document = None
    if isinstance(document, dict) and "observations" in document:
        record = _record(path, document, variant)
        repeats = record.spec.protocol.repeats
        name = record.dataset.name
        return Recording(by_cell=_answered(record), by_text={}, sha256=sha256, dataset=name, repeats=repeats)
    return Recording(by_cell={}, by_text=_solutions(path, content, variant), sha256=sha256, dataset=None)


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise _unusable(path, "does not exist") from None
    except OSError as problem:
        raise _unreadable(path, problem) from problem
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "is no regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            content = file.read(MOST_BYTES + 1)
        except OSError as problem:
            raise _unreadable(path, problem) from problem
    if len(content) > MOST_BYTES:
        raise _unusable(path, f"is larger than {MOST_BYTES // 2**20} MiB")
    return content


def _record(path: Path, document: Plain, variant: str | None) -> RunRecord:
    if variant is not None:
        raise ConfigError.one(
            f"engine.variant is {variant!r}, but {path} is a run record, which has no variants",
            reason="unknown-variant",
            hint="set engine.variant=null",
        )
    made_by = document.get("format")
    if isinstance(made_by, int) and made_by > RECORD_FORMAT:
        _corrupt(path, f"is a record of format {made_by}, made by a newer gatekit", hint="update gatekit")
    try:
        return record_from_plain(document)
    except _BROKEN as problem:
        _corrupt(path, f"is not an intact run record ({str(problem)[:200]})")


def _answered(record: RunRecord) -> dict[Cell, Completion]:
    answered = (seen for seen in record.observations if seen.status is not Status.LOST)
    return {seen.cell: _completion(seen) for seen in answered}


def _completion(seen: Observation) -> Completion:
    return Completion(
        text=seen.text,
        reasoning=seen.reasoning,
        finish_reason=seen.finish_reason,
        prompt_tokens=seen.prompt_tokens,
        completion_tokens=seen.completion_tokens,
        # Without a text an answer is kept only when it called a tool or was cut while still reasoning.
        has_tool_calls=seen.text is None and seen.status is Status.NO_ANSWER,
    )


def _solutions(path: Path, content: bytes, variant: str | None) -> dict[str, Completion]:
    answers: dict[str, Completion] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            row = _row(path, number, line)
            if not answers:
                _check_variant(path, row, variant)
            solution = _solution(path, number, row, variant)
            answers[row["question"]] = Completion(
                text=solution, finish_reason="stop", completion_tokens=tokens(solution)
            )
    if not answers:
        _corrupt(path, "holds no answers")
    return answers


def _row(path: Path, number: int, line: bytes) -> dict[str, Plain]:
    try:
        row = json.loads(line)
    except _BROKEN:
        _corrupt(path, f"is not JSON in line {number}")
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        _corrupt(path, f"has no question in line {number}")
    return row


def _check_variant(path: Path, row: Mapping[str, Plain], variant: str | None) -> None:
    valid = [name for name, cell in row.items() if isinstance(cell, dict) and "solution" in cell]
    if not valid:
        _corrupt(path, "is neither a run record nor a file of model solutions")
    if variant not in valid:
        raise ConfigError.one(
            f"engine.variant is not one of {path}" if variant else f"{path} holds several variants",
            reason="unknown-variant",
            hint=f"set engine.variant to one of {', '.join(valid)}",
        )


def _solution(path: Path, number: int, row: Mapping[str, Plain], variant: str | None) -> str:
    cell = row.get(variant or "")
    if not isinstance(cell, dict) or not isinstance(cell.get("solution"), str):
        _corrupt(path, f"has no solution of {variant} in line {number}")
    solution: str = cell["solution"]
    return solution


def _unusable(path: Path, why: str) -> ConfigError:
    return ConfigError.one(
        f"engine.answers: {path} {why}",
        reason="answers-file",
        hint="name a run's record.json or an example_model_solutions.jsonl",
    )


def _unreadable(path: Path, problem: OSError) -> InfraError:
    return InfraError(
        f"cannot read {path}: {problem.strerror}",
        reason="answers-unreadable",
        hint="check the file's owner and mode",
    )


def _corrupt(path: Path, why: str, *, hint: str = "restore the file or name another in engine.answers") -> NoReturn:
    raise InfraError(f"engine.answers: {path} {why}", reason="answers-corrupt", hint=hint)
