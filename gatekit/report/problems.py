"""Mistakes in configs as text, JSON, SARIF 2.1.0 and GitHub's workflow commands; foreign text in them stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gatekit.errors import (
    MOST_CHARACTERS_KEPT,
    MOST_LINES_KEPT,
    MOST_LINES_SHOWN,
    ExitCode,
    Problem,
    problem_lines,
    shortened,
)
from gatekit.report.escape import escape_terminal

FORMAT = 1
_PLACE = re.compile(r"(?P<file>.*?)(?::(?P<line>[1-9][0-9]*):(?P<column>[1-9][0-9]*))?", re.DOTALL)
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file, and line and column in it where they are known, from 1."""

    file: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """What the id of a mistake means, how such a mistake looks, and how it is mended, where that is written down."""

    means: str
    example: str = ""
    mend: str = ""


def place_of(problem: Problem) -> Place | None:
    """Where a mistake stands; None where that is no file.

    >>> place_of(Problem(where="conf/model/a.yaml:9:3", what="w", reason="r"))
    Place(file='conf/model/a.yaml', line=9, column=3)
    """
    found = _PLACE.fullmatch(problem.where)
    assert found is not None, "the pattern takes any text"
    if not found["file"] or problem.where.startswith("override "):
        return None
    if found["line"] is None:
        return Place(file=found["file"])
    return Place(file=found["file"], line=int(found["line"]), column=int(found["column"]))


def summary(files: int, specs: int, matrices: int, problems: int, *, locks: int = 0) -> str:
    """How much was checked, and with what result; locks are named where there are some.

    >>> summary(37, 1, 3, 0)
    '37 files, 1 spec, 3 matrices: no mistakes'
    """
    counted = [_count(files, "file", "files"), _count(specs, "spec", "specs"), _count(matrices, "matrix", "matrices")]
    counted += [_count(locks, "lock", "locks")] if locks else []
    return f"{', '.join(counted)}: {_count(problems, 'mistake', 'mistakes') if problems else 'no mistakes'}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def text(problems: Sequence[Problem]) -> str:
    """`file:line:column: what; hint [id]`, one line each; of very many the first ones, and how many more."""
    return "\n".join(map(escape_terminal, problem_lines(problems)))


def json_text(problems: Sequence[Problem], *, files: int, specs: int, matrices: int, locks: int = 0) -> str:
    """One document: how much was checked, the exit code, and the mistakes with their places.

    Keys are only ever added while `format` stays the same. Of over 10,000 mistakes the rest is counted in `left_out`.
    """
    code = ExitCode.CONFIG if problems else ExitCode.PASS
    document = {
        "format": FORMAT,
        "exit_code": int(code),
        "verdict": code.name if problems else None,
        "reason_code": problems[0].reason if problems else None,
        "checked": {"files": files, "specs": specs, "matrices": matrices, "locks": locks},
        "problems": [_as_json(problem) for problem in problems[:MOST_LINES_KEPT]],
        "left_out": max(0, len(problems) - MOST_LINES_KEPT),
    }
    return json.dumps(document, indent=2)


def _as_json(problem: Problem) -> dict[str, Any]:
    place = place_of(problem)
    return {
        "file": place and place.file,
        "line": place and place.line,
        "column": place and place.column,
        "id": problem.reason,
        "what": shortened(problem.what, MOST_CHARACTERS_KEPT),
        "hint": shortened(problem.hint, MOST_CHARACTERS_KEPT),
        "where": shortened(problem.where, MOST_CHARACTERS_KEPT),
    }


def sarif_text(
    problems: Sequence[Problem], rules: Mapping[str, RuleText], *, version: str, warnings: Collection[Problem] = ()
) -> str:
    """A SARIF 2.1.0 log with one run: its rules are those that were broken, each explained by `rules`.

    Of over 10,000 mistakes the rest is counted in the run's property `leftOut`.
    """
    left = len(problems) - MOST_LINES_KEPT
    problems = problems[:MOST_LINES_KEPT]
    broken = list(dict.fromkeys(problem.reason for problem in problems))
    driver = {
        "name": "gatekit",
        "semanticVersion": version,
        "rules": [_sarif_rule(name, rules.get(name)) for name in broken],
    }
    results = [_sarif_result(problem, broken.index(problem.reason), _level(problem, warnings)) for problem in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    run |= {"properties": {"leftOut": left}} if left > 0 else {}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_rule(name: str, rule: RuleText | None) -> dict[str, Any]:
    if rule is None:
        return {"id": name, "shortDescription": {"text": name}, "help": {"text": f"see docs/rules.md, {name}"}}
    if not rule.example:
        return {"id": name, "shortDescription": {"text": rule.means}, "help": {"text": rule.means}}
    plain = f"{rule.means}\n\nExample: {rule.example}\n\nMend: {rule.mend}"
    markdown = f"{rule.means}\n\n    {rule.example}\n\n{rule.mend}"
    return {
        "id": name,
        "shortDescription": {"text": rule.means},
        "help": {"text": plain, "markdown": markdown},
        "defaultConfiguration": {"level": "error"},
    }


def _level(problem: Problem, warnings: Collection[Problem]) -> str:
    """Both formats know an error and a warning by these words."""
    return "warning" if problem in warnings else "error"


def _sarif_result(problem: Problem, index: int, level: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": problem.reason,
        "ruleIndex": index,
        "level": level,
        "message": {"text": _message(problem)},
    }
    place = place_of(problem)
    if place is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.file)}}
        if place.line is not None:
            physical["region"] = {"startLine": place.line, "startColumn": place.column}
        result["locations"] = [{"physicalLocation": physical}]
    return result


def _uri(file: str) -> str:
    """A file as a URI reference; without a slash before its colon, `a:b` would be of scheme `a`."""
    path = quote(file, safe="/", errors="surrogateescape")
    return f"file://{path}" if path.startswith("/") else path


def github_text(problems: Sequence[Problem], *, warnings: Collection[Problem] = ()) -> str:
    """`::error` and `::warning` workflow commands, one line each, that annotate the files of a pull request.

    Of very many only the first ones, and a notice of how many more there are.

    >>> print(github_text([Problem(where="a,b.yaml:9:3", what="50%\\n::stop", reason="bad-value")]))
    ::error file=a%2Cb.yaml,line=9,col=3,title=bad-value::50%25%0A::stop
    """
    lines = [_github_line(problem, _level(problem, warnings)) for problem in problems[:MOST_LINES_SHOWN]]
    left = len(problems) - len(lines)
    return "\n".join([*lines, *([f"::notice title=more::and {left:,} more"] if left else [])])


def _github_line(problem: Problem, level: str) -> str:
    place = place_of(problem)
    properties: list[tuple[str, object]] = []
    if place is not None:
        properties.append(("file", place.file))
    if place is not None and place.line is not None:
        properties += [("line", place.line), ("col", place.column)]
    properties.append(("title", problem.reason))
    shown = ",".join(f"{key}={_github_property(str(value))}" for key, value in properties)
    return f"::{level} {shown}::{_github_data(_message(problem) if place else problem.line())}"


def _github_data(value: str) -> str:
    # As the runner's own toolkit does; what it leaves alone must still not move a cursor in the log.
    escaped = value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return escape_terminal(escaped)


def _github_property(value: str) -> str:
    return _github_data(value).replace(":", "%3A").replace(",", "%2C")


def _message(problem: Problem) -> str:
    what = shortened(problem.what, MOST_CHARACTERS_KEPT)
    return f"{what}; {shortened(problem.hint, MOST_CHARACTERS_KEPT)}" if problem.hint else what
