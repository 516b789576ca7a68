"""Runs that were not made here: how they are told from the others, and what is known of one."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from gatekit.gate.wording import accuracy
from gatekit.records.run import RunRecord
from gatekit.report.escape import escape_terminal

_IMPORTED = "imported"
_LABEL_WIDTH = 13
_WIDTH = 110
_CELL_CHARACTERS = 300


def is_imported(reason_code: str) -> bool:
    """Whether this is the reason code of a total that was measured elsewhere."""
    return reason_code == _IMPORTED


def imported_text(record: RunRecord, *, stored_at: str) -> str:
    """What is known of an imported total, one fact a line; nothing foreign reaches the terminal as it is."""
    lines = [f"{record.verdict.outcome.value}  {_safe(record.spec.name)}: {_safe(record.verdict.reason)}", ""]
    indent = " " * (_LABEL_WIDTH + 2)
    for label, text in _facts(record, stored_at):
        first = f"  {label:<{_LABEL_WIDTH}}"
        lines += wrap(
            _safe(text),
            _WIDTH,
            initial_indent=first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def _facts(record: RunRecord, stored_at: str) -> Iterator[tuple[str, str]]:
    counts = record.counts
    yield "seen", f"{counts.correct} of {counts.n} right, which questions is not known"
    if record.verdict.interval is not None:
        interval = record.verdict.interval
        bounds = f"{accuracy(interval.low)} to {accuracy(interval.high)}"
        yield "accuracy", f"{accuracy(counts.correct / counts.n)}, {100 * interval.confidence:.0f} % interval {bounds}"
    build = "of no named build" if record.served is None else f"of build {record.served.build}"
    yield "served", f"imported totals {build} of {record.spec.model.name}: no server was started for them"
    yield "finished", record.finished_at
    yield "comparable", f"key {record.comparability.key}"
    yield "run", record.run_id
    for event in record.events:
        yield "event", event
    yield "record", stored_at


def _safe(text: str) -> str:
    return escape_terminal(text, limit=_CELL_CHARACTERS)
