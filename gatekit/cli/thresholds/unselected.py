"""Lock files that no selected spec names: each is held against the series of its own key, so that none is left out."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.cli.thresholds.deriving import Series, derive, spread
from gatekit.cli.thresholds.lock_folder import lock_folders
from gatekit.cli.thresholds.selecting import Failure, folders_of
from gatekit.cli.thresholds.stored import Request, confirmed, stored_series
from gatekit.errors import ConfigError, GatekitError
from gatekit.gate.matrix_prior import Pooled, pool
from gatekit.history.past import StoredSeries, series_under
from gatekit.history.place import Place
from gatekit.records.lock import Lock
from gatekit.report.thresholds import State, Threshold
from gatekit.spec.library import Library
from gatekit.spec.locks import DEFAULT_FOLDER, LockFile, command_of, file_name, locks_in
from gatekit.spec.resolve import config_dirs

_BY_ITSELF = "no selected spec names it: its command may lack overrides"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A lock, the command that derives it anew as far as that can be told, and the series that it is held against.

    `series` and its history `place` are None where no history holds one.
    """

    path: Path
    lock: Lock
    command: str
    series: Series | None = None
    place: Place | None = None


def and_unselected(
    found: Iterable[Threshold | Failure], options: Namespace, environ: Mapping[str, str], places: Sequence[Place]
) -> Iterator[Threshold | Failure]:
    """The same, and what is to be said of every other lock: in their folders, the default one, and those that gates of
    these histories name.

    A lock is held against the series of its key with the gate of that one's newest run; against the series that its
    spec was run in last, where that one keeps its lock in the same file.
    """
    folders: set[Path] = set()
    seen: set[Path] = set()
    for one in found:
        if isinstance(one, Threshold):
            folders.add(Path(one.path).parent)
            if one.state is not State.RETIRED:  # nothing was said of the lock of a series that its spec has left
                seen.add(Path(one.path))
        yield one
    names = Library(config_dirs(options.config_dir, environ)).options("gate")
    held: list[_Held] = []
    for there in _locks(places, folders):
        if isinstance(there, Failure):
            yield there
        elif there.path not in seen:
            try:
                held.append(_held(there, places, options, gates=names))
            except GatekitError as error:
                yield Failure.of(error)
    yield from _judged(held, options)


def _locks(places: Sequence[Place], folders: Iterable[Path]) -> Iterator[LockFile | Failure]:
    try:
        known = lock_folders(places, *folders)
    except GatekitError as error:
        yield Failure.of(error)
        return
    for folder in known:
        try:
            yield from locks_in(folder)
        except GatekitError as error:
            yield Failure.of(error)


def _held(there: LockFile, places: Sequence[Place], options: Namespace, *, gates: Collection[str]) -> _Held:
    """Raises ConfigError for a lock that is broken, and where the gate or the key of its series is no such thing."""
    if there.flaw is not None:
        raise ConfigError([there.flaw])
    lock = there.lock
    assert lock is not None
    words = [] if there.path.parent == DEFAULT_FOLDER else [f"gate.locks={there.path.parent}"]
    for place in places:
        stored = _series_of(lock, there.path, place, options.as_of)
        if stored is None:
            continue
        name = None if stored.gate is None else stored.gate.get("name")
        words = [*([f"gate={name}"] if name in gates else []), *words]
        command = command_of(lock, [*words, *folders_of(options), "--write"])
        request = Request(place=place, as_of=options.as_of, command=command, is_writing=False, is_check=True)
        series = replace(stored_series(stored, request, path=there.path), spec=lock.spec)
        return _Held(path=there.path, lock=lock, command=command, series=series, place=place)
    command = command_of(lock, [*words, *folders_of(options), "--write"])
    return _Held(path=there.path, lock=lock, command=command)


def _series_of(lock: Lock, path: Path, place: Place, as_of: str | None) -> StoredSeries | None:
    """The series of a lock in one history: of its key, by the name of its spec or another; or the one that its spec
    was run in last, where that one's lock is this file."""
    from gatekit.history import index

    own = series_under(place, lock.key, as_of=as_of)
    named = [one for one in own if one.spec_name == lock.spec]
    last = index.list_runs(place, limit=1, spec_name=lock.spec)
    if last and last[0].comparability_key != lock.key:
        later = series_under(place, last[0].comparability_key, as_of=as_of)
        named += [one for one in later if one.spec_name == lock.spec and _keeps(one, path)]
    return max(named or own, key=lambda one: one.newest.position, default=None)


def _keeps(stored: StoredSeries, path: Path) -> bool:
    """Whether the newest run of a series has its lock at this path."""
    folder = None if stored.gate is None else stored.gate.get("locks")
    return isinstance(folder, str) and Path(folder) / file_name(stored.spec_name) == path


def _judged(held: Sequence[_Held], options: Namespace) -> Iterator[Threshold | Failure]:
    spreads = [] if options.no_pool else [spread(one.series) for one in held if one.series is not None]
    pooled: Pooled = pool([one for one in spreads if one is not None])
    for one in held:
        if one.series is None:
            yield _unchecked(one)
            continue
        try:
            found = derive(one.series, pooled, as_of=options.as_of, is_check=True)
            if one.place is not None:
                is_pooled = not options.no_pool
                found = confirmed(found, one.series, one.place, as_of=options.as_of, is_pooled=is_pooled)
        except GatekitError as error:
            yield Failure.of(error)
            continue
        remark = "; ".join(filter(None, [found.remark, _BY_ITSELF]))
        yield found if found.state is State.CURRENT else replace(found, remark=remark)


def _unchecked(one: _Held) -> Threshold:
    return Threshold(
        spec=one.lock.spec,
        path=str(one.path),
        key=one.lock.key,
        state=State.UNCHECKED,
        lock=None,
        shortage="the history holds no run of its series",
        excluded={},
        old=one.lock,
        command=one.command,
    )
