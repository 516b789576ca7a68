"""What a chart shows of each series: its runs from the index, their thresholds from the records, and the acts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gatekit.history.changes import key_fields
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path
from gatekit.history.run_row import RunRow
from gatekit.history.series_drift import LockOf, series_drift
from gatekit.history.stored_rule import read_rule
from gatekit.records.act import Act, ActKind
from gatekit.records.lock import Lock
from gatekit.records.spec import Gate
from gatekit.report.trend import Point, Restart, Series

MOST_RUNS = 100_000
"""How many of the newest runs are looked at, of all series together."""

_SCHEME = "sha256:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which series: those of a model, those that a spec has runs in, one key or its beginning, or (None) all."""

    spec: str | None = None
    model: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        named = (("spec", self.spec), ("model", self.model), ("key", self.key))
        return " and ".join(f"{name} {value}" for name, value in named if value is not None)


def _no_lock(gate: Gate, spec_name: str) -> Lock | None:
    return None


def shown_series(place: Place, wish: Wish, *, limit: int, lock_of: LockOf = _no_lock) -> tuple[Series, ...]:
    """The series wished for, model by model, each model's in the order of their first runs.

    Each holds its newest `limit` runs; `lock_of` gives the lock of a gate that has one. Raises InfraError when the
    index cannot be read.
    """
    from gatekit.history import index

    rows = index.list_runs(place, limit=MOST_RUNS, model=wish.model)[::-1]
    by_key: dict[str, list[RunRow]] = {}
    for row in rows:
        by_key.setdefault(row.comparability_key, []).append(row)
    wanted = {key for key, found in by_key.items() if _is_wanted(wish, key, found)}
    acts = index.acts(place)
    replaced = frozenset(row.supersedes for row in rows if row.supersedes is not None)
    out = index.quarantined(place)
    drifts = series_drift(place, {key: found[-1].spec_name for key, found in by_key.items() if key in wanted}, lock_of)
    shown: list[Series] = []
    for model in dict.fromkeys(by_key[key][0].model for key in by_key if key in wanted):
        fields = {one.key: key_fields(one.fields) for one in index.other_keys(place, model=model, key="")}
        for before, key in _in_order(by_key, model):
            if key not in wanted:
                continue
            points = tuple(_point(place, row, replaced, out) for row in by_key[key][-limit:])
            shown.append(
                Series(
                    key=key,
                    model=model,
                    fields=fields.get(key, {}),
                    previous=None if before is None else fields.get(before),
                    points=points,
                    older=len(by_key[key]) - len(points),
                    restarts=tuple(_restarts(acts, by_key[key], len(points))),
                    drift=drifts.get(key),
                )
            )
    return tuple(shown)


def _is_wanted(wish: Wish, key: str, rows: Iterable[RunRow]) -> bool:
    if wish.key is not None and not key.startswith((wish.key, _SCHEME + wish.key)):
        return False
    return wish.spec is None or any(row.spec_name == wish.spec for row in rows)


def _in_order(by_key: Mapping[str, Sequence[RunRow]], model: str) -> Iterator[tuple[str | None, str]]:
    """Each key of a model behind the one whose first run came before its own."""
    keys = [key for key, rows in by_key.items() if rows[0].model == model]
    yield from zip([None, *keys], keys, strict=False)


def _point(place: Place, row: RunRow, replaced: frozenset[str], out: frozenset[str]) -> Point:
    rule = read_rule(record_path(place.dir, row.run_id))
    return Point(
        run_id=row.run_id,
        finished_at=row.finished_at,
        spec=row.spec_name,
        hardware=row.hw,
        build=row.build,
        outcome=row.outcome,
        n=row.n,
        correct=row.correct,
        missing=row.lost + row.unasked,
        k_reject=None if rule is None or rule.n != row.n else rule.k_reject,
        is_about=rule is not None and rule.by_p_value,
        is_quarantined=row.run_id in out,
        is_superseded=row.run_id in replaced,
        is_simulated=row.simulated,
    )


def _restarts(acts: Iterable[Act], rows: Sequence[RunRow], shown: int) -> Iterator[Restart]:
    """The rebaselines of a series that fall among or right before or behind the shown runs."""
    if not rows:
        return
    places = {row.digest: place for place, row in enumerate(rows)}
    older = len(rows) - shown
    for act in acts:
        if act.kind is not ActKind.REBASELINE or act.target != rows[0].comparability_key:
            continue
        before = places[act.after] + 1 if act.after in places else _by_date(act, rows)
        if before >= older:
            yield Restart(before=before - older, made_at=act.made_at, reason=act.reason)


def _by_date(act: Act, rows: Sequence[RunRow]) -> int:
    """Where an act stands whose last run the index does not know."""
    return sum((row.rescored_at or row.finished_at)[:19] <= act.made_at[:19] for row in rows)
