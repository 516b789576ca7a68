"""`gatekit history quarantine RUN --reason TEXT`: the run does not count, and is kept."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gatekit.cli.history.wording import add_json
from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode, InfraError
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.records.act import Act, ActKind
from gatekit.records.canonical import to_plain
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gatekit.cli.thresholds.resting import Resting
    from gatekit.history.run_row import RunRow

_LINE_CHARACTERS = 600
_TO_THE_SECOND = 19


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and why."""
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, in a sentence; kept with the act")
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Record the act and say so."""
    return decree(options, place, ActKind.QUARANTINE)


def _refuse_as_it_is(place: Place, run_id: str, kind: ActKind) -> None:
    from gatekit.history import index

    decision = index.quarantine_of(place, run_id)
    target = run_id if decision is None else decision.act.target
    if target == run_id and (decision is not None) is not (kind is ActKind.QUARANTINE):
        return
    state = "is not quarantined" if decision is None else "is quarantined already"
    if target != run_id:
        state = f"is quarantined as a copy of the answers of run {target}"
    other = "quarantine" if decision is None else "release"
    hint = f"`{history_command(place, other, target, '--reason TEXT')}`"
    raise ConfigError.one(f"run {run_id} {state}", reason="nothing-to-do", hint=hint)


def _locks(place: Place, rows: Sequence[RunRow], kind: ActKind) -> list[Resting]:
    """A released run may come into any lock of its series; a quarantined one leaves only those that it is in."""
    from gatekit.cli.thresholds.resting import locks_on

    is_back = kind is ActKind.RELEASE
    found = [locks_on(row.comparability_key, run_id=row.run_id, is_back=is_back, place=place) for row in rows]
    return list({one.path: one for locks in found for one in locks}.values())


def _moment(place: Place, run_id: str) -> datetime:
    """Now, but not in the second of the last act about the run: the second is in the name of an act, which tells it
    from others and says their order where nothing else is left to say it."""
    from gatekit.history import index

    made = [act.made_at for act in index.acts(place) if act.target == run_id]
    now = datetime.now(UTC)
    while made and made[-1][:_TO_THE_SECOND] == now.isoformat()[:_TO_THE_SECOND]:
        time.sleep(1 - now.microsecond / 1e6)
        now = datetime.now(UTC)
    return now


def _refuse_known(place: Place, act: Act) -> None:
    """Raise InfraError where an older act has the name of this one, which would pass for it."""
    from gatekit.history import index

    if act.act_id in index.act_digests(place):
        what = f"nothing was decided: {act.act_id} is the name of an older act (the clock went back)"
        raise InfraError(what, reason="act-id-taken", hint="try again in a second")


def decree(options: argparse.Namespace, place: Place, kind: ActKind) -> ExitCode:
    """Record that a run does not count, or counts again. Raises ConfigError when that is so already."""
    from gatekit.history import index
    from gatekit.history.acts import make_act, record_act

    row = index.find(place, options.run)
    run_id = row.run_id
    make_act(kind, run_id, reason=options.reason, now=datetime.now(UTC))  # a bad reason is told at once
    _refuse_as_it_is(place, run_id, kind)
    act = make_act(kind, run_id, reason=options.reason, now=_moment(place, run_id))
    _refuse_known(place, act)
    path = record_act(place, act)
    copies = index.copies(place, run_id)
    locks = _locks(place, [row, *copies], kind)
    if options.json:
        touched = [{"path": one.path, "command": one.command} for one in locks]
        copied = [one.run_id for one in copies]
        put(json.dumps({"act": to_plain(act), "path": str(path), "copies": copied, "locks": touched}, indent=2))
        return ExitCode.PASS
    now = "does not count any more" if kind is ActKind.QUARANTINE else "counts again"
    put(f"run {run_id} {now}; act {act.act_id} kept in {path}")
    if copies:
        shown = ", ".join(one.run_id for one in copies)
        put(escape_terminal(f"the same holds for what read its answers again: {shown}", _LINE_CHARACTERS))
    for resting in locks:
        put(escape_terminal(resting.line(), _LINE_CHARACTERS))
    return ExitCode.PASS
