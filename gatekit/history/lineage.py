"""Runs that are copies of others: the same answers, read by another extractor. What is said of a run holds for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gatekit.history.run_row import storable
from gatekit.history.tables import runs
from gatekit.records.act import Act, ActKind

_NAMES_AT_ONCE = 500
_TO_THE_SECOND = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A run that supersedes another: where the run that was asked stands in the order of arrival, and under which
    keys these answers have been read, its own among them."""

    position: int
    origin: int
    keys: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    position: int
    key: str
    supersedes: str | None


def since(table: sa.FromClause) -> sa.ColumnElement[str]:
    """From when on there was a record: one that scores a run anew came later than its answers."""
    return sa.func.coalesce(table.c.rescored_at, table.c.finished_at)


def copies_of(connection: sa.Connection, run_ids: Iterable[str]) -> Mapping[str, str]:
    """Every copy of these runs and the copies of copies, each with the one of these runs that it comes from."""
    found: dict[str, str] = {}
    origin = {run_id: run_id for run_id in run_ids}
    todo = list(origin)
    while todo:
        some, todo = todo[:_NAMES_AT_ONCE], todo[_NAMES_AT_ONCE:]
        query = sa.select(runs.c.run_id, runs.c.supersedes).where(runs.c.supersedes.in_(some))
        for run_id, target in connection.execute(query.where(runs.c.supersedes.is_not(None)).order_by(runs.c.position)):
            if run_id not in origin:
                origin[run_id] = found[run_id] = origin[target]
                todo.append(run_id)
    return found


def copies_under(connection: sa.Connection, low: str, high: str) -> Mapping[str, Copy]:
    """The copies under the comparability keys from `low` to `high`, by run id."""
    columns = runs.c
    query = _links().where(columns.supersedes.is_not(None), columns.comparability_key >= storable(low))
    links = dict(_found(connection, query.where(columns.comparability_key <= storable(high))))
    own = list(links)
    todo = _unknown(links, own)
    while todo:
        some, todo = todo[:_NAMES_AT_ONCE], todo[_NAMES_AT_ONCE:]
        news = dict(_found(connection, _links().where(columns.run_id.in_(some))))
        links |= news
        todo += _unknown(links, news)
    return {run_id: _copy(links, run_id) for run_id in own}


def bars(connection: sa.Connection, acts: Iterable[Act], keys: Iterable[str]) -> Mapping[str, int]:
    """Up to which run, by the arrival of the answers, those of a key stood before its last rebaseline; without the
    keys that have none."""
    wanted = set(keys)
    latest = {act.target: act for act in acts if act.kind is ActKind.REBASELINE and act.target in wanted}
    found = {key: _bar(connection, act) for key, act in latest.items()}
    return {key: bar for key, bar in found.items() if bar is not None}


def is_before(copy: Copy, bars_of: Mapping[str, int]) -> bool:
    """Whether the answers of a copy were there before the rebaseline of a key that they were ever read under."""
    return any(copy.origin <= bars_of[key] for key in copy.keys if key in bars_of)


def _bar(connection: sa.Connection, act: Act) -> int | None:
    under = runs.c.comparability_key == storable(act.target)
    last = sa.select(sa.func.max(runs.c.position)).where(under)
    end = connection.scalar(last.where(runs.c.digest == act.after))
    if end is None:
        by_then = sa.func.substr(since(runs), 1, _TO_THE_SECOND) <= act.made_at[:_TO_THE_SECOND]
        end = connection.scalar(last.where(by_then))
    if end is None:
        return None
    own = connection.scalar(last.where(runs.c.position <= end, runs.c.supersedes.is_(None)))
    copied = [one.origin for one in copies_under(connection, act.target, act.target).values() if one.position <= end]
    return max([*copied, *([] if own is None else [own])], default=None)


def _links() -> sa.Select[Any]:
    return sa.select(runs.c.run_id, runs.c.position, runs.c.comparability_key, runs.c.supersedes)


def _found(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[tuple[str, _Link]]:
    for row in connection.execute(query).all():
        yield row[0], _Link(position=row[1], key=row[2], supersedes=row[3])


def _unknown(links: Mapping[str, _Link], names: Iterable[str]) -> list[str]:
    targets = (links[name].supersedes for name in names)
    return list(dict.fromkeys(target for target in targets if target is not None and target not in links))


def _copy(links: Mapping[str, _Link], run_id: str) -> Copy:
    passed: dict[str, _Link] = {}
    here: str | None = run_id
    while here is not None and here in links and here not in passed:
        passed[here] = links[here]
        here = links[here].supersedes
    chain = list(passed.values())
    return Copy(position=chain[0].position, origin=chain[-1].position, keys=frozenset(one.key for one in chain))
