"""`gatekit lint`: valid configs that nothing covers, that gate nothing, or whose names say otherwise."""

from __future__ import annotations

import contextlib
import json
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatekit import __version__
from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put, warn
from gatekit.cli.quantities import whole
from gatekit.errors import ConfigError, ExitCode, Problem, first_lines
from gatekit.history.place import Place
from gatekit.report.escape import escape_terminal
from gatekit.resources import conf_dir
from gatekit.spec.folders import naming

if TYPE_CHECKING:
    from gatekit.cli.last_verdicts import LastVerdicts
    from gatekit.gate.audit import Audit
    from gatekit.records.spec import Spec
    from gatekit.spec.library import Library
    from gatekit.spec.lint import Covered, Finding, Modelled
    from gatekit.spec.matrix.plan import Plan
    from gatekit.spec.selection import Selected
    from gatekit.spec.silence import Judged, Silence

_DESCRIPTION = """\
What is wrong with configs although each is valid: models in no matrix, two names for one spec, names that disagree with
what runs, gates that fail nothing, and (with --history or --url) gates that have not run. docs/lint.md lists the ids.

Exit 2 where a finding is an error (with --strict: any finding), else 0. A line `# lint: allow ID: why` in the file of a
finding allows it.
"""
_DAYS = 7
_KEYS = (
    *("model.name", "model.quantization", "model.server_args", "gate", "gate.floor", "gate.max_lost_share"),
    *("gate.measured_under", "gate.delta", "gate.early_stop", "task.n", "protocol.shots"),
    *("protocol.api", "engine.tensor_parallel_size", "engine.data_parallel_size", "engine.enforce_eager"),
)
_PLAIN_GROUPS = ("hw", "engine", "protocol")
_ASKED_FOR = re.compile(r" \(asked for at [^()]*\)\Z")
_FORMATS = ("text", "json", "sarif", "github")


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print the findings. CONFIG where one is an error, else PASS; raises ConfigError, InfraError."""
    from gatekit.cli.shadowed import announce_all
    from gatekit.spec.library import Library
    from gatekit.spec.lint import Kind
    from gatekit.spec.resolve import config_dirs

    options = _parse(arguments)
    library = Library(config_dirs(options.config_dir, environ))
    library.groups()  # what is wrong with the root of all specs is told once
    history = _history(options, environ)
    announce_all(library)
    typed = tuple(naming(options.config_dir))
    found, counts = _judged(library, history, options.days, typed)
    _print(found, counts, options, has_history=history is not None)
    bad = {Kind.ERROR, Kind.WARNING} if options.strict else {Kind.ERROR}
    return ExitCode.CONFIG if any(finding.kind in bad for finding in found.findings) else ExitCode.PASS


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit lint", _DESCRIPTION)
    add = parser.add_argument
    add("--config-dir", action="append", default=[], metavar="DIR", help="a folder of your own config groups")
    add("--history", type=Path, metavar="DIR", help="history folder: name gates that have not run")
    add("--url", metavar="URL", help="database of its index, instead of SQLite in DIR")
    add("--days", type=whole(1, 3650), default=_DAYS, metavar="N", help="a gate runs at least every N days (7)")
    add("--format", choices=_FORMATS, default="text", help="how findings are printed (default: text)")
    add("--json", action="store_true", help="the same as --format json")
    add("--strict", action="store_true", help="warnings exit 2 as well")
    return parse(parser, arguments)


def _history(options: Namespace, environ: Mapping[str, str]) -> LastVerdicts | None:
    if options.history is None and options.url is None:
        return None
    from gatekit.cli.cache_dir import cache_dir
    from gatekit.cli.last_verdicts import LastVerdicts

    place = Place(dir=options.history or Path(".gatekit"), url=options.url)
    return LastVerdicts.read(place, cache_dir=cache_dir(environ))


def _judged(
    library: Library, history: LastVerdicts | None, days: int, typed: Sequence[str]
) -> tuple[Judged, Mapping[str, int]]:
    """The findings, and how much was looked at; `typed` are the words that name the folders in a command."""
    from gatekit.spec import lock_check
    from gatekit.spec.empty_folders import empty_folders
    from gatekit.spec.lint import OF_THE_HISTORY, asleep, gates, twins, uncovered, unlike
    from gatekit.spec.matrix.plan import matrices, plans
    from gatekit.spec.names import promises_of_a_model
    from gatekit.spec.selection import every_model
    from gatekit.spec.silence import judged

    selected, problems = every_model((), dirs=library.dirs, library=library)
    models = sorted((_modelled(one, library) for one in selected), key=lambda one: _rank(library, "model", one.option))
    planned = plans(matrices(library), library)
    rows = [row for each in planned for row in _rows(each, history)]
    heard = {row.model for row in rows if row.last is not None}
    findings = [*uncovered(models, rows), *twins(models), *_options(library)]
    for model in models:
        findings += [*promises_of_a_model(model), *gates(model, has_history=model.option in heard, typed=typed)]
    told = {finding.why for finding in findings}
    for row in rows:
        audit = _audit(row.spec) if _is_own(row.where, library) else None
        findings += (one for one in (unlike(row, audit) if audit else ()) if one.why not in told)
    wrong = [
        *empty_folders(library.dirs),
        *problems,
        *(problem for each in planned for problem in _told(each, library)),
    ]
    findings += [*_broken(wrong), *_broken_options(library), *_broken(lock_check.problems(_locks(library)))]
    skipped = OF_THE_HISTORY if history is None else frozenset[str]()
    counts = {"models": len(library.options("model")), "matrices": len(planned)}
    own = [finding for finding in findings if _is_own(finding.where, library)]
    if history is not None:
        own += asleep(_to_be_run(rows, library), now=datetime.now(UTC), days=days, typed=typed)
    return judged(own, [*_silences(library)], not_looked_at=skipped), counts


def _modelled(one: Selected, library: Library) -> Modelled:
    from gatekit.spec.lint import Modelled

    option = next(text.removeprefix("model=") for text in one.overrides if text.startswith("model="))
    file = _place(library, "model", option)
    composition = library.compose(one.overrides)
    located = {key: composition.locate(tuple(key.split("."))) for key in _KEYS}
    return Modelled(
        option=option,
        spec=one.spec,
        audit=_audit(one.spec),
        where=f"{file}:1:1",
        places={key: where for key, where in located.items() if where.startswith(f"{file}:")},
    )


def _audit(spec: Spec) -> Audit | None:
    """The audit of a spec's gate; None where a run would be refused, which validation says."""
    from gatekit.cli.audit import audit_of

    try:
        return audit_of(spec)
    except ConfigError:
        return None


def _to_be_run(rows: Sequence[Covered], library: Library) -> Sequence[Covered]:
    """The rows of the team's own matrices; of all matrices where it has none."""
    return [row for row in rows if _is_own(row.where, library)] or rows


def _place(library: Library, group: str, option: str) -> str:
    from gatekit.spec.reader import display

    return display(library.files(group, option)[0])


def _is_own(where: str, library: Library) -> bool:
    """Whether a place is the team's to mend: where there is a team's folder, the shipped files are not."""
    from gatekit.spec.reader import display

    shipped = conf_dir().resolve()
    return library.dirs == (shipped,) or not where.startswith(f"{display(shipped)}/")


def _rank(library: Library, group: str, option: str) -> tuple[int, str]:
    """The weakest folder's options first: what a team added to them is what repeats them."""
    path = library.files(group, option)[0]
    return -next(number for number, folder in enumerate(library.dirs) if path.is_relative_to(folder)), option


def _rows(plan: Plan, history: LastVerdicts | None) -> Iterator[Covered]:
    from gatekit.spec.lint import Covered

    for one in plan.planned:
        model = next((text.removeprefix("model=") for text in one.overrides if text.startswith("model=")), "")
        last = None if history is None else history.of(one.spec)
        yield Covered(matrix=plan.name, name=one.name, where=one.where, model=model, spec=one.spec, last=last)


def _told(plan: Plan, library: Library) -> Iterator[Problem]:
    """What is wrong with a matrix. That a shipped one asks for a team's broken file is no news beside the file."""
    is_own = _is_own(_place(library, "matrix", plan.name) if library.files("matrix", plan.name) else "", library)
    for problem in plan.problems:
        yield problem if is_own else replace(problem, what=_ASKED_FOR.sub("", problem.what))


def _locks(library: Library) -> Sequence[Path]:
    """The locks in the team's folders, and in the one that gates read unless they name another."""
    from gatekit.spec.locks import DEFAULT_FOLDER
    from gatekit.spec.targets import targets

    *own, _ = library.dirs
    return targets([folder for folder in (*own, DEFAULT_FOLDER.absolute()) if folder.is_dir()]).locks


def _broken(problems: Iterable[Problem]) -> Iterator[Finding]:
    from gatekit.spec.lint import Finding, Kind

    for problem in problems:
        why = "nothing can run before it is mended"
        yield Finding(
            id=problem.reason, kind=Kind.ERROR, where=problem.where, what=problem.what, why=why, hint=problem.hint
        )


def _options(library: Library) -> Iterator[Finding]:
    """What the files of groups that speak about themselves alone have in them."""
    from gatekit.spec.lint import same_options
    from gatekit.spec.names import promises_of_a_machine, promises_of_a_protocol

    read = {group: [*_read(library, group)] for group in _PLAIN_GROUPS}
    for group, options in read.items():
        yield from same_options(group, options)
    gpus = frozenset(str(data["gpu"]).lower() for _, data, _ in read["hw"] if data.get("gpu"))
    for option, data, where in read["hw"]:
        yield from promises_of_a_machine(option, data, where, gpus)
    for option, data, where in read["protocol"]:
        yield from promises_of_a_protocol(option, data, where)


def _read(library: Library, group: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """The options of a group that can be read: name, data and place, the weakest folder's first."""
    for option in sorted(library.options(group), key=lambda name: _rank(library, group, name)):
        with contextlib.suppress(ConfigError):
            document = library.document(group, option)
            if document is not None:
                yield option, document.data, f"{_place(library, group, option)}:1:1"


def _broken_options(library: Library) -> Iterator[Finding]:
    for group in _PLAIN_GROUPS:
        for option in library.options(group):
            try:
                library.document(group, option)
            except ConfigError as error:
                yield from _broken(error.problems)


def _silences(library: Library) -> Iterator[Silence]:
    from gatekit.spec.folders import GROUPS
    from gatekit.spec.reader import MAX_BYTES, display
    from gatekit.spec.silence import silences

    for group in GROUPS:
        for option in library.options(group):
            for path in library.files(group, option)[:1]:
                if _is_own(display(path), library) and path.stat().st_size <= MAX_BYTES:
                    yield from silences(display(path), path.read_text(encoding="utf-8", errors="replace"))


def _print(found: Judged, counts: Mapping[str, int], options: Namespace, *, has_history: bool) -> None:
    if options.json or options.format == "json":
        from gatekit.records.canonical import to_plain

        findings = to_plain(list(found.findings))
        allowed = [{"finding": to_plain(finding), "reason": silence.reason} for finding, silence in found.allowed]
        document = {**counts, "history": has_history, "findings": findings, "allowed": allowed}
        put(json.dumps(document, indent=2))
        return
    if options.format in ("sarif", "github"):
        _annotate(found, options.format)
        warn(_summary(found, counts, has_history=has_history))
        return
    lines = first_lines([escape_terminal(finding.line()) for finding in found.findings], noun="findings")
    put("\n".join([*lines, _summary(found, counts, has_history=has_history)]))


def _annotate(found: Judged, wanted: str) -> None:
    """The findings for code scanning, or as annotations of a pull request; without those that are allowed."""
    from gatekit.report import problems as report
    from gatekit.spec.lint import Kind
    from gatekit.spec.lint_texts import LINT_TEXTS
    from gatekit.spec.rule_texts import RULE_TEXTS

    told = {finding: finding.as_problem() for finding in found.findings}
    warnings = {problem for finding, problem in told.items() if finding.kind is Kind.WARNING}
    if wanted == "sarif":
        rules = {**RULE_TEXTS, **{name: report.RuleText(means=means) for name, means in LINT_TEXTS.items()}}
        put(report.sarif_text([*told.values()], rules, version=__version__, warnings=warnings))
    elif told:
        put(report.github_text([*told.values()], warnings=warnings), commands=True)


def _summary(found: Judged, counts: Mapping[str, int], *, has_history: bool) -> str:
    looked = f"{counts['models']} models, {counts['matrices']} matrices"
    looked += "" if has_history else ", no history (--history DIR)"
    errors = sum(finding.kind.value == "error" for finding in found.findings)
    warnings = len(found.findings) - errors
    allowed = f", {len(found.allowed)} allowed" if found.allowed else ""
    return f"{looked}: errors {errors}, warnings {warnings}{allowed}"
