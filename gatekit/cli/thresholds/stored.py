"""Every series that a history holds, with the gate of its newest run: no config, no record file, two processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeVar

from gatekit.cli.thresholds.deriving import Series, derive, spread
from gatekit.cli.thresholds.selecting import Failure
from gatekit.errors import ConfigError, GatekitError, InfraError
from gatekit.gate.matrix_prior import Pooled, Spread, pool
from gatekit.history.past import StoredSeries, all_series
from gatekit.history.place import Place
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Gate
from gatekit.report.thresholds import Threshold
from gatekit.resources import schema
from gatekit.spec.locks import file_name

_SHARDS = 64
_SHOWN_CHARACTERS = 200
_PROCESSES = 2
_FEW = 10
"""Series of the first shard up to which starting processes costs more than it saves."""

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What all processes are told."""

    place: Place
    as_of: str | None
    command: str


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
    """A series as the first pass sees it."""

    spec: str
    key: str
    newest: str
    spread: Spread | None


def stored_thresholds(request: Request, *, is_pooled: bool) -> Iterator[Threshold | Failure]:
    """The threshold of every series, by key. A spec that has moved to another key keeps its lock for that one alone.

    Two passes: one for the prior of the matrix and the key that each spec was run under last, one for the
    thresholds. Raises InfraError where the history cannot be read, ConfigError where it holds no series.
    """
    with _Processes() as processes:
        glances = [seen for seen in _each(partial(_glance, request), processes) if isinstance(seen, Glance)]
        retired = _retired(glances, request)
        spreads = [seen.spread for seen in glances if seen.spread is not None]
        pooled = pool(spreads) if is_pooled else Pooled()
        yield from _each(partial(_derive, request, pooled, retired), processes)


def _retired(glances: Sequence[Glance], request: Request) -> frozenset[tuple[str, str]]:
    """Spec and key of every series that its spec was not run under last."""
    if not glances:
        what = f"no series in {request.place.shown}"
        raise ConfigError.one(what, reason="empty-selection", hint="run a gate first, or name another --dir or --url")
    newest: dict[str, Glance] = {}
    for seen in sorted(glances, key=lambda seen: (seen.newest, seen.key)):
        newest[seen.spec] = seen
    return frozenset((seen.spec, seen.key) for seen in glances if newest[seen.spec].key != seen.key)


class _Processes:
    """Workers that are started when they are first needed, and used again."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Shard], T], shards: Sequence[Shard]) -> Iterator[T]:
        """The work done on every shard, in order."""
        if self._pool is None:
            workers = min(_PROCESSES, os.cpu_count() or 1)
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        return self._pool.map(work, shards)


def _each(work: Callable[[Shard], list[T | Failure] | End], processes: _Processes) -> Iterator[T | Failure]:
    """The results of all shards in order; in processes of their own unless the series are few."""
    first, *rest = _shards()
    found = _unless_ended(work(first))
    yield from found
    many = processes.map(work, rest) if len(found) > _FEW else map(work, [Shard(after=rest[0].after)])
    for some in many:
        yield from _unless_ended(some)


def _unless_ended(found: list[T | Failure] | End) -> list[T | Failure]:
    if isinstance(found, End):
        raise InfraError("; ".join(found.failure.lines), reason="history-unreadable")
    return found


def _shards() -> list[Shard]:
    limits = [f"sha256:{part:02x}" for part in range(256 // _SHARDS, 256, 256 // _SHARDS)]
    pairs = zip(["", *limits], [*limits, None], strict=True)
    return [Shard(after=after, until=until) for after, until in pairs]


def _glance(request: Request, shard: Shard) -> list[Glance | Failure] | End:
    def work(series: Series, finished_at: str) -> Glance:
        return Glance(spec=series.spec, key=series.key.key, newest=finished_at, spread=spread(series))

    return _through(request, shard, work)


def _derive(
    request: Request, pooled: Pooled, retired: frozenset[tuple[str, str]], shard: Shard
) -> list[Threshold | Failure] | End:
    def work(series: Series, finished_at: str) -> Threshold:
        is_retired = (series.spec, series.key.key) in retired
        return derive(replace(series, is_retired=is_retired), pooled, as_of=request.as_of)

    return _through(request, shard, work)


def _through(request: Request, shard: Shard, work: Callable[[Series, str], T]) -> list[T | Failure] | End:
    """The work done on every series of a shard. Errors come back as values: not every one survives the way between
    processes."""
    found: list[T | Failure] = []
    try:
        for stored in all_series(request.place, as_of=request.as_of, after=shard.after, until=shard.until):
            try:
                found.append(work(_series(stored, request), stored.newest.finished_at))
            except GatekitError as error:
                found.append(Failure.of(error))
    except GatekitError as error:
        return End(failure=Failure.of(error))
    return found


def _series(stored: StoredSeries, request: Request) -> Series:
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
    return Series(
        spec=stored.spec_name,
        gate=gate,
        hw=stored.hardware,
        key=stored.key,
        past=stored.past,
        path=_folder(gate, stored.spec_name) / file_name(stored.spec_name),
        command=request.command,
    )


@cache
def _gate(text: str) -> Gate | str:
    """The gate behind a section that a record holds, or what is wrong with one that no config could have."""
    plain: Mapping[str, object] = json.loads(text)
    fault = next(_validator().iter_errors(plain), None)
    return from_plain(Gate, plain) if fault is None else fault.message[:_SHOWN_CHARACTERS]


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema("gate"))


def _folder(gate: Gate, spec_name: str) -> Path:
    """The folder that a record names for its locks: a record may come from anyone, so it never leads out of here."""
    folder = PurePath(gate.locks)
    if folder.is_absolute() or ".." in folder.parts:
        what = f"{spec_name}: its newest run keeps locks in {gate.locks}, which is not below this folder"
        raise ConfigError.one(what, reason="locks-elsewhere", hint="recompute it by its config instead of --all-series")
    return Path(folder)
