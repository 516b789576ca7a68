"""The order in which runs arrived, from their records alone.

Every record names the digest of the run that was the last of its series when it was added. So a series is made of
chains, one after another: a run that was kept while the database was away starts a new one, and so does a run whose
process died before it was added, because another took its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from gatekit.history.run_row import NewRow


def in_order(rows: Iterable[NewRow]) -> list[NewRow]:
    """The rows of all series: each series as it arrived, and the series side by side in the order of their times.

    A clock that was wrong cannot move a run within its series.
    """
    by_key: dict[str, list[NewRow]] = defaultdict(list)
    for row in rows:
        by_key[row.comparability_key].append(row)
    timed = (list(_timed(_series(series))) for series in by_key.values())
    return [row for _, _, row in merge(*timed, key=lambda item: item[:2])]


def _timed(rows: Iterable[NewRow]) -> Iterator[tuple[str, str, NewRow]]:
    latest = ("", "")
    for row in rows:
        latest = max(latest, (row.finished_at, row.run_id))
        yield *latest, row


def _series(rows: Sequence[NewRow]) -> list[NewRow]:
    """The rows of one series: its chains, each as a whole. The oldest start is where the series began; the others
    follow by when they were known to be there."""
    digests = {row.digest for row in rows}
    followers: dict[str | None, list[NewRow]] = defaultdict(list)
    for row in rows:
        followers[row.previous if row.previous in digests else None].append(row)
    first, *others = sorted((_chain(start, followers) for start in _starts(followers)), key=_begun)
    return [row for chain in [first, *sorted(others, key=_joined)] for row in chain]


def _starts(followers: dict[str | None, list[NewRow]]) -> Iterator[NewRow]:
    """The first rows of all chains. Of several rows that follow the same one, the last to finish continues its
    chain: the others died before they were added, and were added later."""
    for previous, rows in followers.items():
        ordered = sorted(rows, key=_finished)
        yield from ordered if previous is None else ordered[:-1]


def _chain(start: NewRow, followers: dict[str | None, list[NewRow]]) -> list[NewRow]:
    chain = [start]
    while rows := followers.get(chain[-1].digest):
        chain.append(max(rows, key=_finished))
    return chain


def _begun(chain: list[NewRow]) -> tuple[str, str]:
    return _finished(chain[0])


def _joined(chain: list[NewRow]) -> tuple[str, str]:
    """When the first run of the chain was there at the latest: a run that names it was finished then."""
    return _finished(chain[min(1, len(chain) - 1)])


def _finished(row: NewRow) -> tuple[str, str]:
    return row.finished_at, row.run_id
