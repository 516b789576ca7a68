"""`gatekit [run]`: one gate or a sweep of them, to the verdict; with `--cfg` the resolved specs only."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatekit.cli.arguments import HelpWanted, Parser, parse
from gatekit.cli.cache_dir import cache_dir
from gatekit.cli.live import live_progress
from gatekit.cli.output import put, warn
from gatekit.errors import ConfigError, ExitCode, GatekitError, InfraError, fold
from gatekit.fanout.sequential import Ended, one_after_another
from gatekit.history.place import Place, place_of
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord
from gatekit.records.secrets import without_secrets
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.run.execute import Finished
    from gatekit.spec.resolve import Swept

_ID_CHARACTERS = 80


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Run what the arguments ask for and print it. Raises ConfigError for wrong input."""
    from gatekit.spec.resolve import config_dirs, resolve, resolve_many

    options = _parse(arguments)
    dirs = config_dirs(options.config_dir, environ)
    if options.multirun:
        swept = resolve_many(options.overrides, dirs=dirs)
        if options.cfg:
            return _show([one.spec for one in swept], as_json=options.json)
        return _sweep(swept, options, environ)
    spec = resolve(options.overrides, dirs=dirs)
    if options.cfg:
        return _show([spec], as_json=options.json)
    ended = _run_one(spec, options.overrides, options, environ)
    if options.json:
        put(json.dumps(ended.summary, indent=2))
    return ended.exit_code


def _sweep(swept: Sequence[Swept], options: Namespace, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.spec.compose import sweep
    from gatekit.spec.resolve import config_dirs

    if options.run_id is not None:
        raise ConfigError.one("--run-id names one run, this is a sweep", reason="bad-arguments")
    specs = [one.spec for one in swept]
    batches = iter(sweep(options.overrides, config_dirs=config_dirs(options.config_dir, environ)))
    ended = one_after_another(specs, lambda spec: _run_one(spec, next(batches), options, environ), on_error=_say_error)
    code = fold(one.exit_code for one in ended)
    labels = [one.label for one in swept]
    if options.json:
        runs = [{"sweep": label, **one.summary} for label, one in zip(labels, ended, strict=True)]
        put(json.dumps({"exit_code": int(code), "runs": runs}, indent=2))
    else:
        _print_table(labels, ended)
    return code


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit", "Run one gate, or with -m a sweep of them.", add_help=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("--cfg", action="store_true")
    parser.add_argument("--config-dir", action="append", default=[])
    parser.add_argument("--run-id")
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


def _run_one(spec: Spec, typed: Sequence[str], options: Namespace, environ: Mapping[str, str]) -> Ended:
    from gatekit.report.summary import summarise
    from gatekit.run.execute import Surroundings, execute
    from gatekit.spec.locks import lock_for, recompute_command

    command = recompute_command(spec, typed, options.config_dir)
    lock = lock_for(spec, command=command)
    with live_progress(sys.stderr) as progress:
        around = Surroundings(
            environ=environ,
            now=lambda: datetime.now(UTC),
            cache_dir=cache_dir(environ),
            progress=progress,
        )
        run_id = _new_run_id(spec) if options.run_id is None else options.run_id
        finished = execute(spec, run_id=run_id, around=around, lock=lock)
    record = _completed(finished.record, command)
    code = _code(finished, allow_inconclusive=options.allow_inconclusive)
    stored_at = None if finished.path is None else str(finished.path)
    if not options.json:
        try:
            _print_verdict(record, stored_at, place_of(spec.history, environ))
        except InfraError as error:  # nobody could read the verdict
            _say_error(error)
            code = fold([code, ExitCode.INFRA])
    return Ended(exit_code=code, summary=summarise(record, exit_code=code, stored_at=stored_at))


def _completed(record: RunRecord, command: str) -> RunRecord:
    """The record as it is printed: its hint with the id of the run and the command as it is to be typed."""
    hint = record.verdict.hint.replace("gatekit thresholds recompute ... --write", command)
    hint = f"{hint} ".replace(" RUN ", f" {record.run_id} ").rstrip()
    return replace(record, verdict=replace(record.verdict, hint=hint))


def _code(finished: Finished, *, allow_inconclusive: bool) -> ExitCode:
    """The run's exit code: its verdict's, softened only where it is INCONCLUSIVE, INFRA if it was not kept."""
    outcome = finished.record.verdict.outcome
    code = outcome.exit_code
    if allow_inconclusive and outcome is Outcome.INCONCLUSIVE:
        warn("INCONCLUSIVE, let through by --allow-inconclusive")
        code = ExitCode.PASS
    if finished.storage_failure is not None:
        for line in finished.storage_failure.lines():
            warn(f"not recorded: {line}")
        code = fold([code, ExitCode.INFRA])
    return code


def _new_run_id(spec: Spec) -> str:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", spec.name)[:_ID_CHARACTERS]
    return f"{moment}-{name}-{secrets.token_hex(3)}"


def _print_verdict(record: RunRecord, stored_at: str | None, place: Place) -> None:
    from gatekit.history import index
    from gatekit.report.terminal import explain

    comparable: int | None = None
    if stored_at is not None:
        key = record.comparability.key
        with contextlib.suppress(InfraError):  # the verdict stands whether or not the index can be read
            comparable = len(index.comparable(place, key, exclude_run_id=record.run_id))
    put(explain(record, comparable_runs=comparable, stored_at=stored_at))


def _say_error(error: GatekitError) -> None:
    for line in error.lines():
        warn(line)


def _print_table(labels: Sequence[str], ended: Sequence[Ended]) -> None:
    width = max(map(len, labels))
    put("")
    for label, one in zip(labels, ended, strict=True):
        reason = escape_terminal(one.summary["reason"])
        put(f"{one.summary['verdict']:<13}{escape_terminal(label):<{width}}  {reason}")
