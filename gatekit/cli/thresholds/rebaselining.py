"""`gatekit thresholds rebaseline`: the norm of a series starts anew behind its last run, for a stated reason."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put
from gatekit.cli.thresholds.resting import locks_on
from gatekit.cli.thresholds.selecting import (
    DIR_OPTION,
    add_selection,
    one,
    reason_given,
    refuse_missing,
    repeated,
)
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.records.act import ActKind
from gatekit.records.canonical import to_plain
from gatekit.report.escape import escape_terminal
from gatekit.spec.locks import lock_path

_LINE_CHARACTERS = 600

_DESCRIPTION = """\
Record that what was normal is so no longer: only runs that come after the last one of the series count from now on.
Nothing is removed, and the act is kept with its reason. Locks stay until they are recomputed.

  python -m gatekit thresholds rebaseline model=laguna_int4 hw=b200 --reason "new attention kernel, accepted"
  python -m gatekit thresholds rebaseline --key sha256:... --reason "..."
"""


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Record the act and say so. Raises ConfigError, also where the series has no run; InfraError."""
    options = _parse(arguments)
    place, key, folder = _series(options, environ)
    from gatekit.history import index
    from gatekit.history.acts import make_act, record_act

    last = index.series(place, key=key, limit=1)
    if not last:
        what = f"no run under key {escape_terminal(key, 80)} in {place.shown}"
        raise ConfigError.one(
            what, reason="empty-selection", hint="`gatekit history list` shows the runs that there are"
        )
    _refuse_again(place, key, last[-1].digest, last[-1].run_id)
    act = make_act(ActKind.REBASELINE, key, reason=options.reason, now=datetime.now(UTC), after=last[-1].digest)
    path = record_act(place, act)
    command = repeated(options, "--write") if options.overrides else ""
    locks = locks_on(key, folder=folder, command=command, place=place)
    if options.json:
        touched = [{"path": lock.path, "command": lock.command} for lock in locks]
        document = {"act": to_plain(act), "path": str(path), "locks": touched, "after_run": last[-1].run_id}
        put(json.dumps(document, indent=2))
        return ExitCode.PASS
    put(f"the norm of key {key} starts anew behind run {last[-1].run_id}; act {act.act_id} kept in {path}")
    for lock in locks:
        put(escape_terminal(lock.line(), _LINE_CHARACTERS))
    return ExitCode.PASS


def _refuse_again(place: Place, key: str, last_digest: str, last_run: str) -> None:
    from gatekit.history import index

    made = [act for act in index.acts(place) if act.kind is ActKind.REBASELINE and act.target == key]
    if any(act.after == last_digest for act in made):
        what = f"the norm starts anew behind run {last_run} already: no run has come since"
        raise ConfigError.one(what, reason="nothing-to-do", hint="run the gate first")


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit thresholds rebaseline", _DESCRIPTION)
    add_selection(parser, what="the spec, as in a run")
    parser.add_argument("--key", metavar="KEY", help="or the comparability key of the series")
    parser.add_argument("--reason", metavar="TEXT", help="why, in a sentence; kept with the act")
    parser.add_argument("--json", action="store_true", help="print the act as one JSON document, with `locks`")
    options = parse(parser, arguments)
    hint = "see gatekit thresholds rebaseline --help"
    options.reason = reason_given(options)
    if options.reason is None:
        raise ConfigError.one("a rebaseline needs --reason TEXT", reason="bad-arguments", hint=hint)
    if bool(options.overrides) == (options.key is not None):
        what = "name the series, by the overrides of its spec or by --key"
        raise ConfigError.one(what, reason="bad-arguments", hint=hint)
    return options


def _series(options: Namespace, environ: Mapping[str, str]) -> tuple[Place, str, Path | None]:
    """The history, the key, and the folder of the spec's lock, None where only the key is known."""
    if options.key is None:
        wanted = one(options, environ)
        return wanted.place, wanted.key.key, lock_path(wanted.spec).parent
    from gatekit.cli.history.command import DEFAULT_DIR, chosen_place

    is_named = options.dir is not None
    options.dir = Path(options.dir or DEFAULT_DIR)
    place = chosen_place(options, environ)
    if is_named:
        refuse_missing(place, named=DIR_OPTION)
    return place, options.key, None
