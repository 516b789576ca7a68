"""`gatekit [run]`: one gate or a sweep of them, to the verdict; with `--cfg` the resolved specs only."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.arguments import HelpWanted, Parser, parse
from gatekit.cli.cache_dir import cache_dir
from gatekit.cli.crash import machine_fault, tell_bug
from gatekit.cli.live import live_progress
from gatekit.cli.output import put, warn
from gatekit.cli.shadowed import announce
from gatekit.errors import ConfigError, ExitCode, GatekitError, InfraError, Interrupted, fold
from gatekit.fanout.sequential import Ended, one_after_another
from gatekit.history.place import Place, place_of
from gatekit.history.rebuild_hint import hint_here
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord
from gatekit.records.secrets import without_secrets
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.run.execute import Finished
    from gatekit.run.progress import Progress
    from gatekit.spec.resolve import Swept

_ID_CHARACTERS = 80
_WORD_CHARACTERS = 80


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Run what the arguments ask for and print it. Raises ConfigError for wrong input."""
    from gatekit.spec.resolve import config_dirs, resolve, resolve_many

    options = _parse(arguments)
    if options.resume is not None:
        return _resume(options, environ)
    if options.dir is not None:
        what = "--dir is for --resume"
        raise ConfigError.one(what, reason="bad-arguments", hint=f"say history.dir={options.dir}")
    if options.matrix:
        return _matrix(options, environ)
    dirs = config_dirs(options.config_dir, environ)
    _refuse_words(options, dirs)
    if options.multirun:
        swept = resolve_many(options.overrides, dirs=dirs)
        announce(dirs, _batches(options.overrides, dirs))
        if options.cfg:
            return _show([one.spec for one in swept], as_json=options.json)
        return _sweep(swept, options, environ)
    spec = resolve(options.overrides, dirs=dirs)
    announce(dirs, [options.overrides])
    if options.cfg:
        return _show([spec], as_json=options.json)
    if options.run_id is not None:
        _ask_again(spec, options)
    return _told(_run_one(spec, options.overrides, options, environ), options)


def _resume(options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.cli.resuming import chosen_run

    chosen = chosen_run(options, environ)
    options.run_id, options.takes_over = chosen.goes_on.run_id, chosen.goes_on.takes_over
    return _told(_run_one(chosen.spec, chosen.typed, options, environ), options)


def _ask_again(spec: Spec, options: Namespace) -> None:
    """A scheduler repeats its command, run id included: what ended as INFRA goes on."""
    from gatekit.run.resume import asked_again

    goes_on = asked_again(Path(spec.history.dir), options.run_id)
    options.run_id, options.takes_over = goes_on.run_id, goes_on.takes_over


def _told(ended: Ended, options: Namespace) -> ExitCode:
    return fold([ended.exit_code, given_out(json.dumps(ended.summary, indent=2))]) if options.json else ended.exit_code


def given_out(text: str) -> ExitCode:
    """PASS once the text is on stdout. One that nobody could read is INFRA, which a FAIL goes before."""
    try:
        put(text)
    except InfraError as error:
        say_error(error)
        return ExitCode.INFRA
    return ExitCode.PASS


def _batches(overrides: Sequence[str], dirs: Sequence[Path]) -> Iterator[Sequence[str]]:
    from gatekit.spec.compose import sweep

    yield from sweep(overrides, config_dirs=dirs)


def _matrix(options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.cli.matrix_run import run_matrix

    name, *others = options.matrix
    rivals = ["-m"] * options.multirun + ["--run-id"] * (options.run_id is not None)
    if rivals or others:
        what = f"{rivals[0]} and --matrix exclude each other" if rivals else "--matrix names one matrix"
        hint = "a matrix has its own rows, each with a run of its own"
        raise ConfigError.one(what, reason="bad-arguments", hint=hint)
    return run_matrix(name, options, environ)


def _refuse_words(options: Namespace, dirs: Sequence[Path]) -> None:
    """A word that is no override may be meant for a matrix."""
    from gatekit.spec.matrix.words import is_word

    if options.only:
        raise ConfigError.one(
            "--only is for a matrix", reason="bad-arguments", hint="gatekit run --matrix small --only SPEC"
        )
    for word in filter(is_word, options.overrides):
        what = f"{escape_terminal(word, _WORD_CHARACTERS)!r} is no override"
        raise ConfigError.one(what, reason="bad-override", hint=_meant(word, dirs, options))


def _meant(word: str, dirs: Sequence[Path], options: Namespace) -> str:
    from gatekit.spec.matrix.words import meant_by

    return meant_by(word, dirs, options.config_dir) or "overrides are KEY=VALUE"


def _sweep(swept: Sequence[Swept], options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.spec.compose import sweep
    from gatekit.spec.resolve import config_dirs

    if options.run_id is not None:
        raise ConfigError.one("--run-id names one run, this is a sweep", reason="bad-arguments")
    batches = sweep(options.overrides, config_dirs=config_dirs(options.config_dir, environ))
    jobs = [(one.spec, batch) for one, batch in zip(swept, batches, strict=True)]
    series = one_after_another(
        jobs,
        lambda job: _run_one(*job, options, environ),
        on_error=say_error,
        on_bug=tell_bug,
        as_known=machine_fault,
    )
    labels = [one.label for one in swept][: len(series.ended)]
    given = ExitCode.PASS
    if options.json:
        runs = [{"sweep": label, **one.summary} for label, one in zip(labels, series.ended, strict=True)]
        given = given_out(json.dumps({"exit_code": int(series.exit_code), "runs": runs}, indent=2))
    elif labels:
        given = given_out(_table(labels, series.ended))
    if series.interrupted is not None:
        say_error(series.interrupted)
    return fold([series.exit_code, given])


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit", "Run one gate, or with -m a sweep of them.", add_help=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("--matrix", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--cfg", action="store_true")
    parser.add_argument("--config-dir", action="append", default=[])
    parser.add_argument("--run-id")
    parser.add_argument("--resume", metavar="RUN")
    parser.set_defaults(takes_over=None)
    parser.add_argument("--dir")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--allow-inconclusive", action="store_true")
    options = parse(parser, arguments)
    if options.help:
        from gatekit.cli.main import HELP

        raise HelpWanted(HELP)
    return options


def _show(specs: Sequence[Spec], *, as_json: bool) -> ExitCode:
    plain = [to_plain(without_secrets(spec)) for spec in specs]
    if as_json:
        put(json.dumps(plain if len(plain) > 1 else plain[0], indent=2))
        return ExitCode.PASS
    import yaml

    put(yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=False))
    return ExitCode.PASS


def run_spec(
    spec: Spec, typed: Sequence[str], options: Namespace, environ: Mapping[str, str], progress: Progress
) -> tuple[Finished, ExitCode]:
    """One spec to its verdict, and the exit code of that; the hint is as it is to be typed."""
    from gatekit.cli.resuming import hint_to_go_on, told_how_to_go_on, way_on
    from gatekit.run.execute import Surroundings, execute
    from gatekit.spec.locks import lock_for, recompute_command

    command = recompute_command(spec, typed, options.config_dir)
    around = Surroundings(
        environ=environ, now=lambda: datetime.now(UTC), cache_dir=cache_dir(environ), progress=progress
    )
    run_id = _new_run_id(spec) if options.run_id is None else options.run_id
    lock = lock_for(spec, command=command)
    try:
        finished = execute(spec, run_id=run_id, around=around, lock=lock, takes_over=options.takes_over)
    except (Interrupted, KeyboardInterrupt) as stop:
        raise told_how_to_go_on(stop, spec, run_id, way_on(spec, run_id, options), environ) from None
    code = _code(finished, allow_inconclusive=options.allow_inconclusive)
    place = place_of(spec.history, environ)
    hint = hint_to_go_on(finished.record, spec, options)
    return replace(finished, record=_completed(finished.record, hint, command, place)), code


def _run_one(spec: Spec, typed: Sequence[str], options: Namespace, environ: Mapping[str, str]) -> Ended:
    from gatekit.report.summary import summarise

    with live_progress(sys.stderr) as progress:
        finished, code = run_spec(spec, typed, options, environ, progress)
    record = finished.record
    stored_at = None if finished.path is None else str(finished.path)
    if not options.json:
        try:
            is_indexed = finished.storage_failure is None
            _print_verdict(record, stored_at, place_of(spec.history, environ) if is_indexed else None)
        except InfraError as error:  # nobody could read the verdict
            say_error(error)
            code = fold([code, ExitCode.INFRA])
    return Ended(exit_code=code, summary=summarise(record, exit_code=code, stored_at=stored_at))


def _completed(record: RunRecord, hint: str, command: str, place: Place) -> RunRecord:
    """The record as it is printed: its hint with the id of the run and the command as it is to be typed."""
    hint = hint.replace("gatekit thresholds recompute ... --write", command)
    return replace(record, verdict=replace(record.verdict, hint=hint_here(hint, place, record.run_id)))


def _code(finished: Finished, *, allow_inconclusive: bool) -> ExitCode:
    """The run's exit code: its verdict's, softened only where it is INCONCLUSIVE, INFRA if it was not kept."""
    outcome = finished.record.verdict.outcome
    code = outcome.exit_code
    if allow_inconclusive and outcome is Outcome.INCONCLUSIVE:
        warn("INCONCLUSIVE, let through by --allow-inconclusive")
        code = ExitCode.PASS
    if finished.storage_failure is not None:
        what = "not recorded" if finished.path is None else "recorded, but not in the index"
        for line in finished.storage_failure.lines():
            warn(f"{what}: {line}")
        code = fold([code, ExitCode.INFRA])
    return code


def _new_run_id(spec: Spec) -> str:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spec.name)[:_ID_CHARACTERS]
    return f"{moment}-{name}-{secrets.token_hex(3)}"


def _print_verdict(record: RunRecord, stored_at: str | None, place: Place | None) -> None:
    from gatekit.history import index
    from gatekit.report.terminal import explain

    comparable: int | None = None
    if place is not None:
        key = record.comparability.key
        with contextlib.suppress(InfraError):  # the verdict stands whether or not the index can be read
            comparable = len(index.comparable(place, key, exclude_run_id=record.run_id))
    put(explain(record, comparable_runs=comparable, stored_at=stored_at))


def say_error(error: GatekitError) -> None:
    """Its lines on stderr."""
    for line in error.lines():
        warn(line)


def _table(labels: Sequence[str], ended: Sequence[Ended]) -> str:
    width = max(map(len, labels))
    lines = [
        f"{one.summary['verdict']:<13}{escape_terminal(label):<{width}}  {escape_terminal(one.summary['reason'])}"
        for label, one in zip(labels, ended, strict=True)
    ]
    return "\n".join(["", *lines])
