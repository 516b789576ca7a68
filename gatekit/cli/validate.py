"""`gatekit validate`: every mistake in config files, specs and matrices, each at its line; starts nothing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit import __version__
from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put, warn
from gatekit.cli.shadowed import announce_all
from gatekit.errors import ExitCode, Problem

if TYPE_CHECKING:
    from gatekit.spec.validation import Validated

_DESCRIPTION = """\
Check config files: each by itself, every spec that they are part of (each model on its default machine or on one that
fits it), every matrix and every lock. All mistakes are reported at once, one line each:

  conf/model/foo.yaml:9:3: engine: unknown key 'acuracy'; did you mean 'accuracy'? [unknown-key]

The ids in brackets are explained in docs/rules.md. Nothing is started, downloaded or written. Exit 0 without a mistake,
else 2.

Without PATH: the folders of --config-dir and GATEKIT_CONF_PATH, and ./conf; where there is none of these, the shipped
configs. PATH is a folder of groups, the folder of one group or of locks, or a single file GROUP/NAME.yaml or
SPEC.lock.yaml; its folder of groups then comes before all others. Matrices and locks are checked where PATH names them
or a folder that holds them.
"""
_FORMATS = ("text", "json", "sarif", "github")


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print every mistake. PASS without one, else CONFIG; raises ConfigError for a wrong command line."""
    options = _parse(arguments)
    validated = _validated(options, environ)
    _print(validated, "json" if options.json else options.format)
    return ExitCode.CONFIG if validated.problems else ExitCode.PASS


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit validate", _DESCRIPTION)
    add = parser.add_argument
    add("paths", nargs="*", metavar="PATH", help="config folders, group folders or files")
    add("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own config groups")
    add("--shipped", action="store_true", help="check the shipped configs as well")
    add("--format", choices=_FORMATS, default="text", help="how mistakes are printed (default: text)")
    add("--json", action="store_true", help="the same as --format json")
    return parse(parser, arguments)


def _validated(options: Namespace, environ: Mapping[str, str]) -> Validated:
    from gatekit.spec import lock_check
    from gatekit.spec.empty_folders import empty_folders
    from gatekit.spec.library import Library
    from gatekit.spec.resolve import config_dirs
    from gatekit.spec.targets import targets
    from gatekit.spec.validation import Validated, in_order, validate

    dirs = tuple(folder.resolve() for folder in config_dirs(options.config_dir, environ))
    empty = [*empty_folders(dirs)]
    named = targets(_paths(options, dirs))
    # A folder that is one of the config folders anyway keeps its place among them.
    apart = [(root, files) for root, files in named.files.items() if root not in dirs]
    together = [file for root, files in named.files.items() if root in dirs for file in files]
    libraries = [(Library((root, *dirs)), files) for root, files in apart]
    libraries += [(Library(dirs), tuple(together))] if together else []
    for library, _ in libraries:
        announce_all(library)
    done = [validate(library, files) for library, files in libraries]
    problems: list[Problem] = [*empty, *named.problems, *(problem for one in done for problem in one.problems)]
    problems += lock_check.problems(named.locks)
    return Validated(
        files=sum(one.files for one in done),
        specs=sum(one.specs for one in done),
        matrices=sum(one.matrices for one in done),
        problems=in_order(problems),
        locks=len(named.locks),
    )


def _paths(options: Namespace, dirs: Sequence[Path]) -> list[Path]:
    from gatekit.spec.folders import without_groups
    from gatekit.spec.locks import DEFAULT_FOLDER
    from gatekit.spec.targets import holds_groups

    *own, shipped = dirs
    named = [Path(path) for path in options.paths]
    if named:
        return [*named, shipped] if options.shipped else named
    here = Path("conf")
    is_told = {folder for folder, _ in without_groups(own)}
    folders = [folder for folder in own if folder not in is_told]
    folders += [here] if holds_groups(here) and here.resolve() not in own else []
    locks = [DEFAULT_FOLDER] if DEFAULT_FOLDER.is_dir() and here.resolve() not in map(Path.resolve, folders) else []
    return [*folders, *locks, *([shipped] if options.shipped or not (own or folders) else [])]


def _print(validated: Validated, wanted: str) -> None:
    from gatekit.report import problems as report

    found, counted = validated.problems, (validated.files, validated.specs, validated.matrices)
    if wanted == "json":
        files, specs, matrices = counted
        put(report.json_text(found, files=files, specs=specs, matrices=matrices, locks=validated.locks))
    elif wanted == "sarif":
        from gatekit.spec.rule_texts import RULE_TEXTS

        put(report.sarif_text(found, RULE_TEXTS, version=__version__))
    elif found:
        is_github = wanted == "github"
        put(report.github_text(found) if is_github else report.text(found), commands=is_github)
    warn(report.summary(*counted, len(found), locks=validated.locks))
