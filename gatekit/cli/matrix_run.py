"""`gatekit run --matrix NAME`: the specs of a matrix, one after another, and one exit code."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gatekit.cli.crash import machine_fault, tell_bug
from gatekit.cli.live import live_board
from gatekit.cli.matrix_choice import absent, chosen, title
from gatekit.cli.run import given_out, run_spec, say_error
from gatekit.errors import ConfigError, ExitCode, Problem, fold
from gatekit.fanout.sequential import Ended, Series, one_after_another
from gatekit.history.place import Place, place_of
from gatekit.history.rebuild_hint import explain_command
from gatekit.records.canonical import to_plain
from gatekit.records.verdict import Outcome
from gatekit.report.plan import NOT_RUN, Line, correct_of, summary_text
from gatekit.report.summary import summarise
from gatekit.spec.composition import shown_override
from gatekit.spec.folders import naming
from gatekit.spec.matrix.words import is_word

if TYPE_CHECKING:
    from gatekit.cli.board import Board
    from gatekit.spec.matrix.plan import Plan, Planned

_INTERRUPTED = "interrupted"


def run_matrix(name: str, options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    """Run the matrix and print what became of every spec. Raises ConfigError before anything starts."""
    from gatekit.spec.library import Library
    from gatekit.spec.resolve import config_dirs

    if options.cfg:
        return _planned_only(name, options, environ)
    for word in filter(is_word, options.overrides):
        raise ConfigError.one(f"{word!r} is no override", reason="bad-override", hint="overrides are KEY=VALUE")
    library = Library(config_dirs(options.config_dir, environ))
    found = chosen(name, options.overrides, options.only, library)
    _check_locks(found.planned, options)
    with live_board(sys.stderr, [one.name for one in found.planned]) as board:
        series = one_after_another(
            list(enumerate(found.planned)),
            partial(_run, options=options, environ=environ, board=board),
            on_error=say_error,
            on_bug=tell_bug,
            as_known=machine_fault,
        )
    if options.json:
        given = given_out(json.dumps(_document(found, series, board), indent=2))
    else:
        lines = _lines(found, series, board, environ)
        text = summary_text(title(found, library), lines, absent(found), exit_code=int(series.exit_code))
        given = given_out(text)
    if series.interrupted is not None:
        say_error(series.interrupted)
    return fold([series.exit_code, given])


def _planned_only(name: str, options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.cli import plan

    only = [word for spec in options.only for word in ("--only", spec)]
    folders = naming(options.config_dir)
    flags = ["--json"] * options.json
    return plan.run(["--matrix", name, *only, *folders, *flags, *options.overrides], environ=environ)


def _check_locks(planned: Sequence[Planned], options: Namespace) -> None:
    from gatekit.spec.locks import lock_for, recompute_command

    problems: list[Problem] = []
    for one in planned:
        try:
            lock_for(one.spec, command=recompute_command(one.spec, one.overrides, options.config_dir))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _run(job: tuple[int, Planned], *, options: Namespace, environ: Mapping[str, str], board: Board) -> Ended:
    number, one = job
    with board.running(number) as row:
        finished, code = run_spec(one.spec, one.overrides, options, environ, row.progress)
        stored_at = None if finished.path is None else str(finished.path)
        summary = summarise(finished.record, exit_code=code, stored_at=stored_at)
        row.ended(summary["verdict"], correct_of(summary))
    return Ended(exit_code=code, summary=summary)


def _lines(found: Plan, series: Series, board: Board, environ: Mapping[str, str]) -> list[Line]:
    lines = [
        Line(
            name=one.name,
            verdict=ended.summary["verdict"],
            correct=correct_of(ended.summary),
            elapsed_s=board.elapsed_s(number),
            why=ended.summary["reason"],
            next=_next(ended, place_of(one.spec.history, environ)),
        )
        for number, (one, ended) in enumerate(zip(found.planned, series.ended, strict=False))
    ]
    for number, one in enumerate(_not_run(found, series), start=len(series.ended)):
        elapsed_s = board.elapsed_s(number)
        state = NOT_RUN if elapsed_s is None else _INTERRUPTED
        lines.append(Line(name=one.name, verdict=state, correct="", elapsed_s=elapsed_s, why=""))
    return lines


def _not_run(found: Plan, series: Series) -> tuple[Planned, ...]:
    """Those that came to no end, the one that was interrupted first."""
    return found.planned[len(series.ended) :]


def _next(ended: Ended, place: Place) -> str:
    """What to do about a run that did not pass."""
    if ended.summary["verdict"] == Outcome.PASS:
        return ""
    run_id = ended.summary.get("run_id")
    explained = explain_command(place, run_id) if run_id and ended.summary["record"] else ""
    return "; ".join(filter(None, (ended.summary["hint"], explained)))


def _document(found: Plan, series: Series, board: Board) -> dict[str, Any]:
    runs = [
        {
            "name": one.name,
            "overrides": [shown_override(text) for text in one.overrides],
            "elapsed_s": board.elapsed_s(number),
            **ended.summary,
        }
        for number, (one, ended) in enumerate(zip(found.planned, series.ended, strict=False))
    ]
    return {
        "matrix": found.name,
        "exit_code": int(series.exit_code),
        "interrupted": series.interrupted is not None,
        "runs": runs,
        "not_run": [one.name for one in _not_run(found, series)],
        "left_out": to_plain(absent(found)),
    }
