"""Old nightly numbers from a file that nobody vouches for: JSON lines or CSV, read whole or refused whole.

Columns: `finished_at`, `n`, and `correct` or `accuracy`; optionally `run_id` and `build`. Others are named and left
out.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

from gatekit.errors import ConfigError, Problem
from gatekit.history.foreign_lines import foreign_lines
from gatekit.history.records_folder import RUN_ID_PATTERN
from gatekit.records.moment import utc

MAX_TOTALS_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_REQUIRED = ("finished_at", "n")
_KNOWN = (*_REQUIRED, "correct", "accuracy", "run_id", "build")
_OF_AN_EXPORT = ("comparability", "comparability_key", "digest", "lost", "unasked")
_MOST_PROBLEMS = 20
_MAX_BUILD_CHARACTERS = 200
_SHOWN_CHARACTERS = 40
_OTHER_SEPARATORS = (";", "\t", "|")
_COUNT = re.compile(r"\d{1,7}", re.ASCII)
_SHARE = re.compile(r"(?:\d{1,3}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,2})?", re.ASCII)
# Of a double that was written in full, the last digit is not its own.
_FLOAT_ERROR = Decimal("1e-12")


class _Refused(Exception):  # noqa: N818 - a verdict on one line
    """Why a line is refused, and what to do about it."""

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


class _Literal(str):
    """A JSON number as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """`correct` of `n`, as a line of a file says. `finished_at` is UTC; `others` is how many more counts the
    written accuracy would fit."""

    line: int
    finished_at: str
    n: int
    correct: int
    others: int = 0
    run_id: str | None = None
    build: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a file in its order, and the names of the columns that were left out."""

    totals: tuple[Total, ...]
    left_out: tuple[str, ...]


def read_totals(path: Path, *, n: int, repeats: int = 1) -> Totals:
    """The totals in a file, every one of `n` answers, `repeats` of them to each question.

    Raises ConfigError with one problem a line, naming it, when anything in the file is not what it should be.
    """
    lines = list(foreign_lines(path, line_limit=MAX_LINE_BYTES, file_limit=MAX_TOTALS_BYTES))
    found: list[Total] = []
    problems: list[Problem] = []
    left_out: dict[str, None] = {}
    for line, row in _rows(path, lines):
        try:
            cells = row if isinstance(row, Mapping) else _object(row)
            _refuse_export(path, line, cells)
            left_out |= dict.fromkeys(str(name) for name in cells if name not in _KNOWN)
            found.append(_total(line, cells, n, repeats))
        except _Refused as refused:
            problems.append(_problem(path, line, refused))
    if problems:
        raise ConfigError(_bounded(path, problems))
    if not found:
        raise ConfigError.one(
            "no totals in this file", where=str(path), reason="bad-import", hint="columns: finished_at,n,correct"
        )
    return Totals(totals=tuple(found), left_out=tuple(left_out))


def json_flaw(error: Exception) -> str:
    """What is wrong with a line of JSON. The line's number is that in the file, which the decoder does not know."""
    return f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)


def _rows(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Each row with its line number: a JSON object still to be read, or the cells of CSV by column."""
    first = next((text for _, text in lines if text.strip()), "")
    if first.lstrip().startswith("{"):
        yield from ((number, text) for number, text in lines if text.strip())
        return
    yield from _csv_rows(path, lines)


def _csv_rows(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.reader(io.StringIO("".join(text for _, text in lines), newline=""), strict=True)
    names: list[str] | None = None
    try:
        for cells in reader:
            if not any(cells):
                continue
            if names is None:
                names = _header(path, reader.line_num, cells)
            elif len(cells) != len(names):
                what = f"{len(cells)} cells, the header has {len(names)}"
                raise ConfigError([_problem(path, reader.line_num, _Refused(what))])
            else:
                yield reader.line_num, dict(zip(names, cells, strict=True))
    except csv.Error as error:
        raise ConfigError([_problem(path, reader.line_num, _Refused(f"not CSV: {error}"))]) from error


def _header(path: Path, line: int, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    _refuse_export(path, line, names)
    twice = sorted({name for name in names if names.count(name) > 1})
    missing = [name for name in _REQUIRED if name not in names]
    what = None
    other = next((mark for mark in _OTHER_SEPARATORS if len(names) == 1 and mark in names[0]), None)
    if other is not None:
        what = f"the separator must be a comma, this header has {other!r}"
    elif twice:
        what = f"column {twice[0][:_SHOWN_CHARACTERS]!r} is there twice"
    elif missing:
        what = f"no column {missing[0]!r} among {', '.join(names)[:_SHOWN_CHARACTERS]!r}"
    if what is not None:
        raise ConfigError([_problem(path, line, _Refused(what))])
    return names


def _refuse_export(path: Path, line: int, names: Iterable[str]) -> None:
    """An export holds runs of several series, and some that were not asked everything: as totals they would all be
    whole runs of one series."""
    found = [name for name in _OF_AN_EXPORT if name in names]
    if found:
        word, them = ("column", "its") if len(found) == 1 else ("columns", "their")
        what = f"{word} {', '.join(found)}: this is an export of gatekit, not old totals ({them} meaning would be lost)"
        hint = "import the jsonl export instead, without --format totals; nothing was imported"
        raise ConfigError.one(what, where=f"{path}:{line}", reason="bad-import", hint=hint)


def _object(text: str) -> Mapping[str, object]:
    def once(pairs: Sequence[tuple[str, object]]) -> Mapping[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise _Refused(f"key {twice[:_SHOWN_CHARACTERS]!r} is there twice")
        return found

    def constant(name: str) -> object:
        raise _Refused(f"{name} is no number")

    try:
        found = json.loads(
            text.rstrip(), object_pairs_hook=once, parse_constant=constant, parse_float=_Literal, parse_int=_Literal
        )
    except (ValueError, RecursionError) as error:
        raise _Refused(f"not JSON: {json_flaw(error)[:80]}") from error
    if not isinstance(found, Mapping):
        raise _Refused("not a JSON object")
    return found


def _total(line: int, cells: Mapping[str, object], n_of_spec: int, repeats: int) -> Total:
    is_json = any(not isinstance(value, str) or isinstance(value, _Literal) for value in cells.values())
    texts = {name: _text(name, cells.get(name), is_json=is_json) for name in _KNOWN}
    finished_at, n_text = texts["finished_at"], texts["n"]
    if finished_at is None or n_text is None:
        raise _Refused(f"{'finished_at' if finished_at is None else 'n'} is missing")
    n = _count("n", n_text)
    if n != n_of_spec:
        if n == 0:
            raise _Refused("0 questions measure nothing")
        if repeats > 1:
            what = f"n is {n}, this spec asks for {n_of_spec} answers, {repeats} to each question"
            raise _Refused(what, hint="set task.n and protocol.repeats to what was asked then; ")
        raise _Refused(f"n is {n}, this spec asks {n_of_spec}", hint=f"task.n={n} if so many were asked then; ")
    correct, others = _correct(texts["correct"], texts["accuracy"], n)
    return Total(
        line=line,
        finished_at=_utc(finished_at),
        n=n,
        correct=correct,
        others=others,
        run_id=_run_id(texts["run_id"]),
        build=_build(texts["build"]),
    )


def _text(name: str, value: object, *, is_json: bool) -> str | None:
    """A cell as text; None for an empty one. In JSON a number must be a number, and a text a text."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _Refused(f"{name} is neither a text nor a number")
    is_number = isinstance(value, _Literal)
    if is_json and is_number != (name in ("n", "correct", "accuracy")):
        raise _Refused(f"{name} is {'a number' if is_number else 'a text'}")
    if not is_number and value.startswith(FORMULA_STARTS) and not _is_number_column(name):
        raise _Refused(f"{name} begins like a formula: {_shown(value)}")
    return value if is_number or not _is_number_column(name) else value.strip()


def _is_number_column(name: str) -> bool:
    return name in ("n", "correct", "accuracy")


def _correct(correct: str | None, accuracy: str | None, n: int) -> tuple[int, int]:
    """The count, and how many others the accuracy would fit as well."""
    if correct is None and accuracy is None:
        raise _Refused("neither correct nor accuracy is given")
    counted = None if correct is None else _count("correct", correct)
    if counted is not None and counted > n:
        raise _Refused(f"correct is {counted}, more than n = {n}")
    if accuracy is None:
        assert counted is not None
        return counted, 0
    low, nearest, high = _fitting(accuracy, n)
    if counted is None:
        return nearest, high - low
    if not low <= counted <= high:
        raise _Refused(f"correct is {counted} of {n}, but accuracy is {accuracy}")
    return counted, 0


def _fitting(text: str, n: int) -> tuple[int, int, int]:
    """The least, nearest and largest count whose share of n rounds to this text."""
    if not _SHARE.fullmatch(text):
        raise _Refused(f"accuracy is {_shown(text)}, not a number from 0 to 1")
    share = Decimal(text)
    if share > 1:
        raise _Refused(f"accuracy is {_shown(text)}, more than 1 (per cent are not taken)")
    exponent = share.as_tuple().exponent
    assert isinstance(exponent, int)
    error = max(Decimal(5).scaleb(exponent - 1), _FLOAT_ERROR)
    low, high = max(share - error, Decimal(0)) * n, min(share + error, Decimal(1)) * n
    least, largest = int(low.to_integral_value(ROUND_CEILING)), int(high.to_integral_value(ROUND_FLOOR))
    nearest = min(max(int((share * n).to_integral_value()), least), largest)
    if least > largest:
        raise _Refused(f"accuracy {_shown(text)} is no whole count of {n} questions")
    return least, nearest, largest


def _count(name: str, text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise _Refused(f"{name} is {_shown(text)}, not a whole number of questions")
    return int(text)


def _utc(text: str) -> str:
    moment = utc(text)
    if moment is None:
        raise _Refused(f"finished_at is {_shown(text)}, not a date like 2026-11-30T03:15:00Z")
    return moment


def _run_id(text: str | None) -> str | None:
    if text is not None and not RUN_ID_PATTERN.fullmatch(text):
        raise _Refused(f"run_id {_shown(text)} is not allowed")
    return text


def _build(text: str | None) -> str | None:
    if text is not None and (len(text) > _MAX_BUILD_CHARACTERS or not text.isprintable()):
        raise _Refused(f"build is not {_MAX_BUILD_CHARACTERS} printable characters at most")
    return text


def _shown(text: str) -> str:
    return repr(str(text[:_SHOWN_CHARACTERS]))


def _problem(path: Path, line: int, refused: _Refused) -> Problem:
    hint = f"{refused.hint}nothing was imported"
    return Problem(where=f"{path}:{line}", what=str(refused), reason="bad-import", hint=hint)


def _bounded(path: Path, problems: Sequence[Problem]) -> Sequence[Problem]:
    if len(problems) <= _MOST_PROBLEMS:
        return problems
    more = f"{len(problems) - _MOST_PROBLEMS} more lines are wrong"
    return [*problems[:_MOST_PROBLEMS], Problem(where=str(path), what=more, reason="bad-import")]
