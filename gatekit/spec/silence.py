"""Findings that a file allows, with a written reason: `# lint: allow ID: why`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gatekit.spec.lint import IDS, Finding, Kind

_SILENCE = re.compile(r"\s*#\s*lint:\s*allow\s+(?P<id>[A-Za-z0-9_-]+)\s*:?\s*(?P<reason>.*)")
_LEAST_REASON = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A line of a file that allows every finding of that id in the file."""

    id: str
    reason: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The findings that are left, in the order of their places, and those that a written reason allows."""

    findings: tuple[Finding, ...]
    allowed: tuple[tuple[Finding, Silence], ...]


def silences(file: str, text: str) -> Iterator[Silence]:
    """The silences in the text of a file, with or without a reason."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = _SILENCE.fullmatch(line)
        if found:
            yield Silence(id=found["id"], reason=found["reason"].strip(), file=file, line=number)


def judged(findings: Iterable[Finding], written: Sequence[Silence], *, not_looked_at: Collection[str]) -> Judged:
    """The findings without those that are allowed, and with what is wrong with the silences.

    Ids that were `not_looked_at` make no silence superfluous.
    """
    valid: Mapping[tuple[str, str], Silence] = {
        (one.file, one.id): one for one in written if len(one.reason) >= _LEAST_REASON
    }
    left: list[Finding] = []
    allowed: list[tuple[Finding, Silence]] = []
    for finding in dict.fromkeys(findings):
        silence = valid.get((_file(finding.where), finding.id))
        if silence is None:
            left.append(finding)
        else:
            allowed.append((finding, silence))
    used = {silence for _, silence in allowed}
    left += [_without_reason(one) for one in written if len(one.reason) < _LEAST_REASON]
    left += [_unused(one) for one in valid.values() if one not in used and one.id not in not_looked_at]
    return Judged(findings=tuple(sorted(left, key=_order)), allowed=tuple(allowed))


def _without_reason(silence: Silence) -> Finding:
    return Finding(
        id="silence-without-reason",
        kind=Kind.ERROR,
        where=f"{silence.file}:{silence.line}:1",
        what=f"{silence.id} is allowed without a reason",
        why="the next reader cannot know whether it still holds",
        hint=f"# lint: allow {silence.id}: why, in a sentence",
    )


def _unused(silence: Silence) -> Finding:
    why = "nothing of that kind is found in this file" if silence.id in IDS else "no finding that may be allowed has it"
    return Finding(
        id="unused-silence",
        kind=Kind.WARNING,
        where=f"{silence.file}:{silence.line}:1",
        what=f"{silence.id} is allowed",
        why=why,
        hint="remove the line",
    )


def _file(where: str) -> str:
    return where.rsplit(":", 2)[0]


def _order(finding: Finding) -> tuple[str, int, int, str]:
    file, *place = finding.where.rsplit(":", 2)
    line, column = (int(part) if part.isdigit() else 0 for part in (*place, "0", "0")[:2])
    return file, line, column, finding.id
