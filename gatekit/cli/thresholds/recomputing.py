"""`gatekit thresholds recompute`: the locks that history supports, as a diff against those that are in force."""

from __future__ import annotations

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gatekit.cli.arguments import Parser, parse
from gatekit.cli.output import put, warn
from gatekit.cli.thresholds.deriving import UNCONFIRMED, Series, derive, series_of, spread
from gatekit.cli.thresholds.selecting import (
    DIR_OPTION,
    Failure,
    Wanted,
    add_selection,
    every,
    reason_given,
    refuse_missing,
    repeated,
)
from gatekit.cli.thresholds.unselected import and_unselected
from gatekit.cli.thresholds.writing import written
from gatekit.errors import ConfigError, ExitCode, GatekitError, fold
from gatekit.gate.matrix_prior import Pooled, pool
from gatekit.history.as_of import as_of_moment
from gatekit.history.intact import Indexed
from gatekit.history.past import past_runs
from gatekit.history.place import DEFAULT_DIR, URL_VARIABLE, Place
from gatekit.report.thresholds import (
    State,
    Threshold,
    blank_line,
    check_line,
    outcome,
    summary_line,
    threshold_text,
    thresholds_markdown,
    thresholds_plain,
)
from gatekit.spec.locks import lock_path

_DESCRIPTION = """\
Derive the threshold of every selected spec from its comparable history, and show how it differs from the lock file
in force. Nothing is written without --write; configs are never edited. A spec whose history is too short gets no
lock: it is said how many runs are missing, and what sets the others apart.

  python -m gatekit thresholds recompute                    every model of conf/, on its machine
  python -m gatekit thresholds recompute model=laguna_int4 hw=b200 --write
  python -m gatekit thresholds recompute --check            for CI: are the committed locks those of the history?
  python -m gatekit thresholds recompute --as-of 2026-09-01 what would have been known then

Series that are selected together pool what they know of the spread. --check judges a lock under the spread that it
names itself, so that it stands however it is selected. A lock is never replaced by a looser one, nor by one of another
series that is looser or rests on fewer builds, without --allow-looser --reason TEXT.

Without a selection --check holds every lock file against the history: one that no selected spec names against the
series of its own key, with the gate of the newest run there.

exit codes: 0 all well, 2 wrong input, a looser lock without a reason, or (--check) a lock that is stale, missing or
that of another series, 3 the history cannot be read, 4 too little history, or (--check) none of a lock's series
"""
_CHECKED = {
    State.STALE: ExitCode.CONFIG,
    State.MISSING: ExitCode.CONFIG,
    State.OTHER_KEY: ExitCode.CONFIG,
    State.BROKEN: ExitCode.CONFIG,
    State.SHORT_WITH_LOCK: ExitCode.INCONCLUSIVE,
    State.UNCHECKED: ExitCode.INCONCLUSIVE,
}


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Print what history says, and write or check the locks. Raises ConfigError, InfraError."""
    options = _parse(arguments)
    if options.all_series:
        places = [_stored_place(options, environ)]
        found = _all_stored(places[0], options)
    else:
        wanted, failures = every(options, environ)
        places = [one.place for one in wanted] + ([] if options.overrides else [_default_place(options, environ)])
        found = _selected(wanted, failures, options)
    if options.write:
        found = _all_written(found, options)
    if options.check and not options.overrides:
        found = and_unselected(found, options, environ, list(dict.fromkeys(places)))
    return _told(found, options)


def _parse(arguments: Sequence[str]) -> Namespace:
    parser = Parser("gatekit thresholds recompute", _DESCRIPTION)
    add_selection(parser, what="one spec as in a run; without any: every model")
    add = parser.add_argument
    add("--all-series", action="store_true", help="every series of the history, with the gate of its newest run")
    add("--write", action="store_true", help="write the locks that differ")
    add("--check", action="store_true", help="write nothing; exit 2 unless every lock is the one that follows now")
    add("--as-of", metavar="DATE", help="what was known at this UTC date or moment")
    add("--allow-looser", action="store_true", help="write also a lock that is easier to pass; needs --reason")
    add("--reason", metavar="TEXT", help="why, in a sentence; kept in the lock")
    add("--no-pool", action="store_true", help="each gate's own prior for the spread, not that of all together")
    add("--format", choices=("text", "markdown", "json"), default="text", help="markdown: a pull-request comment")
    add("--json", action="store_const", const="json", dest="format", help="one JSON document")
    options = parse(parser, arguments)
    options.reason = reason_given(options)
    options.as_of = as_of_moment(options.as_of).text
    _check(options)
    return options


def _check(options: Namespace) -> None:
    wrong = (
        (options.write and options.check, "--write and --check exclude each other"),
        (options.allow_looser and not options.write, "--allow-looser belongs to --write"),
        (options.allow_looser and options.reason is None, "--allow-looser needs --reason TEXT"),
        (options.reason is not None and not options.allow_looser, "--reason belongs to --allow-looser"),
        (options.all_series and bool(options.overrides), "--all-series takes no overrides"),
    )
    for is_wrong, what in wrong:
        if is_wrong:
            raise ConfigError.one(what, reason="bad-arguments", hint="see gatekit thresholds recompute --help")


def _command(options: Namespace) -> str:
    more = ["--all-series"] if options.all_series else []
    more += ["--as-of", options.as_of] if options.as_of is not None else []
    more += ["--no-pool"] if options.no_pool else []
    return repeated(options, *more, "--write")


def _stored_place(options: Namespace, environ: Mapping[str, str]) -> Place:
    """The history of `--all-series`. Raises ConfigError where the folder that was named is none."""
    place = _default_place(options, environ)
    if options.dir is not None:
        refuse_missing(place, named=DIR_OPTION)
    return place


def _default_place(options: Namespace, environ: Mapping[str, str]) -> Place:
    """The history that no config names: that of the options, else the default one."""
    return Place(dir=Path(options.dir or DEFAULT_DIR), url=options.url or environ.get(URL_VARIABLE) or None)


def _all_stored(place: Place, options: Namespace) -> Iterator[Threshold | Failure]:
    from gatekit.cli.thresholds.stored import Request, stored_thresholds

    request = Request(
        place=place,
        as_of=options.as_of,
        command=_command(options),
        is_writing=options.write,
        is_check=options.check,
    )
    return stored_thresholds(request, is_pooled=not options.no_pool)


def _selected(
    wanted: Sequence[Wanted], failures: Sequence[Failure], options: Namespace
) -> Iterator[Threshold | Failure]:
    yield from failures
    many: list[tuple[Wanted, Series]] = []
    for one in wanted:
        try:
            many.append((one, _series(one, options)))
        except GatekitError as error:
            yield Failure.of(error)
    spreads = [] if options.no_pool else [spread(series) for _, series in many]
    pooled: Pooled = pool([one for one in spreads if one is not None])
    for one, series in many:
        try:
            found = derive(series, pooled, as_of=options.as_of, is_check=options.check)
            if found.remark == UNCONFIRMED:
                from gatekit.cli.thresholds.stored import confirmed

                found = confirmed(found, series, one.place, as_of=options.as_of, is_pooled=not options.no_pool)
        except GatekitError as error:
            yield Failure.of(error)
            continue
        if one.is_own or not found.is_blank:
            yield found


def _series(one: Wanted, options: Namespace) -> Series:
    spec = one.spec
    return series_of(
        spec.name,
        spec.gate,
        spec.hw.name,
        one.key,
        past_runs(one.place, spec, one.key, as_of=options.as_of),
        path=lock_path(spec),
        command=_command(options),
        checked_in=Indexed(one.place) if options.write else None,
    )


def _all_written(found: Iterable[Threshold | Failure], options: Namespace) -> Iterator[Threshold | Failure]:
    reason = options.reason if options.allow_looser else None
    for one in found:
        try:
            yield written(one, looser_because=reason) if isinstance(one, Threshold) else one
        except GatekitError as error:
            yield Failure.of(error)


def _told(found: Iterable[Threshold | Failure], options: Namespace) -> ExitCode:
    """Print everything, as it comes where that is possible; the exit code of all together."""
    codes: list[ExitCode] = []
    outcomes: Counter[str] = Counter()
    problems: dict[str, None] = {}
    kept: list[Threshold] = []
    blank: list[str] = []
    for one in found:
        if isinstance(one, Failure):
            codes.append(one.code)
            problems |= dict.fromkeys(one.lines)
            continue
        codes.append(_code(one, options))
        if one.is_blank and not options.overrides and options.format != "json":
            blank.append(one.spec)
            continue
        outcomes[outcome(one)] += 1
        if options.format == "text":
            put(check_line(one) if options.check else threshold_text(one))
        else:
            kept.append(one)
    code = fold(codes)
    _put_whole(kept, list(problems), blank, code, options)
    if options.format == "text" and blank:
        put(blank_line(blank))
    if options.format == "text" and outcomes:
        put(summary_line(outcomes))
    for line in problems:
        warn(line)
    return code


def _put_whole(
    kept: Sequence[Threshold], problems: Sequence[str], blank: Sequence[str], code: ExitCode, options: Namespace
) -> None:
    if options.format == "markdown":
        put(thresholds_markdown(kept, problems, blank))
    elif options.format == "json":
        thresholds = [thresholds_plain(one) for one in kept]
        document = {"exit_code": int(code), "thresholds": thresholds, "problems": list(problems)}
        put(json.dumps(document, indent=2, allow_nan=False))


def _code(found: Threshold, options: Namespace) -> ExitCode:
    if options.check:
        return _CHECKED.get(found.state, ExitCode.PASS)
    if found.refusal:
        return ExitCode.CONFIG
    is_short = found.lock is None and found.state is not State.RETIRED
    return ExitCode.INCONCLUSIVE if is_short else ExitCode.PASS
