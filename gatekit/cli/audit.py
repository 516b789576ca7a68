"""`gatekit audit`: what the thresholds of conf/, of one spec, or of another harness really do."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put, warn
from gatekit.cli.quantities import inside, whole, within
from gatekit.cli.shadowed import announce
from gatekit.cli.share import share
from gatekit.errors import MOST_LINES_KEPT, ConfigError, ExitCode, Problem, problem_lines

if TYPE_CHECKING:
    from gatekit.gate.audit import Audit
    from gatekit.records.spec import Spec

_DESCRIPTION = """\
What a gate's threshold really does: implied false alarms, how often it fails a drop, the smallest drop that it
notices, the failed requests that a hand-set floor would hide, and what is wrong with it, by id. It is a report:
findings exit 0.

  python -m gatekit audit                                   every model of conf/
  python -m gatekit audit model=laguna_int4 gate.tolerance=0.08
  python -m gatekit audit --floor 0.90 --tolerance 0.08 --n 1319 --p0 0.90
"""
_MOST_QUESTIONS = 1_000_000


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print the audit. PASS, or CONFIG where a model of the group cannot be resolved; raises ConfigError."""
    options = _parse(arguments)
    if options.floor is not None:
        return _print([_typed(options)], [], as_json=options.json)
    audits, problems = _audits(options, environ)
    return _print(audits, problems, as_json=options.json)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit audit", _DESCRIPTION)
    add = parser.add_argument
    add("overrides", nargs="*", metavar="KEY=VALUE", help="one spec as in a run; hw=... alone: every model on it")
    add("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own config groups")
    add("--floor", type=share(within(0, 1)), metavar="F", help="audit this hand-set floor instead of a config")
    add("--tolerance", type=share(within(0, 1)), metavar="T", help="what is taken off the floor (default 0)")
    add("--n", type=whole(1, _MOST_QUESTIONS), metavar="N", help="its questions")
    add("--p0", type=share(inside(0, 1)), metavar="P", help="accuracy of a healthy model, where it is known")
    add("--delta", type=share(inside(0, 1)), metavar="D", help="drop that matters (default 0.05)")
    add("--strict", action="store_true", help="the score must exceed the floor, not reach it")
    add("--json", action="store_true", help="print one JSON document")
    options = parse(parser, arguments)
    _check(options)
    return options


def _check(options: Namespace) -> None:
    typed = [name for name in ("tolerance", "n", "p0", "delta") if getattr(options, name) is not None]
    typed += ["strict"] if options.strict else []
    hint = "see gatekit audit --help"
    if options.floor is None and typed:
        raise ConfigError.one(f"--{typed[0]} belongs to --floor", reason="bad-arguments", hint=hint)
    if options.floor is not None and (options.overrides or options.config_dir):
        raise ConfigError.one("--floor is audited without a config", reason="bad-arguments", hint=hint)
    if options.floor is not None and options.n is None:
        raise ConfigError.one("--floor needs --n, the number of questions", reason="bad-arguments", hint=hint)


def _typed(options: Namespace) -> Audit:
    from gatekit.gate.audit import audit_typed
    from gatekit.records.spec import Gate, Method

    tolerance = options.tolerance or 0.0
    name = f"floor {options.floor:g}" + (f" - {tolerance:g}" if tolerance else "")
    gate = Gate(name=name, method=Method.STATIC_FLOOR, floor=options.floor, tolerance=tolerance, delta=options.delta)
    return audit_typed(gate, options.n, healthy=options.p0, strict=options.strict)


def _audits(options: Namespace, environ: Mapping[str, str]) -> tuple[list[Audit], list[Problem]]:
    """The audits asked for, and the problems of the models that cannot be resolved."""
    from gatekit.spec.resolve import config_dirs
    from gatekit.spec.selection import every_model, on_some_machine

    dirs = config_dirs(options.config_dir, environ)
    if any(not override.startswith("hw=") for override in options.overrides):
        found = on_some_machine(options.overrides, dirs=dirs)
        announce(dirs, [found.overrides])
        return [audit_of(found.spec)], []
    audits: list[Audit] = []
    selected, problems = every_model(options.overrides, dirs=dirs)
    announce(dirs, [one.overrides for one in selected])
    for one in selected:
        try:
            audits.append(audit_of(one.spec))
        except ConfigError as error:
            problems += error.problems
    return audits, list(dict.fromkeys(problems))


def audit_of(spec: Spec) -> Audit:
    """What the gate of a spec does at the questions that a run of it would ask. Raises ConfigError for too many."""
    from gatekit.gate.audit import audit_spec

    return audit_spec(spec, _questions(spec))


def _questions(spec: Spec) -> int:
    """How many answers a run would ask for, questions times repeats, without reading the dataset."""
    from gatekit.records.spec import ShotOverlap, ShotSource
    from gatekit.task.dataset import GSM8K_SYNTH
    from gatekit.task.synth import TEST_ROWS

    task, protocol = spec.task, spec.protocol
    pinned = task.files.get("test")
    rows = TEST_ROWS if task.dataset == GSM8K_SYNTH or pinned is None else pinned.rows
    skips = protocol.shots_source is ShotSource.TEST_HEAD and protocol.shots_overlap is ShotOverlap.SKIP
    available = rows - protocol.shots if skips else rows
    n = available if task.n is None else task.n
    if 1 <= n <= available:
        return n * protocol.repeats
    raise ConfigError.one(
        f"{spec.name}: task.n is {n:,}, but from 1 to {available:,} questions can be asked",
        reason="n-out-of-range",
        where="task.n",
        hint=f"set task.n={available} or less, or task.n=null for all of them",
    )


def _print(audits: Sequence[Audit], problems: Sequence[Problem], *, as_json: bool) -> ExitCode:
    if as_json:
        from gatekit.records.canonical import to_plain

        document = {"audits": to_plain(list(audits)), "problems": to_plain(list(problems[:MOST_LINES_KEPT]))}
        put(json.dumps(document, indent=2))
    elif audits:
        from gatekit.report.audit import audit_text

        put(audit_text(audits))
    for line in problem_lines(problems):
        warn(line)
    return ExitCode.CONFIG if problems or not audits else ExitCode.PASS
