"""Whether the SQLite file is, bit for bit, what the last commit left: `index.sqlite.seal` beside it.

The seal holds size and sha256 of the database file. Around a commit it says `writing`, so that a crash in between
leaves a file that is not sealed, never one that looks damaged. The file must change in the commit alone:
`PRAGMA cache_spill = OFF`.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.durable_files import is_there, open_regular, read_bounded, storage_error, sync_folder
from gatekit.records.canonical import Plain, canonical_json, digest

SEAL_SUFFIX = ".seal"
_FORMAT = 1
_MAX_SEAL_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 10
_PAUSE_S = 0.1
_POLL_S = 0.002
_MOST_OPEN = 32


class SealState(StrEnum):
    """`intact`: as the last commit left it. `broken`: it is not. `doubted`: it was not before it was written
    again. `damaged`: the seal itself is. `missing`: the seal was lost, because it is on the disk before the first
    commit. `open`: nothing is known, because a writer never came to its end or nothing was committed yet."""

    MISSING = "missing"
    INTACT = "intact"
    BROKEN = "broken"
    DOUBTED = "doubted"
    DAMAGED = "damaged"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the seal says of its file, and one phrase why."""

    state: SealState
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.size} bytes sha256:{self.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seal:
    """`content` is None while a commit is under way; `doubt` says how the file had changed between commits."""

    content: _Content | None
    doubt: str | None = None


def seal_path(database: Path) -> Path:
    """Where the seal of a database file is."""
    return database.with_name(database.name + SEAL_SUFFIX)


@contextmanager
def sealing(database: Path, *, limit_s: float = 60.0) -> Iterator[None]:
    """Commit inside: the seal says `writing` before it and holds the new content after it.

    The caller's transaction holds SQLite's write lock; one that changed nothing leaves the seal alone. Raises
    InfraError before the commit when the seal cannot be written, or another process does not come to the end of its
    own for `limit_s`. After the commit nothing is raised, because it stands: the file is just not sealed then.
    """
    has_changes = is_there(database.with_name(database.name + "-journal"))
    if not has_changes and _is_sealed(_read_or_none(database)):
        yield
        return
    with _turn(database, limit_s):
        seal = _read_or_none(database)
        if not has_changes and _is_sealed(seal):
            yield
            return
        try:
            doubt = _doubt(database, seal)
            _clean(database)
            _write(database, _Seal(content=None, doubt=doubt))
        except OSError as error:
            raise storage_error("write", seal_path(database), error) from error
        yield
        with suppress(OSError):
            _write(database, _Seal(content=_content(database), doubt=doubt))


def check(database: Path) -> Checked:
    """Whether the file is what its seal says, without any lock: a seal that is the same before and after the file
    was read was valid all the time. Raises OSError when a file cannot be read."""
    for _ in range(_ATTEMPTS):
        try:
            seal = _read(database)
            if seal is None:
                return _unsealed(database)
            if seal.content is not None:
                size = database.stat().st_size
                if size != seal.content.size:  # one that was blown up would take long to read
                    if _read(database) == seal:
                        return Checked(state=SealState.BROKEN, why=_other_size(size, seal.content))
                    continue
                found = _content(database)
                if _read(database) == seal:
                    return _compared(seal, seal.content, found)
        except ValueError as error:
            return Checked(state=SealState.DAMAGED, why=str(error))
        time.sleep(_PAUSE_S)  # a commit is under way
    return Checked(state=SealState.OPEN, why="the last commit came to no end")


@contextmanager
def _turn(database: Path, limit_s: float) -> Iterator[None]:
    """The right to commit and to seal, of one process at a time: whoever seals sees a file at rest.

    It is a lock on the folder, taken after SQLite's own and given up by itself when a process dies.
    """
    descriptor = _folder(database.parent)
    try:
        deadline = time.monotonic() + limit_s
        while not _has_locked(descriptor, database.parent):
            if time.monotonic() > deadline:
                raise InfraError(
                    f"another process kept {database.parent} locked for {limit_s:g} s",
                    reason="history-locked",
                    hint="look for a gatekit that hangs",
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _folder(folder: Path) -> int:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise storage_error("lock", folder, error) from error


def _has_locked(descriptor: int, folder: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise storage_error("lock", folder, error) from error
    return True


def _is_sealed(seal: _Seal | None) -> bool:
    return seal is not None and seal.content is not None


def _unsealed(database: Path) -> Checked:
    if database.stat().st_size == 0:
        return Checked(state=SealState.OPEN, why="nothing was committed yet")
    return Checked(state=SealState.MISSING, why="its seal is gone, so that only its rows could be checked")


def _compared(seal: _Seal, sealed: _Content, found: _Content) -> Checked:
    if found != sealed:
        return Checked(state=SealState.BROKEN, why=f"it is {found}, the last commit left {sealed}")
    if seal.doubt is not None:
        return Checked(state=SealState.DOUBTED, why=seal.doubt)
    return Checked(state=SealState.INTACT, why=str(sealed))


def _other_size(size: int, sealed: _Content) -> str:
    return f"it is {size} bytes, the last commit left {sealed}"


def _doubt(database: Path, seal: _Seal | None) -> str | None:
    """A change between two commits must not be sealed in as if it had been written; a new file starts afresh."""
    size = database.stat().st_size
    if size == 0 or seal is None:
        return None
    if seal.content is not None and size != seal.content.size:
        return (
            seal.doubt or f"it was {size} bytes before it was written again, an earlier commit had left {seal.content}"
        )
    found = _content(database)
    if seal.content is None or seal.content == found:
        return seal.doubt
    return seal.doubt or f"it was {found} before it was written again, an earlier commit had left {seal.content}"


def _read_or_none(database: Path) -> _Seal | None:
    try:
        return _read(database)
    except (OSError, ValueError):
        return None


def _read(database: Path) -> _Seal | None:
    """The seal; None where there is none. Raises ValueError when it is damaged in any bit, OSError."""
    try:
        data = read_bounded(seal_path(database), _MAX_SEAL_BYTES)
    except FileNotFoundError:
        return None
    try:
        plain = json.loads(data)
        content = {key: value for key, value in plain.items() if key != "digest"}
        is_whole = plain["digest"] == digest(content) and canonical_json(plain) + b"\n" == data
        sealed = None if plain["state"] == "writing" else _Content(size=plain["size"], sha256=plain["sha256"])
        seal = _Seal(content=sealed, doubt=plain["doubt"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ValueError("the seal itself cannot be read") from error
    if not is_whole:
        raise ValueError("the seal itself was changed")
    return seal


def _write(database: Path, seal: _Seal) -> None:
    """Replace the seal, whole and durable."""
    path, sealed = seal_path(database), seal.content
    plain: dict[str, Plain] = {"format": _FORMAT, "state": "writing" if sealed is None else "sealed"}
    plain |= {"doubt": seal.doubt, "size": None, "sha256": None}
    if sealed is not None:
        plain |= {"size": sealed.size, "sha256": sealed.sha256}
    data = canonical_json(plain | {"digest": digest(plain)}) + b"\n"
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _clean(database: Path) -> None:
    """Remove what writers that were killed left: whoever has the turn is the only one who writes a seal."""
    for left in database.parent.glob(glob.escape(f".{seal_path(database).name}.") + "*.tmp"):
        left.unlink(missing_ok=True)


def _content(database: Path) -> _Content:
    descriptor = _descriptor(database)
    hasher, size = hashlib.sha256(), 0
    while chunk := os.pread(descriptor, _CHUNK_BYTES, size):
        hasher.update(chunk)
        size += len(chunk)
    return _Content(size=size, sha256=hasher.hexdigest())


# Closing any descriptor of a file drops all POSIX locks that this process holds on it, those of SQLite too. So they
# stay open: one a database, and of many databases the latest.
_open: OrderedDict[tuple[int, int], int] = OrderedDict()


def _descriptor(database: Path) -> int:
    status = database.stat()
    key = (status.st_dev, status.st_ino)
    if key not in _open:
        _open[key] = open_regular(database)
    _open.move_to_end(key)
    if len(_open) > _MOST_OPEN:
        os.close(_open.popitem(last=False)[1])
    return _open[key]
