"""A matrix as text: the specs it stands for and what it leaves out, before and after they ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gatekit.records.spec import Spec
from gatekit.report.escape import escape_terminal

_GAP = "  "
_REASON_CHARACTERS = 300
_HEAD = ("SPEC", "MODEL", "HW", "ENGINE", "PROTOCOL", "TASK", "GATE")
_LIST_HEAD = ("MATRIX", "SPECS", "LEFT OUT", "PROBLEMS", "WHAT FOR")
_SUMMARY_HEAD = ("VERDICT", "SPEC", "CORRECT", "ELAPSED", "WHY")
NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Title:
    """What a matrix is called, what it is for, and the file it stands in."""

    name: str
    description: str
    file: str

    def line(self) -> str:
        """`small: what it is for (its file)`."""
        return escape_terminal(f"{self.name}: {self.description} ({self.file})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A combination that is not run: its overrides as they may be shown, why, and the id of the reason."""

    overrides: tuple[str, ...]
    where: str
    what: str
    reason: str

    def line(self) -> str:
        """Overrides, why, where, and the id of the reason."""
        return escape_terminal(f"{' '.join(self.overrides)}: {self.what} ({self.where}) [{self.reason}]")


def plan_text(title: Title, specs: Sequence[tuple[str, Spec]], absent: Sequence[Absent]) -> str:
    """Every spec of a matrix in a line, and every combination that it leaves out, with the reason."""
    rows = [_HEAD, *(_cells(name, spec) for name, spec in specs)]
    return "\n".join([title.line(), "", *_aligned(rows), "", _counted(len(specs), absent), *_absent(absent)])


def list_text(rows: Sequence[tuple[str, int, int, int, str]]) -> str:
    """Every matrix with its number of specs, of combinations left out and of problems, and what it is for."""
    cells = [(name, str(specs), str(absent), str(problems), what) for name, specs, absent, problems, what in rows]
    return "\n".join(_aligned([_LIST_HEAD, *cells]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How one spec of a matrix ended; `elapsed_s` is None for one that was not started, `next` what to do about it."""

    name: str
    verdict: str
    correct: str
    elapsed_s: float | None
    why: str
    next: str = ""


def summary_text(title: Title, lines: Sequence[Line], absent: Sequence[Absent], *, exit_code: int) -> str:
    """Every spec of a matrix that ran, or did not, with its verdict and reason, and what was left out."""
    rows = [
        (line.verdict, line.name, line.correct, elapsed(line.elapsed_s), escape_terminal(line.why, _REASON_CHARACTERS))
        for line in lines
    ]
    counts = {line.verdict: sum(other.verdict == line.verdict for other in lines) for line in lines}
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    end = f"{_counted(len(lines), absent)}: {total}; exit {exit_code}"
    return "\n".join([title.line(), "", *_aligned([_SUMMARY_HEAD, *rows]), "", end, *_next(lines), *_absent(absent)])


def elapsed(seconds: float | None) -> str:
    """A duration as people read it.

    >>> elapsed(7.4), elapsed(3725), elapsed(None)
    ('7 s', '1 h 02 min', '')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60):02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def correct_of(summary: dict[str, Any]) -> str:
    """`1250/1319` of a run's summary; nothing where no question was asked."""
    counts = summary.get("counts")
    if not counts or counts["lost"] + counts["unasked"] >= counts["n"]:
        return ""
    asked = f"{counts['correct']}/{counts['n'] - counts['unasked']}"
    return f"{asked} asked" if counts["unasked"] else asked


def _cells(name: str, spec: Spec) -> tuple[str, ...]:
    task = spec.task.name if spec.task.n is None else f"{spec.task.name} n={spec.task.n}"
    return name, spec.model.name, spec.hw.name, spec.engine.name, spec.protocol.name, task, spec.gate.method.value


def _counted(specs: int, absent: Sequence[Absent]) -> str:
    return f"{specs} {'spec' if specs == 1 else 'specs'}, {len(absent) or 'nothing'} left out"


def _absent(absent: Sequence[Absent]) -> Iterator[str]:
    if absent:
        yield "left out:"
        yield from (f"{_GAP}{one.line()}" for one in absent)


def _next(lines: Sequence[Line]) -> Iterator[str]:
    if any(line.next for line in lines):
        yield "next:"
        yield from (f"{_GAP}{escape_terminal(f'{line.name}: {line.next}')}" for line in lines if line.next)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """As `table.aligned`, but no cell is cut: a name or a reason is of use only whole."""
    cells = [[escape_terminal(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
