"""A verdict as plain data for other programs: the same words as on the screen."""

from __future__ import annotations

from typing import Any

from gatekit.errors import ExitCode, GatekitError
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord


def summarise(record: RunRecord, *, exit_code: ExitCode, stored_at: str | None) -> dict[str, Any]:
    """The verdict of a run: `verdict`, `exit_code`, `reason_code`, counts, rule, and where the record is.

    `accuracy` is None when answers were lost or not asked for: no number is made up for them.
    """
    counts = record.counts
    known = counts.n > 0 and counts.lost == 0 and counts.unasked == 0
    return {
        "verdict": record.verdict.outcome.value,
        "exit_code": int(exit_code),
        "reason_code": record.verdict.reason_code,
        "reason": record.verdict.reason,
        "hint": record.verdict.hint,
        "spec": record.spec.name,
        "run_id": record.run_id,
        "simulated": record.spec.simulated,
        "accuracy": counts.correct / counts.n if known else None,
        "counts": to_plain(counts),
        "rule": to_plain(record.verdict.rule),
        "p_value": record.verdict.p_value,
        "churn": to_plain(record.verdict.churn),
        "cause": record.verdict.cause,
        "interval": to_plain(record.verdict.interval),
        "warnings": list(record.verdict.warnings),
        "comparability_key": record.comparability.key,
        "record": stored_at,
    }


def summarise_error(error: GatekitError, exit_code: ExitCode) -> dict[str, Any]:
    """What kept a run from a verdict, in the shape of `summarise`; `verdict` is the name of the exit code."""
    return {
        "verdict": exit_code.name,
        "exit_code": int(exit_code),
        "reason_code": error.reason,
        "reason": error.message,
        "hint": error.hint,
        "problems": error.lines(),
    }
