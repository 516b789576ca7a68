"""A verdict as plain data for other programs: the same words as on the screen."""

from __future__ import annotations

from typing import Any

from gatekit.errors import MOST_CHARACTERS_KEPT, MOST_LINES_KEPT, ExitCode, GatekitError, shortened
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord
from gatekit.report.by_question import by_question
from gatekit.report.faults import retried, why_none
from gatekit.report.first_token import first_tokens
from gatekit.report.served_lines import served_plain
from gatekit.stats.exact import exact


def summarise(record: RunRecord, *, exit_code: ExitCode, stored_at: str | None) -> dict[str, Any]:
    """The verdict of a run: `verdict`, `exit_code`, `reason_code`, counts, rule, and where the record is.

    `accuracy` is None when answers were lost, not asked for, or cut off beyond the gate's limit: no number is made
    up for them. `no_answer` says why answers had none, `retried` how often which fault was answered by another
    attempt (None where none was), `first_token_s` how long streams took to begin (None without streams). `repeats` is
    how often each question was asked, `by_question` what that says of them (None where each was asked once). `served`
    is what the record holds of the server, without the digests of single files.
    """
    counts = record.counts
    is_whole = counts.n > 0 and counts.lost == 0 and counts.unasked == 0
    known = is_whole and counts.truncated <= exact(record.spec.gate.max_truncated_share) * counts.n
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
        "repeats": record.spec.protocol.repeats,
        "by_question": to_plain(by_question(record)),
        "no_answer": why_none(record.observations),
        "retried": retried(record.events),
        "first_token_s": first_tokens(record.observations),
        "rule": to_plain(record.verdict.rule),
        "p_value": record.verdict.p_value,
        "churn": to_plain(record.verdict.churn),
        "cause": record.verdict.cause,
        "interval": to_plain(record.verdict.interval),
        "warnings": list(record.verdict.warnings),
        "served": served_plain(record),
        "comparability_key": record.comparability.key,
        "record": stored_at,
    }


def summarise_error(error: GatekitError, exit_code: ExitCode) -> dict[str, Any]:
    """What kept a run from a verdict, in the shape of `summarise`; `verdict` is the name of the exit code."""
    return {
        "verdict": exit_code.name,
        "exit_code": int(exit_code),
        "reason_code": error.reason,
        "reason": shortened(error.message, MOST_CHARACTERS_KEPT),
        "hint": error.hint,
        "problems": error.lines(most=MOST_LINES_KEPT),
    }
