"""`gatekit thresholds show`: the lock in force, whether it still holds, and its verdict on the last run."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put
from gatekit.cli.thresholds.selecting import Wanted, add_selection, one, repeated
from gatekit.errors import ConfigError, ExitCode
from gatekit.gate.decide import decide
from gatekit.gate.lock_change import IF_LOOSER, WITH_REASON
from gatekit.gate.locked import LockFault, usable_lock
from gatekit.gate.reasons import unlocked
from gatekit.history.run_row import SeriesRow
from gatekit.records.answers import Status
from gatekit.records.canonical import to_plain
from gatekit.records.lock import Lock
from gatekit.records.past import Past
from gatekit.records.spec import EarlyStop, Method
from gatekit.records.verdict import Verdict
from gatekit.report.escape import escape_terminal
from gatekit.spec.locks import lock_for, lock_path
from gatekit.spec.resolve import config_dirs
from gatekit.spec.selection import on_some_machine

# What was typed for the spec's own rule: its choice, and the numbers that a recomputation leaves out too.
_OF_ANOTHER_RULE = re.compile(r"[+~]*gate(\.(method|floor|tolerance|observed|measured_under)\b.*)?(=|$)", re.DOTALL)

_DESCRIPTION = """\
The lock of a spec, whether its comparability key is still that of a run, and the verdict that it would give for the
last run of the series by its counts, as gate=locked would judge it, whatever rule the spec itself has.

  python -m gatekit thresholds show model=laguna_int4 hw=b200
"""


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print it. PASS where the lock holds, INCONCLUSIVE where there is none, it is that of another series, or a run
    that it rests on was set aside.

    Raises ConfigError for a lock that cannot be used, InfraError where the history cannot be read.
    """
    options = _parse(arguments)
    asked = one(options, environ)
    wanted = _locked(asked, options, environ)
    command = repeated(options, "--write")
    lock = lock_for(wanted.spec, command=command)
    row = _last(wanted)
    past = _past(wanted, lock)
    verdict = None if row is None or lock is None else _verdict(wanted, past, row)
    fault = usable_lock(int(wanted.key.fields["n"]), past)
    holds = not isinstance(fault, LockFault)
    if options.json:
        plain = {**_plain(wanted, lock, row, verdict, holds=holds), "gate_method": asked.spec.gate.method.value}
        put(json.dumps(plain, indent=2, allow_nan=False))
    else:
        why = unlocked(fault).text if isinstance(fault, LockFault) else "yes: its key is that of a run now"
        lines = [*_lines(wanted, lock, row, verdict, holds=why, command=command), *_unused(asked)]
        put("\n".join(f"{escape_terminal(label):<10}{escape_terminal(text, 300)}" for label, text in lines))
    return ExitCode.PASS if holds else ExitCode.INCONCLUSIVE


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit thresholds show", _DESCRIPTION)
    add_selection(parser, what="the spec, as in a run")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parse(parser, arguments)
    if not options.overrides:
        what = "name the spec by its overrides"
        raise ConfigError.one(what, reason="bad-arguments", hint="see gatekit thresholds show --help")
    return options


def _locked(asked: Wanted, options: Namespace, environ: Mapping[str, str]) -> Wanted:
    """The spec as gate=locked makes it: nothing of another rule (its floor, its stated accuracy) judges beside."""
    gate = asked.spec.gate
    if gate.method is not Method.LOCKED:
        kept = [word for word in options.overrides if not _OF_ANOTHER_RULE.match(word)]
        locked = on_some_machine([*kept, "gate=locked"], dirs=config_dirs(options.config_dir, environ)).spec.gate
        gate = replace(locked, locks=gate.locks)
    gate = replace(gate, early_stop=EarlyStop.NONE)  # the index keeps counts, a sequential test asks for their order
    return replace(asked, spec=replace(asked.spec, gate=gate))


def _unused(asked: Wanted) -> Iterator[tuple[str, str]]:
    method = asked.spec.gate.method
    if method is not Method.LOCKED:
        yield "gate", f"{method.value}: a run as asked does not use the lock; one with gate=locked does"


def _last(wanted: Wanted) -> SeriesRow | None:
    from gatekit.history import index

    rows = index.series(wanted.place, key=wanted.key.key, limit=1)
    return rows[-1] if rows else None


def _past(wanted: Wanted, lock: Lock | None) -> Past:
    """The lock, and what became of the runs behind it; not the runs themselves, the last of which is judged here."""
    from gatekit.history.past import past_runs

    found = past_runs(wanted.place, wanted.spec, wanted.key)
    here = dict.fromkeys((run.run_id for run in found.runs), "counted")
    return Past(key=wanted.key, lock=lock, left_out={**here, **found.left_out})


def _verdict(wanted: Wanted, past: Past, row: SeriesRow) -> Verdict:
    """By the counts alone, in any order: a lock needs no more."""
    ended = {
        Status.CORRECT: row.correct,
        Status.WRONG: row.wrong,
        Status.NO_ANSWER: row.no_answer,
        Status.TRUNCATED: row.truncated,
        Status.LOST: row.lost,
        None: row.unasked,
    }
    statuses = tuple(status for status, number in ended.items() for _ in range(number))
    return decide(wanted.spec, statuses, past)


def _plain(
    wanted: Wanted, lock: Lock | None, row: SeriesRow | None, verdict: Verdict | None, *, holds: bool
) -> dict[str, object]:
    return {
        "spec": wanted.spec.name,
        "path": str(lock_path(wanted.spec)),
        "key": wanted.key.key,
        "holds": holds,
        "lock": to_plain(lock),
        "last_run": None if row is None else row.run_id,
        "verdict": to_plain(verdict),
    }


def _lines(
    wanted: Wanted, lock: Lock | None, row: SeriesRow | None, verdict: Verdict | None, *, holds: str, command: str
) -> Iterator[tuple[str, str]]:
    yield "spec", wanted.spec.name
    if lock is None:
        yield "lock", f"none in {lock_path(wanted.spec)}: {command}"
    else:
        accept = "" if lock.k_accept is None else f", PASS from {max(lock.k_reject, lock.k_accept)}"
        yield "lock", f"{lock_path(wanted.spec)}: FAIL below {lock.k_reject} of {lock.n}{accept} ({lock.method})"
        again = f"{command} {WITH_REASON}" if lock.key != wanted.key.key else f"{command}{IF_LOOSER}"
        yield "holds", holds if holds.startswith("yes") else f"no: {holds}: {again}"
    if row is None:
        yield "last run", "none of this series"
    else:
        yield "last run", f"{row.run_id}, {row.correct} of {row.n}"
    if verdict is not None:
        yield "verdict", f"{verdict.outcome.value}: {verdict.reason}"
