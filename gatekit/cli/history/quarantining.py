"""`gatekit history quarantine RUN --reason TEXT`: the run does not count, and is kept."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime

from gatekit.cli.history.wording import add_json
from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.records.act import ActKind
from gatekit.records.canonical import to_plain
from gatekit.report.escape import escape_terminal

_LINE_CHARACTERS = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and why."""
    parser.add_argument("run", metavar="RUN", help="run id, or a beginning that only one run has")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, in a sentence; kept with the act")
    add_json(parser)


def run(options: argparse.Namespace, place: Place) -> ExitCode:
    """Record the act and say so."""
    return decree(options, place, ActKind.QUARANTINE)


def decree(options: argparse.Namespace, place: Place, kind: ActKind) -> ExitCode:
    """Record that a run does not count, or counts again. Raises ConfigError when that is so already."""
    from gatekit.cli.thresholds.resting import locks_on
    from gatekit.history import index
    from gatekit.history.acts import make_act, quarantined_runs, record_act

    row = index.find(place, options.run)
    run_id = row.run_id
    act = make_act(kind, run_id, reason=options.reason, now=datetime.now(UTC))
    is_quarantined = run_id in quarantined_runs(index.acts(place))
    if is_quarantined is (kind is ActKind.QUARANTINE):
        state = "is quarantined already" if is_quarantined else "is not quarantined"
        other = "release" if is_quarantined else "quarantine"
        raise ConfigError.one(
            f"run {run_id} {state}",
            reason="nothing-to-do",
            hint=f"`{history_command(place, other, run_id, '--reason TEXT')}`",
        )
    path = record_act(place, act)
    # A released run may come into any lock of its series; a quarantined one leaves only those that it is in.
    locks = locks_on(row.comparability_key, run_id=run_id if kind is ActKind.QUARANTINE else None)
    if options.json:
        touched = [{"path": one.path, "command": one.command} for one in locks]
        put(json.dumps({"act": to_plain(act), "path": str(path), "locks": touched}, indent=2))
        return ExitCode.PASS
    now = "does not count any more" if kind is ActKind.QUARANTINE else "counts again"
    put(f"run {run_id} {now}; act {act.act_id} kept in {path}")
    for resting in locks:
        put(escape_terminal(resting.line(), _LINE_CHARACTERS))
    return ExitCode.PASS
