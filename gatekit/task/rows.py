"""Dataset files: a JSON Lines file read within limits, every row checked before anything starts."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Question
from gatekit.records.canonical import canonical_json
from gatekit.task.numbers import read_reference

MAX_FILE_BYTES = 64 * 2**20
MAX_LINE_BYTES = 2**20

_REPLACE = "restore the file, or point task.path at an intact copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRows:
    """The questions of one file, the sha256 of its bytes, and the digest of its rows in any spelling."""

    questions: tuple[Question, ...]
    sha256: str
    rows_digest: str


def read_rows(path: Path) -> SplitRows:
    """Every row of the file at `path` as a Question.

    Raises InfraError for a damaged file, with the line; ConfigError for what is no dataset at all: no regular
    file, too large, empty, or with two identical rows.
    """
    content = _read_limited(path)
    questions = tuple(
        Question(id=index, text=text, reference=reference)
        for index, (text, reference) in enumerate(_parsed(content, path))
    )
    if not questions:
        raise ConfigError.one(
            f"{_shown(path)} has no rows",
            reason="dataset-empty",
            hint="give a folder with a filled test.jsonl",
        )
    _refuse_duplicates(questions, path)
    return SplitRows(
        questions=questions, sha256=hashlib.sha256(content).hexdigest(), rows_digest=rows_digest(questions)
    )


def rows_digest(questions: tuple[Question, ...]) -> str:
    """`sha256:...` of the questions and answers in order, the same for any line ending, spacing or escape."""
    hashed, sign = hashlib.sha256(b"["), b""
    for question in questions:  # one by one: their JSON at once would be the largest thing in a run's memory
        hashed.update(sign + canonical_json({"question": question.text, "answer": question.reference}))
        sign = b","
    hashed.update(b"]")
    return f"sha256:{hashed.hexdigest()}"


def _read_limited(path: Path) -> bytes:
    """The bytes of a regular file of at most 64 MiB. A device or pipe is never read from."""
    try:
        with _opened(path) as handle:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError.one(
                    f"{_shown(path)} is not a regular file", reason="dataset-not-a-file", hint=_REPLACE
                )
            content = _bytes_of(handle) if status.st_size <= MAX_FILE_BYTES else None
    except OSError as error:
        raise InfraError(
            f"cannot read {_shown(path)}: {error.strerror or type(error).__name__}",
            reason="dataset-unreadable",
            hint="check the file and its permissions",
        ) from error
    if content is None or len(content) > MAX_FILE_BYTES:
        raise ConfigError.one(
            f"{_shown(path)} is larger than the limit of {MAX_FILE_BYTES // 2**20} MiB for a dataset file",
            reason="dataset-too-large",
            hint="point task.path at a folder with the real test.jsonl and train.jsonl",
        )
    return content


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor of the file: opening a pipe must not block, and only a regular file is read."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def _bytes_of(handle: int) -> bytes:
    """All bytes, or one more than the limit of a file that grew meanwhile."""
    with os.fdopen(handle, "rb", closefd=False) as file:
        return file.read(MAX_FILE_BYTES + 1)


def _parsed(content: bytes, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(io.BytesIO(content.removeprefix(b"\xef\xbb\xbf")), start=1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE_BYTES:
            raise ConfigError.one(
                f"{_shown(path)}:{number}: the line is longer than the limit of 1 MiB",
                reason="dataset-too-large",
                hint=_REPLACE,
            )
        try:
            yield _parse_row(line)
        except ValueError as error:
            raise InfraError(f"{_shown(path)}:{number}: {error}", reason="dataset-bad-row", hint=_REPLACE) from error


def _parse_row(line: bytes) -> tuple[str, str]:
    """The question and the answer of one row. Raises ValueError with what is wrong with it."""
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start} of the line") from error
    except (ValueError, RecursionError) as error:
        raise ValueError("not a complete JSON object") from error
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - one kind of error for every fault of a row
    question, answer = _text_field(row, "question"), _text_field(row, "answer")
    if answer.count("####") != 1:
        raise ValueError(f"the answer has {answer.count('####')} '####' marks; it needs exactly one")
    if read_reference(answer) is None:
        raise ValueError("the answer has no number after '####'")
    return question, answer


def _text_field(row: dict[str, object], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        problem = f"the row's '{field}' is not a text" if field in row else f"the row has no field '{field}'"
        raise ValueError(problem)  # noqa: TRY004 - one kind of error for every fault of a row
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"the row's '{field}' holds half a surrogate pair") from error
    return value


def _refuse_duplicates(questions: tuple[Question, ...], path: Path) -> None:
    first: dict[tuple[str, str], int] = {}
    for question in questions:
        earlier = first.setdefault((question.text, question.reference), question.id)
        if earlier != question.id:
            raise ConfigError.one(
                f"{_shown(path)}: rows {earlier + 1} and {question.id + 1} are identical, "
                "so one question would count twice",
                reason="dataset-duplicate-rows",
                hint="remove one of them",
            )


def _shown(path: Path) -> str:
    """The path without characters that could control a terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in str(path))
