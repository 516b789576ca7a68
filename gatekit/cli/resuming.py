"""`gatekit run --resume RUN`: which run goes on, with which spec, and the command that does it."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.errors import ConfigError, ExitCode, Interrupted
from gatekit.history.durable_files import is_there
from gatekit.history.place import DEFAULT_DIR, place_of
from gatekit.history.rebuild_hint import resume_command
from gatekit.history.records_folder import JOURNAL_NAME, record_path
from gatekit.records.answers import FailureKind
from gatekit.records.run import RunRecord
from gatekit.records.secrets import MASK, without_secrets
from gatekit.records.spec import Spec
from gatekit.spec.composition import shown_override

if TYPE_CHECKING:
    from gatekit.run.resume import GoesOn

_DIR = "history.dir"
_PACE = "client."
_LONGEST_DEADLINE_S = 604800.0
_DEADLINE = "deadline"
_UNCONFIRMED = FailureKind.UNCONFIRMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The spec that goes on, how it does, and the overrides that ask for all of it: none where the run kept them."""

    spec: Spec
    goes_on: GoesOn
    typed: tuple[str, ...] = ()


def chosen_run(options: Namespace, environ: Mapping[str, str]) -> Chosen:
    """The run that goes on, with the spec that it kept and the values that overrides set anew.

    Overrides that choose options (`model=...`) are those of a whole spec, which must be the same one. Raises
    ConfigError for options that exclude each other and for a run that cannot go on, InfraError where its files cannot
    be read.
    """
    from gatekit.run.resume import going_on, kept_answers
    from gatekit.spec.kept import kept_spec
    from gatekit.spec.resolve import config_dirs, resolve

    _refuse_rivals(options)
    dirs = config_dirs(options.config_dir, environ) if options.overrides else ()
    if any("." not in text.partition("=")[0] for text in options.overrides):
        spec = resolve(options.overrides, dirs=dirs)
        spec = spec if options.dir is None else _kept_in(spec, options.dir)
        goes_on = going_on(Path(spec.history.dir), options.resume)
        return Chosen(spec=spec, goes_on=goes_on, typed=tuple(options.overrides))
    folder = _folder(options, dirs)
    goes_on = going_on(Path(folder), options.resume)
    _refuse_foreign(record_path(Path(folder), goes_on.kept_by).with_name(JOURNAL_NAME), goes_on.kept_by)
    spec = _kept_in(kept_answers(Path(folder), goes_on.kept_by).header.spec, folder)
    spec = kept_spec(spec, options.overrides, dirs=dirs)
    _refuse_masked(spec, goes_on.kept_by)
    return Chosen(spec=spec, goes_on=goes_on)


def way_on(spec: Spec, run_id: str, options: Namespace, *more: str) -> str:
    """What goes on with a run: the command, as it can be pasted; in words where it needs what nobody may print."""
    place = next((place for place, _ in _masked(without_secrets(spec))), None)
    if place is not None:
        return f"--resume {run_id}, {place} given again (it holds a secret, which is not kept),"
    words = list(more)
    keys = {word.partition("=")[0] for word in words}
    if options.resume is not None:  # what the run kept is how fast it was asked at first
        paces = (text for text in options.overrides if text.lstrip("+").startswith(_PACE))
        words += [text for text in paces if text.partition("=")[0] not in keys and shown_override(text) == text]
    words += ["--json"] * options.json + ["--allow-inconclusive"] * options.allow_inconclusive
    command = resume_command(place_of(spec.history, {}), run_id)
    return f"`{command} {shlex.join(words)}`" if words else f"`{command}`"


def told_how_to_go_on(
    stop: KeyboardInterrupt | Interrupted, spec: Spec, run_id: str, way: str, environ: Mapping[str, str]
) -> KeyboardInterrupt | Interrupted:
    """What a signal ends a run with: the way on with it, once there is something to go on with."""
    if not is_there(record_path(place_of(spec.history, environ).dir, run_id).with_name(JOURNAL_NAME)):
        return stop
    hint = f"go on with {way}".rstrip(",")
    if isinstance(stop, Interrupted):
        return Interrupted(stop.message, exit_code=stop.signal_code, hint=hint)
    code = getattr(stop, "exit_code", ExitCode.INTERRUPTED)
    return Interrupted(f"run {run_id} was interrupted: no verdict", exit_code=code, hint=hint)


def hint_to_go_on(record: RunRecord, spec: Spec, options: Namespace) -> str:
    """The hint of a verdict, with the command that asks for the answers that the server did not give; after a
    deadline with a longer one."""
    from gatekit.run.resume import worth_going_on

    hint = record.verdict.hint
    kept = worth_going_on(Path(spec.history.dir), record)
    if kept is None:
        return hint
    longer = min(2 * spec.client.deadline_s, _LONGEST_DEADLINE_S)
    is_late = record.verdict.reason_code == _DEADLINE and longer > spec.client.deadline_s
    more = [f"client.deadline_s={int(longer) if longer.is_integer() else longer!r}"] if is_late else []
    way = way_on(spec, record.run_id, options, *more)
    among_lost = sum(seen.failure is not None and seen.failure.kind is _UNCONFIRMED for seen in record.observations)
    doubts = kept.unconfirmed - among_lost
    doubted = f", and {doubts} that a server answered which was not confirmed" if doubts else ""
    return "; ".join(filter(None, (hint, f"{way} asks only the {record.counts.lost} lost questions{doubted}")))


def _kept_in(spec: Spec, folder: str) -> Spec:
    return replace(spec, history=replace(spec.history, dir=folder))


def _folder(options: Namespace, dirs: Sequence[Path]) -> str:
    """The history folder that the command line names."""
    typed = [text for text in options.overrides if text.lstrip("+").partition("=")[0] == _DIR]
    if not typed:
        return DEFAULT_DIR if options.dir is None else str(options.dir)
    if options.dir is not None:
        what = f"--dir and {_DIR} exclude each other"
        raise ConfigError.one(what, reason="bad-arguments", hint="both name the folder of the history")
    from gatekit.spec.compose import values

    return str(values(typed, config_dirs=dirs)[-1][1])


def _refuse_foreign(path: Path, run_id: str) -> None:
    """A spec names programs to start: one that another user wrote is not started for the asking."""
    if is_there(path) and path.stat().st_uid != os.geteuid():
        what = f"{path} belongs to another user"
        hint = f"repeat the command that its run began with, with --run-id {run_id}"
        raise ConfigError.one(what, reason="resume-foreign", hint=hint)


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


def _masked(spec: Spec) -> list[tuple[str, str]]:
    """The places of a spec without secrets that held one, and what stands there."""
    urls = (("history.url", spec.history.url), ("engine.base_url", spec.engine.base_url))
    return [(place, url) for place, url in urls if url is not None and MASK in url]


def _refuse_masked(spec: Spec, run_id: str) -> None:
    """A secret is not kept, and so is to be given again."""
    for place, _ in _masked(spec):
        what = f"{place} of run {run_id} holds a secret, which is not kept"
        raise ConfigError.one(what, reason="resume-secret", hint=f"give it again, as {place}=URL behind the command")
