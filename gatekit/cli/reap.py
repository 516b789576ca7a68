"""`gatekit reap [--kill]`: processes of runs whose gatekit is gone, and their end."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put
from gatekit.errors import ConfigError, ExitCode
from gatekit.history.durable_files import is_folder
from gatekit.history.records_folder import record_path
from gatekit.records.secrets import masked_text
from gatekit.report.escape import escape_terminal

if TYPE_CHECKING:
    from gatekit.engine.reap import Leftover

_ABOUT = """\
Processes that an earlier run left on this machine: those that carry a run's mark in their environment and whose
gatekit is gone, and what else is in their process group in a session that is the run's own. They are listed, and with
--kill stopped: SIGTERM, five seconds, SIGKILL. A run whose gatekit lives, and any other process, is never touched.

exit codes: 0 nothing is left, 3 something is"""
_COMMAND_CHARACTERS = 120
_RUN_CHARACTERS = 120


def run(arguments: Sequence[str]) -> ExitCode:
    """Print what is left, stopped or not. Raises ConfigError for wrong input."""
    from gatekit.engine.reap import leftovers, stop_leftovers

    options = _parse(arguments)
    found = [one for one in leftovers() if options.dir is None or _is_kept_in(options.dir, one.run)]
    left = stop_leftovers(found) if options.kill else tuple(found)
    code = ExitCode.INFRA if left else ExitCode.PASS
    if options.json:
        put(json.dumps({"exit_code": int(code), "leftovers": [_plain(one, one in left) for one in found]}, indent=2))
    else:
        put("\n".join(_line(one, _state(one in left, killed=options.kill)) for one in found) or "no leftovers")
    return code


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit reap", _ABOUT)
    parser.add_argument("--dir", type=Path, metavar="DIR", help="only runs that this history folder keeps")
    parser.add_argument("--kill", action="store_true", help="stop them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parse(parser, arguments)
    if options.dir is not None and not is_folder(options.dir):
        what = f"no history in {options.dir}: no such folder"
        raise ConfigError.one(what, reason="no-history", hint="leave --dir out for the runs of every folder")
    return options


def _is_kept_in(history_dir: Path, run_id: str) -> bool:
    """Whether the history has a folder of this run, which may be a hostile name: it comes from an environment."""
    try:
        return is_folder(record_path(history_dir, run_id).parent)
    except ConfigError:
        return False


def _state(is_left: bool, *, killed: bool) -> str:
    if not killed:
        return "left over"
    return "not stopped" if is_left else "stopped"


def _line(one: Leftover, state: str) -> str:
    run_id = escape_terminal(one.run, limit=_RUN_CHARACTERS)
    return f"{state}: pid {one.pid}, run {run_id}, {_age(one.age_s)} old, {_command(one)}"


def _plain(one: Leftover, is_left: bool) -> dict[str, object]:
    return {
        "pid": one.pid,
        "run": one.run,
        "age_s": round(one.age_s, 1),
        "command": _command(one),
        "is_left": is_left,
    }


def _command(one: Leftover) -> str:
    return escape_terminal(masked_text(one.command), limit=_COMMAND_CHARACTERS) or "(unknown command)"


def _age(age_s: float) -> str:
    minutes, seconds = divmod(int(age_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
