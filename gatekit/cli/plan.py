"""`gatekit plan`: what would run. A matrix as a table, as JSON or as command lines; without one the resolved spec."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.matrix_choice import absent, chosen, title
from gatekit.cli.output import put, warn
from gatekit.errors import MOST_LINES_KEPT, ConfigError, ExitCode, Problem, problem_lines
from gatekit.report.escape import escape_terminal
from gatekit.report.plan import list_text, plan_text
from gatekit.spec.folders import naming
from gatekit.spec.matrix.words import is_word

if TYPE_CHECKING:
    from gatekit.spec.library import Library
    from gatekit.spec.matrix.plan import Plan, Planned

_DESCRIPTION = """\
Print what would run, and run nothing.

  gatekit plan small                        the specs of matrix small, and what it leaves out
  gatekit plan small engine=sim             the same with an override on every row
  gatekit plan small --format lines         one complete command line per spec
  gatekit plan --list                       the matrices
  gatekit plan model=laguna_int4 hw=b200    one resolved spec
"""


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print what the arguments ask for. Raises ConfigError for wrong input."""
    from gatekit.spec.library import Library
    from gatekit.spec.resolve import config_dirs

    options = _parse(arguments)
    words = [*options.matrix, *filter(is_word, options.words)]
    library = Library(config_dirs(options.config_dir, environ))
    library.groups()  # what is wrong with the root of all specs is told once
    if options.list:
        return _list(library, options)
    if not words:
        return _one_spec(options, library, environ)
    if len(words) > 1 or options.multirun:
        what = "names one matrix" if len(words) > 1 else "-m sweeps overrides, and a matrix has rows of its own"
        command = shlex.join(["gatekit", "plan", "--list", *naming(options.config_dir)])
        raise ConfigError.one(f"plan: {what}", reason="bad-arguments", hint=f"{command} shows them")
    extra = [text for text in options.words if not is_word(text)]
    return _matrix(words[0], extra, options, library)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit plan", _DESCRIPTION)
    parser.add_argument("words", nargs="*", metavar="MATRIX | KEY=VALUE", help="a matrix; overrides")
    parser.add_argument("--matrix", action="append", default=[], help="the matrix, as for gatekit run")
    parser.add_argument("--only", action="append", default=[], metavar="SPEC", help="this spec of the matrix alone")
    parser.add_argument("--format", choices=("table", "json", "lines"), help="how a matrix is printed [table]")
    parser.add_argument("--list", action="store_true", help="the matrices, with their numbers of specs")
    parser.add_argument("--json", action="store_true", help="one JSON document, as --format json")
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep comma-separated values")
    parser.add_argument("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own")
    options = parse(parser, arguments)
    if options.json and options.format not in (None, "json"):
        raise ConfigError.one(f"--json and --format {options.format} exclude each other", reason="bad-arguments")
    options.json = options.json or options.format == "json"
    return options


def _one_spec(options: Namespace, library: Library, environ: Mapping[str, str]) -> ExitCode:
    from gatekit.cli import run as running
    from gatekit.spec.matrix.plan import matrices

    if options.format == "lines" or options.only:
        option = "--only" if options.only else "--format lines"
        raise ConfigError.one(f"{option} is for a matrix", reason="bad-arguments", hint="gatekit plan small")
    if not options.words and not options.multirun:
        known = ", ".join(matrices(library))
        warn(f"this is the plan of `gatekit` alone; `gatekit plan NAME` plans a matrix ({known}) [no-matrix-named]")
    folders = naming(options.config_dir)
    flags = ["--json"] * options.json + ["-m"] * options.multirun
    return running.run(["--cfg", *flags, *folders, *options.words], environ=environ)


def _matrix(name: str, extra: Sequence[str], options: Namespace, library: Library) -> ExitCode:
    try:
        found = chosen(name, extra, options.only, library)
        if options.format == "lines":
            put("\n".join(_lines(found, extra, options)))
        elif options.json:
            put(json.dumps(_document(found, library), indent=2))
        else:
            specs = [(one.name, one.spec) for one in found.planned]
            put(plan_text(title(found, library), specs, absent(found)))
    except ConfigError as error:
        return _refused(error, options)
    return ExitCode.PASS


def _refused(error: ConfigError, options: Namespace) -> ExitCode:
    from gatekit.cli.main import say_error

    say_error(error, ExitCode.CONFIG, as_json=options.json)
    return ExitCode.CONFIG


def _document(found: Plan, library: Library) -> dict[str, Any]:
    from gatekit.records.canonical import to_plain

    head = title(found, library)
    return {
        "matrix": found.name,
        "description": found.description,
        "file": head.file,
        "specs": [_row(one) for one in found.planned],
        "left_out": to_plain(absent(found)),
    }


def _row(one: Planned) -> dict[str, Any]:
    from gatekit.records.canonical import to_plain
    from gatekit.records.secrets import without_secrets
    from gatekit.spec.composition import shown_override

    plain = to_plain(without_secrets(one.spec))
    for text in one.overrides:
        if shown_override(text) != text:
            section, _, rest = text.partition("=")[0].lstrip("+~").partition(".")
            plain[section][rest.partition(".")[0]] = "..."
    overrides = [shown_override(text) for text in one.overrides]
    return {"name": one.name, "where": one.where, "overrides": overrides, "spec": plain}


def _lines(found: Plan, extra: Sequence[str], options: Namespace) -> list[str]:
    """One command line per spec. What the matrix sets in private places is never shown: there it is named instead."""
    from gatekit.spec.composition import shown_override

    folders = naming(options.config_dir)
    lines, problems = [], list(_secrets(extra))
    for one in found.planned:
        own = one.overrides[: len(one.overrides) - len(extra)]
        words = list(one.overrides)
        if any(shown_override(text) != text for text in own):
            words = ["--matrix", found.name, "--only", one.name, *extra]
        line = shlex.join(["gatekit", "run", *words, *folders])
        if escape_terminal(line) != line:
            what = (
                f"{one.name}: line ends, invisible characters and commands of CI services do not fit on a command line"
            )
            problems.append(Problem(where=one.where, what=what, reason="not-one-line"))
        lines.append(line)
    if problems:
        raise ConfigError(problems)
    return lines


def _secrets(extra: Sequence[str]) -> Iterator[Problem]:
    """What was typed is repeated in every line, but a password."""
    from gatekit.records.secrets import masked_text
    from gatekit.spec.composition import shown_override

    for text in extra:
        value = text.partition("=")[2]
        if masked_text(value) != value:
            where, hint = f"override {shown_override(text)}", "name the environment variable that holds it"
            yield Problem(where=where, what="a secret fits no command line", reason="secret-in-override", hint=hint)


def _list(library: Library, options: Namespace) -> ExitCode:
    from gatekit.spec.empty_folders import empty_folders
    from gatekit.spec.matrix.plan import matrices, plans

    found = plans(matrices(library), library)
    problems = list(dict.fromkeys(problem for one in found for problem in one.problems))
    for problem in empty_folders(library.dirs):
        warn(problem.line())
    if options.json:
        put(json.dumps({"matrices": [_counted(one, library) for one in found]}, indent=2))
    elif found:
        cells = [
            (one.name, len(one.planned), len(one.left_out), len(one.problems), one.description or "(cannot be read)")
            for one in found
        ]
        put(list_text(cells))
    for line in problem_lines(problems):
        warn(line)
    return ExitCode.CONFIG if problems else ExitCode.PASS


def _counted(found: Plan, library: Library) -> dict[str, Any]:
    head = title(found, library)
    return {
        "matrix": found.name,
        "description": found.description,
        "file": head.file,
        "specs": [one.name for one in found.planned],
        "left_out": len(found.left_out),
        "problems": problem_lines(found.problems, most=MOST_LINES_KEPT),
    }
