"""Replays extraction cases: `python tests/replay_extraction.py FILE.json`, run from the project's root.

FILE.json is a list of {"text", "expected", "why"}; `expected` is a decimal or fraction as a string, or null
for no answer. One line for each mismatch, then `N passed, N failed`. Exit 0 when all pass, 1 on a mismatch, 2
when the file cannot be used.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gatekit.task.extract import extract, format_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One text and the exact value that must be read from it."""

    text: str
    expected: Fraction | None


def read_cases(path: Path) -> list[Case]:
    """The cases of a file. Raises OSError or ValueError for a file that cannot be used."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(rows, list):
        raise ValueError("the file is not a JSON list")  # noqa: TRY004 - one kind of error for a bad file
    return [_case(index, row) for index, row in enumerate(rows)]


def _case(index: int, row: object) -> Case:
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or "expected" not in row:
        raise ValueError(f"entry {index} needs a string 'text' and an 'expected'")
    expected = row["expected"]
    if expected is not None and not isinstance(expected, str):
        raise ValueError(f"entry {index}: 'expected' must be a string or null")
    try:
        return Case(text=row["text"], expected=None if expected is None else Fraction(expected))
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"entry {index}: 'expected' is not a number") from error


def mismatches(cases: list[Case]) -> list[str]:
    """One printable line for each case whose value differs."""
    lines: list[str] = []
    for case in cases:
        found = extract(case.text).value
        if found != case.expected:
            lines.append(f"{case.text!a}: expected {_shown(case.expected)}, got {_shown(found)}")
    return lines


def _shown(value: Fraction | None) -> str:
    return "null" if value is None else format_value(value)


def main(arguments: list[str]) -> int:
    """The exit code of a replay."""
    if len(arguments) != 1:
        print("usage: python tests/replay_extraction.py FILE.json", file=sys.stderr)
        return 2
    try:
        cases = read_cases(Path(arguments[0]))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        print(f"cannot use {arguments[0]!r}: {' '.join(str(reason).split())}", file=sys.stderr)
        return 2
    failed = mismatches(cases)
    for line in failed:
        print(line)
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
