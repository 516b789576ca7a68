"""Every series that a history holds, with the gate of its newest run: no config, no record file, two processes."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from gatekit.cli.thresholds.deriving import UNCONFIRMED, Series, derive, series_of, spread
from gatekit.cli.thresholds.lock_folder import lock_folder
from gatekit.cli.thresholds.selecting import Failure
from gatekit.errors import ConfigError, GatekitError, InfraError
from gatekit.gate.matrix_prior import Pooled, Spread, pool
from gatekit.history.intact import Indexed
from gatekit.history.past import StoredSeries, all_series
from gatekit.history.place import Place
from gatekit.history.record_form import section_flaw
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Gate
from gatekit.report.thresholds import Threshold
from gatekit.spec.locks import file_name

_SHARDS = 64
_SHOWN_CHARACTERS = 200
_PROCESSES = 2
_FEW = 10
"""Series of the first shard up to which starting processes costs more than it saves."""

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What all processes are told."""

    place: Place
    as_of: str | None
    command: str
    is_writing: bool
    is_check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The series whose keys lie above `after`, up to `until`."""

    after: str = ""
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why nothing more can be read."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What all processes together need to know of a series."""

    spec: str
    key: str
    newest: int
    """Where its newest run stands in the order of arrival."""
    spread: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The series of a shard. `kept` holds them, and the failures among them, for the process that derives their locks.

    Answers are one byte each and pack well: a million runs are some hundred megabytes, in the one process that waits
    for all.
    """

    glances: tuple[Glance, ...]
    kept: bytes


def stored_thresholds(request: Request, *, is_pooled: bool) -> Iterator[Threshold | Failure]:
    """The threshold of every series, by key. A spec that has moved to another key keeps its lock for that one alone.

    The index is read once; the prior of the matrix and the key that each spec was run under last are known when all
    of it was, so that the norms are kept until then. Raises InfraError where the history cannot be read, ConfigError
    where it holds no series.
    """
    with _Processes() as processes:
        shards = list(_read_all(request, processes))
        glances = [seen for shard in shards for seen in shard.glances]
        retired = _retired(glances, request)
        spreads = [seen.spread for seen in glances if seen.spread is not None]
        pooled = pool(spreads) if is_pooled else Pooled()
        asked = [(shard.kept, _among(shard.glances, retired)) for shard in shards]
        for some in processes.map(partial(_derived, request, pooled), asked):
            yield from some


@cache
def pool_of_all(place: Place, as_of: str | None) -> Pooled:
    """What all series of a history say together, which may be more than those that somebody selected."""
    request = Request(place=place, as_of=as_of, command="", is_writing=False)
    with _Processes() as processes:
        glances = [seen for shard in _read_all(request, processes) for seen in shard.glances]
    return pool([seen.spread for seen in glances if seen.spread is not None])


def confirmed(found: Threshold, series: Series, place: Place, *, as_of: str | None, is_pooled: bool) -> Threshold:
    """The threshold again, with the prior of all series, where its lock names one that the selected ones do not give.

    Raises as `derive`, and InfraError where the history cannot be read.
    """
    if found.remark != UNCONFIRMED or not is_pooled:
        return found
    return derive(series, pool_of_all(place, as_of), as_of=as_of, is_check=True)


def _among(glances: Sequence[Glance], retired: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return retired & {(seen.spec, seen.key) for seen in glances}


def _retired(glances: Sequence[Glance], request: Request) -> frozenset[tuple[str, str]]:
    """Spec and key of every series that its spec was not run under last."""
    if not glances:
        what = f"no series in {request.place.shown}"
        raise ConfigError.one(what, reason="empty-selection", hint="run a gate first, or name another --dir or --url")
    newest: dict[str, Glance] = {}
    for seen in sorted(glances, key=lambda seen: seen.newest):
        newest[seen.spec] = seen
    return frozenset((seen.spec, seen.key) for seen in glances if newest[seen.spec].key != seen.key)


class _Processes:
    """Workers that are started when there is enough to do, and used again; until then this process does the work."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def start(self) -> None:
        """Have the work done by processes of their own from now on."""
        if self._pool is None:
            workers = min(_PROCESSES, os.cpu_count() or 1)
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def map(self, work: Callable[[S], T], todo: Sequence[S]) -> Iterator[T]:
        """The work done on each, in order."""
        return map(work, todo) if self._pool is None else self._pool.map(work, todo)


def _read_all(request: Request, processes: _Processes) -> Iterator[Read]:
    """All shards in order; in processes of their own unless the series are few."""
    first, *rest = _shards()
    found = _unless_ended(_read(request, first))
    yield found
    if len(found.glances) > _FEW:
        processes.start()
    else:
        rest = [Shard(after=rest[0].after)]
    yield from map(_unless_ended, processes.map(partial(_read, request), rest))


def _unless_ended(found: Read | End) -> Read:
    if isinstance(found, End):
        raise InfraError("; ".join(found.failure.lines), reason="history-unreadable")
    return found


def _shards() -> list[Shard]:
    limits = [f"sha256:{part:02x}" for part in range(256 // _SHARDS, 256, 256 // _SHARDS)]
    pairs = zip(["", *limits], [*limits, None], strict=True)
    return [Shard(after=after, until=until) for after, until in pairs]


def _read(request: Request, shard: Shard) -> Read | End:
    """The series of a shard. Errors come back as values: not every one survives the way between processes."""
    glances: list[Glance] = []
    kept: list[Series | Failure] = []
    try:
        for stored in all_series(request.place, as_of=request.as_of, after=shard.after, until=shard.until):
            try:
                series = stored_series(stored, request)
            except GatekitError as error:
                kept.append(Failure.of(error))
                continue
            glances.append(_glance(series, stored.newest.position))
            kept.append(replace(series, history=replace(series.history, later=())))
    except GatekitError as error:
        return End(failure=Failure.of(error))
    return Read(glances=tuple(glances), kept=zlib.compress(pickle.dumps(kept), level=1))


def _glance(series: Series, position: int) -> Glance:
    return Glance(spec=series.spec, key=series.key.key, newest=position, spread=spread(series))


def _derived(
    request: Request, pooled: Pooled, asked: tuple[bytes, frozenset[tuple[str, str]]]
) -> list[Threshold | Failure]:
    """The thresholds of a shard that was read; those of its series that are retired are named beside it."""
    packed, retired = asked
    kept: list[Series | Failure] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - bytes of `_read`, of this run
    if request.is_writing:
        kept = _known_at_once(kept, request)
    return [one if isinstance(one, Failure) else _threshold(one, request, pooled, retired) for one in kept]


def _known_at_once(kept: Sequence[Series | Failure], request: Request) -> list[Series | Failure]:
    """The series with the digests of all their runs, which one query fetched; errors are left to each series."""
    runs = [run.run_id for one in kept if isinstance(one, Series) for run in one.history.runs]
    try:
        known = Indexed(request.place).of(runs)
    except GatekitError:
        return list(kept)
    return [replace(one, checked_in=known) if isinstance(one, Series) else one for one in kept]


def _threshold(
    series: Series, request: Request, pooled: Pooled, retired: frozenset[tuple[str, str]]
) -> Threshold | Failure:
    is_retired = (series.spec, series.key.key) in retired
    try:
        retired_or_not = replace(series, is_retired=is_retired)
        return derive(retired_or_not, pooled, as_of=request.as_of, is_check=request.is_check)
    except GatekitError as error:
        return Failure.of(error)


def stored_series(stored: StoredSeries, request: Request, *, path: Path | None = None) -> Series:
    """What the lock of a stored series follows from, by the gate of its newest run; at `path`, else where that gate
    keeps it. Raises ConfigError and InfraError for a gate or a key that no lock can be derived by."""
    if stored.gate is None:
        raise InfraError(
            f"{stored.spec_name}: the index does not know the gate of its newest run",
            reason="gate-unknown",
            hint="`gatekit history rebuild` reads it from the record",
        )
    gate = _gate(json.dumps(stored.gate, sort_keys=True))
    if isinstance(gate, str):
        what = f"{stored.spec_name}: the gate of its newest run is not one of this gatekit: {gate}"
        raise ConfigError.one(what, reason="gate-unknown")
    n = stored.key.fields.get("n")
    if type(n) is not int or n < 1:
        what = f"{stored.spec_name}: the comparability key of its runs tells no number of questions"
        raise ConfigError.one(what, reason="key-unknown", hint="recompute it by its config instead of --all-series")
    return series_of(
        stored.spec_name,
        gate,
        stored.hardware,
        stored.key,
        stored.past,
        path=lock_folder(gate, stored.spec_name) / file_name(stored.spec_name) if path is None else path,
        command=request.command,
        checked_in=Indexed(request.place) if request.is_writing else None,
    )


@cache
def _gate(text: str) -> Gate | str:
    """The gate behind a section that a record holds, or what is wrong with one that no config could have."""
    plain: Mapping[str, object] = json.loads(text)
    flaw = section_flaw("gate", plain)
    return from_plain(Gate, plain) if flaw is None else flaw[:_SHOWN_CHARACTERS]
