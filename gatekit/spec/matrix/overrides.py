"""A matrix with overrides from the command line on every row: the same rows, asked another way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gatekit.errors import ConfigError, Problem
from gatekit.records.canonical import canonical_json, to_plain
from gatekit.spec.composition import shown_override
from gatekit.spec.library import Library
from gatekit.spec.matrix.file import GROUPS
from gatekit.spec.matrix.names import unique_names
from gatekit.spec.matrix.plan import LeftOut, Plan, Planned

SAME = "same-spec"


def overridden(plan: Plan, extra: Sequence[str], library: Library) -> Plan:
    """The plan with `extra` overrides on every row, which win over the matrix.

    What the matrix leaves out stays out. Rows that the overrides make equal are planned once, and the others left
    out. What the overrides get wrong goes to `problems`.
    """
    if not extra or plan.problems:
        return plan
    problems = list(_by_themselves(extra, library))
    resolved: list[Planned] = []
    complaints: dict[Problem, list[str]] = {}
    for row in plan.planned if not problems else ():
        try:
            resolved.append(_resolved(row, extra, library))
        except ConfigError as error:
            for problem in error.problems:
                complaints.setdefault(_placed(problem, row, extra), []).append(row.name)
    problems += (_said_of(problem, rows, len(plan.planned)) for problem, rows in complaints.items())
    planned, left_out = _once_each(resolved)
    names = unique_names([(one.spec.name, one.overrides) for one in planned])
    return replace(
        plan,
        planned=tuple(replace(one, name=name) for one, name in zip(planned, names, strict=True)),
        left_out=(*plan.left_out, *left_out),
        problems=tuple(dict.fromkeys(problems)),
    )


def _by_themselves(extra: Sequence[str], library: Library) -> Iterator[Problem]:
    """What is wrong with the overrides whatever they are put upon: said once, and soon."""
    try:
        library.compose(extra)
    except ConfigError as error:
        for problem in error.problems:
            swept = problem.reason == "sweep"
            yield replace(problem, hint="a matrix takes one value for all its rows") if swept else problem


def _resolved(row: Planned, extra: Sequence[str], library: Library) -> Planned:
    chosen = {text.partition("=")[0] for text in extra}.intersection(GROUPS)
    kept = [text for text in row.overrides if text.partition("=")[0] not in chosen]
    overrides = (*kept, *extra)
    return replace(row, spec=library.resolve(overrides), overrides=overrides)


def _placed(problem: Problem, row: Planned, extra: Sequence[str]) -> Problem:
    """The problem at the place in the matrix, where it is about what the row sets and nobody has typed."""
    is_typed = problem.where in {f"override {shown_override(text)}" for text in extra}
    return problem if is_typed else replace(problem, where=row.places.get(problem.where, problem.where))


def _said_of(problem: Problem, rows: Sequence[str], of: int) -> Problem:
    """The problem with the row it is about, where overrides are right for one row and wrong for another."""
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return problem if len(rows) == of > 1 else replace(problem, what=f"{rows[0]}{more}: {problem.what}")


def _once_each(resolved: Sequence[Planned]) -> tuple[list[Planned], list[LeftOut]]:
    first: dict[bytes, Planned] = {}
    left_out = []
    for one in resolved:
        same = first.setdefault(canonical_json(to_plain(one.spec)), one)
        if same is not one:
            what = f"these overrides make it the same spec as that of {same.where}"
            left_out.append(LeftOut(overrides=one.overrides, where=one.where, what=what, reason=SAME))
    return list(first.values()), left_out
