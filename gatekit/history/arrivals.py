"""The order in which runs and acts came into the index, kept beside them: `<history>/arrivals.jsonl`.

One line each, written in the transaction that adds the row and before its commit, so that every row has a line. A
line without a row is one whose commit failed; what is added later has a line again, and its last line counts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.durable_files import (
    is_there,
    open_regular,
    read_bounded,
    storage_error,
    sync_folder,
    write_once,
)
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.records.canonical import Plain, canonical_json

ARRIVALS_FILE = "arrivals.jsonl"
_MAX_BYTES = 4 * 1024**3
_SUM_DIGITS = 16
_LONGEST_LINE = 4096
_SHOWN_LINES = 5


class Kind(StrEnum):
    """What arrived."""

    RUN = "run"
    ACT = "act"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """That a run or an act with this id and digest came into the index."""

    kind: Kind
    id: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Where in the order something stands, and its digest."""

    place: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What is noted of each kind, by id and in the order of arrival; `damaged` are the numbers of lines that are not
    as they were written."""

    runs: Mapping[str, Noted]
    acts: Mapping[str, Noted]
    damaged: tuple[int, ...] = ()

    def of(self, kind: Kind) -> Mapping[str, Noted]:
        """Those of one kind."""
        return self.runs if kind is Kind.RUN else self.acts


def arrivals_path(place: Place) -> Path:
    """Where the order is, or would be."""
    return place.dir / ARRIVALS_FILE


def are_noted(place: Place) -> bool:
    """Whether there is a file; an older gatekit wrote none. Raises InfraError where that cannot be told, and for a
    link to nowhere: nothing could ever be noted there."""
    path = arrivals_path(place)
    if is_there(path):
        return True
    if path.is_symlink():
        raise InfraError(
            f"{path} is a link to a file that is not there",
            reason="arrivals-lost",
            hint=f"bring that file back; or remove the link, then `{history_command(place, 'sync')}` writes it anew",
        )
    return False


def read_arrivals(place: Place) -> Arrivals:
    """What is noted, nothing where there is no file. A last line without its end was never finished, and is none.

    Raises InfraError when the file cannot be read.
    """
    path = arrivals_path(place)
    if not are_noted(place):
        return Arrivals(runs={}, acts={})
    try:
        lines = read_bounded(path, _MAX_BYTES).split(b"\n")[:-1]
    except OSError as error:
        raise storage_error("read", path, error) from error
    found: dict[Kind, dict[str, Noted]] = {kind: {} for kind in Kind}
    damaged = []
    for number, line in enumerate(lines, start=1):
        arrival = _parsed(line)
        if arrival is None:
            damaged.append(number)
            continue
        noted = found[arrival.kind]
        noted.pop(arrival.id, None)  # its last line counts, and stands last
        noted[arrival.id] = Noted(place=number, digest=arrival.digest)
    return Arrivals(runs=found[Kind.RUN], acts=found[Kind.ACT], damaged=tuple(damaged))


def noted_lines(place: Place) -> int:
    """How many lines there are, without looking into them. Raises InfraError when the file cannot be read."""
    path = arrivals_path(place)
    if not are_noted(place):
        return 0
    try:
        return read_bounded(path, _MAX_BYTES).count(b"\n")
    except OSError as error:
        raise storage_error("read", path, error) from error


def damage(place: Place, arrivals: Arrivals) -> str | None:
    """One sentence about the lines that are damaged, None where none is."""
    if not arrivals.damaged:
        return None
    more = ", ..." if len(arrivals.damaged) > _SHOWN_LINES else ""
    return f"{arrivals_path(place)} is damaged in line {', '.join(map(str, arrivals.damaged[:_SHOWN_LINES]))}{more}"


def renewal_hint(place: Place) -> str:
    """How the file is made anew from an index that is whole."""
    return f"with the index whole, move {ARRIVALS_FILE} away, then `{history_command(place, 'sync')}` writes it anew"


def unnoted(new: Sequence[Arrival], noted: Mapping[str, Noted], there: Callable[[], Iterable[str]]) -> list[Arrival]:
    """Those of the new arrivals, in their order, that need a line: all but those whose place behind whatever is
    `there` already is noted, as when a lost index is made anew."""
    latest: int | None = None
    for position, arrival in enumerate(new):
        known = noted.get(arrival.id)
        if known is None or known.digest != arrival.digest:
            return list(new[position:])
        if latest is None:
            latest = max((noted[name].place for name in there() if name in noted), default=0)
        if known.place <= latest:
            return list(new[position:])
        latest = known.place
    return []


def append_arrivals(place: Place, arrivals: Iterable[Arrival]) -> None:
    """Add a line each, durable, behind what is whole there. Raises InfraError, and adds nothing, when it fails."""
    path = arrivals_path(place)
    data = b"".join(map(_line, arrivals))
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            is_new = os.fstat(descriptor).st_size == 0
            _append(descriptor, data)
        finally:
            os.close(descriptor)
        if is_new:
            sync_folder(path.parent)
    except OSError as error:
        raise storage_error("write", path, error) from error


def write_arrivals(place: Place, arrivals: Iterable[Arrival]) -> None:
    """Make the file, whole or not at all; nothing changes where there is one. Raises InfraError."""
    path = arrivals_path(place)
    try:
        write_once(path, b"".join(map(_line, arrivals)))
    except OSError as error:
        raise storage_error("write", path, error) from error


def _append(descriptor: int, data: bytes) -> None:
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _LONGEST_LINE, max(0, size - _LONGEST_LINE))
    torn = len(tail) - 1 - tail.rfind(b"\n")  # a writer that was killed left a line without its end
    end = size - torn
    os.ftruncate(descriptor, end)
    try:
        left = data
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def _line(arrival: Arrival) -> bytes:
    plain = {"kind": arrival.kind.value, "id": arrival.id, "digest": arrival.digest}
    return canonical_json(plain | {"sum": _sum(plain)}) + b"\n"


def _sum(plain: Mapping[str, Plain]) -> str:
    return hashlib.sha256(canonical_json(plain)).hexdigest()[:_SUM_DIGITS]


def _parsed(line: bytes) -> Arrival | None:
    """What a line says; None unless it is, byte for byte, one that was written."""
    try:
        plain = json.loads(line)
        arrival = Arrival(kind=Kind(plain["kind"]), id=str(plain["id"]), digest=str(plain["digest"]))
        return arrival if _line(arrival) == line + b"\n" else None
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
