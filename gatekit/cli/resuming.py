"""`gatekit run --resume RUN`: which run goes on, with which spec, and the command that does it."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gatekit.errors import ConfigError, ExitCode, Interrupted
from gatekit.history.durable_files import is_there
from gatekit.history.place import DEFAULT_DIR, place_of
from gatekit.history.records_folder import JOURNAL_NAME, record_path
from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord
from gatekit.records.secrets import MASK
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome


def chosen_run(options: Namespace, environ: Mapping[str, str]) -> tuple[Spec, str]:
    """The spec that goes on and the run id under which it does.

    With overrides it is the spec that they ask for, else the one that the run kept. Raises ConfigError for options
    that exclude each other and for a run that cannot go on, InfraError where its files cannot be read.
    """
    from gatekit.run.resume import going_on, kept_answers
    from gatekit.spec.resolve import config_dirs, resolve

    _refuse_rivals(options)
    if options.overrides:
        spec = resolve(options.overrides, dirs=config_dirs(options.config_dir, environ))
        return spec, going_on(Path(spec.history.dir), options.resume)
    folder = Path(DEFAULT_DIR if options.dir is None else options.dir)
    run_id = going_on(folder, options.resume)
    _refuse_foreign(record_path(folder, run_id).with_name(JOURNAL_NAME))
    spec = kept_answers(folder, run_id).header.spec
    return _sound(replace(spec, history=replace(spec.history, dir=str(folder))), run_id), run_id


def resume_command(run_id: str, typed: Sequence[str], options: Namespace) -> str:
    """The command that goes on with a run, with its config folders and overrides as they were `typed`, quoted for a
    shell; what may be a secret is left out."""
    from gatekit.spec.folders import naming
    from gatekit.spec.locks import as_typed

    words = ["gatekit", "run", "--resume", run_id]
    words += [] if options.dir is None else ["--dir", options.dir]
    words += [*naming(options.config_dir), *map(as_typed, typed)]
    words += ["--json"] * options.json + ["--allow-inconclusive"] * options.allow_inconclusive
    return shlex.join(words)


def told_how_to_go_on(
    stop: KeyboardInterrupt | Interrupted, spec: Spec, run_id: str, command: str, environ: Mapping[str, str]
) -> KeyboardInterrupt | Interrupted:
    """What a signal ends a run with: the command that goes on with it, once there is something to go on with."""
    if not is_there(record_path(place_of(spec.history, environ).dir, run_id).with_name(JOURNAL_NAME)):
        return stop
    hint = f"go on with `{command}`"
    if isinstance(stop, Interrupted):
        return Interrupted(stop.message, exit_code=stop.signal_code, hint=hint)
    code = getattr(stop, "exit_code", ExitCode.INTERRUPTED)
    return Interrupted(f"run {run_id} was interrupted: no verdict", exit_code=code, hint=hint)


def hint_to_go_on(record: RunRecord, command: str) -> str:
    """The hint of a verdict, with the command that asks for the answers that the server did not give."""
    counts, hint = record.counts, record.verdict.hint
    if record.verdict.outcome is not Outcome.INFRA or not 0 < counts.lost < counts.n:
        return hint
    return "; ".join(filter(None, (hint, f"`{command}` asks only the {counts.lost} lost questions")))


def _refuse_foreign(path: Path) -> None:
    """A spec names programs to start: one that another user wrote is not started for the asking."""
    if path.stat().st_uid != os.geteuid():
        what = f"{path} belongs to another user"
        raise ConfigError.one(what, reason="resume-foreign", hint="resume with the overrides that its run began with")


def _refuse_rivals(options: Namespace) -> None:
    rivals = {
        "-m": options.multirun,
        "--matrix": options.matrix,
        "--only": options.only,
        "--cfg": options.cfg,
        "--run-id": options.run_id is not None,
    }
    for name, is_given in rivals.items():
        if is_given:
            what = f"{name} and --resume exclude each other"
            raise ConfigError.one(what, reason="bad-arguments", hint="--resume goes on with one run, under its own id")
    if options.dir is not None and options.overrides:
        what = "--dir is for --resume without overrides"
        hint = f"say history.dir={options.dir}, or leave the overrides out: the run knows them"
        raise ConfigError.one(what, reason="bad-arguments", hint=hint)


def _sound(spec: Spec, run_id: str) -> Spec:
    """The spec that a run kept, which is checked as any other: its file may have been changed."""
    from gatekit.spec import rules, schema
    from gatekit.spec.composition import Composition

    data = {key: value for key, value in to_plain(spec).items() if key != "name"}
    kept = Composition(
        data=data,
        choices={"model": spec.model.name, "hw": spec.hw.name, "engine": spec.engine.name},
        overrides=(f"engine={spec.engine.name}",),
        documents=(),
    )
    faults = [fault.located(kept.locate) for fault in schema.faults(data)]
    problems = faults or rules.problems(spec, kept)
    if problems:
        raise ConfigError(problems)
    for place, url in (("history.url", spec.history.url), ("engine.base_url", spec.engine.base_url)):
        if url is not None and MASK in url:
            what = f"{place} of run {run_id} holds a secret, which is not kept"
            hint = f"resume with the overrides of its first command: gatekit run --resume {run_id} {place}=..."
            raise ConfigError.one(what, reason="resume-secret", hint=hint)
    return spec
