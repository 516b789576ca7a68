"""Whether the SQLite file is on a network file system, where its locks hold only if the mount keeps them for all."""

from __future__ import annotations

import errno
import fcntl
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.durable_files import storage_error
from gatekit.history.place import INDEX_FILE, Place

MOUNTINFO = Path("/proc/self/mountinfo")

# Each keeps locks for all its machines, if its mount options do not say otherwise.
_WITH_LOCKS = re.compile(
    "nfs4?|cifs|smb3|smbfs|ceph|lustre|gpfs|beegfs|afs|ocfs2|gfs2|9p|virtiofs|ncpfs|orangefs|pvfs2|"
    r"fuse\.(?:glusterfs|ceph|moosefs|mfs|juicefs|lizardfs)"
)
# These keep locks on one machine alone, or write whole objects only.
_WITHOUT_LOCKS = re.compile(
    r"davfs|fuse\.(?:sshfs|s3fs|s3backer|goofys|mount-s3|gcsfuse|rclone|blobfuse2?|davfs|curlftpfs|hdfs|ossfs|cosfs)"
)
_LOCAL_LOCKS = re.compile(r"nolock|local_lock=(?:all|posix)|nobrl")
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_ESCAPED = re.compile(r"\\([0-7]{3})")
_POSTGRES = "a shared history belongs in PostgreSQL (history.url)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted file system: where, of which type, and its options, those of the super block included."""

    point: str
    kind: str
    options: tuple[str, ...]


def storage_warnings(place: Place, mountinfo: Path = MOUNTINFO) -> tuple[str, ...]:
    """What is to be said about the folder of a SQLite history; nothing of another one.

    Raises InfraError where locks do not work: two writers could damage the index.
    """
    if place.url is not None:
        return ()
    _try_lock(place.dir)
    try:
        text = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:  # no Linux
        return ()
    mount = mount_of(place.dir.resolve(), text)
    if mount is None or not any(kinds.fullmatch(mount.kind) for kinds in (_WITH_LOCKS, _WITHOUT_LOCKS)):
        return ()
    where = f"{place.dir / INDEX_FILE} is on a network file system ({mount.kind} at {mount.point})"
    local = [option for option in mount.options if _LOCAL_LOCKS.fullmatch(option)]
    if _WITHOUT_LOCKS.fullmatch(mount.kind) or local:
        why = f"its mount option {local[0]}" if local else "that type"
        raise _locks_missing(f"{where}, and with {why} a lock holds on one machine only")
    return (
        f"{where}: SQLite runs there with a rollback journal, which is safe only as far as the server's locks are; "
        f"{_POSTGRES}",
    )


def mount_of(path: Path, mountinfo: str) -> Mount | None:
    """The file system that an absolute path, without links, is on; None where the text does not tell."""
    parents = {str(path), *map(str, path.parents)}
    on_the_way = [mount for mount in _mounts(mountinfo) if mount.point in parents]
    # The deepest one, and of several at one place the last: it covers the others.
    return max(reversed(on_the_way), key=lambda mount: len(mount.point), default=None)


def _mounts(mountinfo: str) -> Iterator[Mount]:
    """The lines of /proc/self/mountinfo, see proc(5); those of another form are left out."""
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if dash and len(fields) >= 6 and len(tail) >= 3:
            options = (*fields[5].split(","), *tail[2].split(","))
            yield Mount(point=_unescaped(fields[4]), kind=tail[0], options=options)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), text)


def _try_lock(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(prefix=".gatekit-probe.", dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise _locks_missing(f"files in {folder} cannot be locked ({error.strerror})") from error
        raise storage_error("lock a file in", folder, error) from error


def _locks_missing(what: str) -> InfraError:
    return InfraError(
        f"{what}: two runs at once could damage the index",
        reason="history-no-locks",
        hint=f"name a folder on a local disk (history.dir); {_POSTGRES}",
    )
