"""Gates beside each other, each with what its threshold really does and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from gatekit.gate.audit import Audit, Chance, Figures
from gatekit.gate.wording import accuracy, percent, points
from gatekit.report.escape import escape_terminal
from gatekit.report.table import aligned

_TEXT_CHARACTERS = 400
_LINE_CHARACTERS = 118
_HEADINGS = ("GATE", "METHOD", "N", "PASS FROM", "FALSE ALARMS", "FAILS A DROP OF", "NOTICES")
_NOTE = (
    "Rates are those of fresh questions (binomial). On the same questions in every run flips are fewer, so that false "
    "alarms are rarer, and a drop beyond the threshold is seen more often, one short of it less often."
)


def audit_text(audits: Sequence[Audit]) -> str:
    """One row per gate, then the findings of each by id."""
    lines = [*aligned(_table(audits)), ""]
    for audit in audits:
        lines += [escape_terminal(audit.name, _TEXT_CHARACTERS), *_findings(audit), ""]
    return "\n".join([*lines, *wrap(_NOTE, _LINE_CHARACTERS)]) + "\n"


def _table(audits: Sequence[Audit]) -> list[tuple[str, ...]]:
    """The rows; failed requests have a column only where they score as wrong, so that they can be hidden."""
    rows = [_HEADINGS, *map(_row, audits)]
    if all(audit.figures is None or audit.figures.hidden is None for audit in audits):
        return rows
    return [(*row, cell) for row, cell in zip(rows, ["FAILED REQUESTS HIDDEN", *map(_hidden, audits)], strict=True)]


def _hidden(audit: Audit) -> str:
    hidden = None if audit.figures is None else audit.figures.hidden
    return "-" if hidden is None else f"{hidden.requests} ({percent(hidden.share)})"


def _row(audit: Audit) -> tuple[str, ...]:
    if audit.figures is None:
        return (audit.name, audit.method, str(audit.n), *("-" * 4))
    figures = audit.figures
    return (
        audit.name,
        audit.method,
        str(audit.n),
        str(figures.k_pass),
        _false_alarms(figures),
        ", ".join(f"{points(drop.drop)}: {percent(drop.fails)}" for drop in figures.drops),
        _notices(figures),
    )


def _notices(figures: Figures) -> str:
    if figures.noticed_drop is None:
        return "no drop"
    return points(figures.noticed_drop) if figures.noticed_drop > 0 else "fails healthy"


def _false_alarms(figures: Figures) -> str:
    rates = ", ".join(_chance(chance) for chance in figures.false_alarms)
    if figures.sigmas is None or figures.is_assumed:
        return rates
    distance = round(figures.sigmas, 2) + 0.0  # a rounded -0.00 loses its sign
    return f"{rates} ({distance:.2f} sd)"


def _chance(chance: Chance) -> str:
    return f"{percent(chance.fails)} at {accuracy(chance.accuracy)}"


def _findings(audit: Audit) -> Iterator[str]:
    if not audit.findings:
        yield "  nothing found"
    for finding in audit.findings:
        yield f"  [{finding.id}] {escape_terminal(finding.text, _TEXT_CHARACTERS)}"
