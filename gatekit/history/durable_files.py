"""Files that survive: private whatever the umask, on the disk before they are named, never overwritten."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path

from gatekit.errors import InfraError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def make_folder(folder: Path) -> None:
    """Make `folder` and every missing folder above it, each 0700; folders that exist keep their mode."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_dir():  # another process was faster
            return
        raise NotADirectoryError(errno.ENOTDIR, "a file stands where a folder is needed", folder) from None
    folder.chmod(0o700)
    sync_folder(folder.parent)


def write_once(path: Path, data: bytes) -> bool:
    """Write `data` to `path` (0600), whole or not at all. False, and nothing changed, if `path` exists.

    A hard link gives the finished file its name: unlike a rename it fails where the name is taken.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        written = _link(Path(temporary), path)
    finally:
        Path(temporary).unlink()
    sync_folder(path.parent)
    return written


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file; one that may be made here is 0600 whatever the umask.

    A link to a file is followed, but for `os.O_NOFOLLOW` in the flags. Raises OSError, also for a device, a pipe and a
    folder; it never waits for one.
    """
    # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads, a socket
            raise OSError(errno.EINVAL, "not a regular file", path) from error
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise link_refused(path) from error
        raise
    try:
        require_regular(path, os.fstat(descriptor))
        if flags & os.O_CREAT:
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def link_refused(path: Path) -> OSError:
    """The error for a symbolic link where one could lead out of the history."""
    return OSError(errno.ELOOP, "symbolic links are not followed there", path)


def require_regular(path: Path, status: os.stat_result) -> None:
    """Raise OSError unless this is the status of a regular file: another one may have no end, or never begin."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)


def is_there(path: Path) -> bool:
    """Whether there is a file or folder, links followed. Raises InfraError where that cannot be told."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise storage_error("look at", path, error) from error
    return True


def is_folder(path: Path) -> bool:
    """Whether there is a folder, links followed. Raises InfraError where that cannot be told."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise storage_error("look at", path, error) from error


def read_bounded(path: Path, limit_bytes: int) -> bytes:
    """The bytes of a regular file. Raises OSError, also for a device, a pipe and more than `limit_bytes`."""
    with os.fdopen(open_regular(path), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > limit_bytes:
            raise OSError(errno.EFBIG, f"{status.st_size} bytes, more than the limit of {limit_bytes}", path)
        return file.read(status.st_size)


def probe_folder(folder: Path) -> None:
    """Make `folder` and prove with a real file, removed again, that files can be written in it."""
    make_folder(folder)
    with tempfile.TemporaryFile(prefix=".gatekit-probe.", dir=folder) as file:
        file.write(b"x")
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_error(deed: str, path: Path, error: OSError | ValueError) -> InfraError:
    """The InfraError for a failed `deed` ("write", "read") on `path`; a full disk has its own reason.

    A ValueError is a name that no file can have.
    """
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if isinstance(error, OSError) and error.errno in _FULL:
        return disk_full(deed, path, why)
    return InfraError(
        f"cannot {deed} {path}: {why}",
        reason="storage-failed",
        hint="name a folder that this user can read and write (history.dir)",
    )


def disk_full(deed: str, path: Path, why: str) -> InfraError:
    """The InfraError for a full disk at `path`, with the space that is left."""
    return InfraError(
        f"cannot {deed} {path}: {why} ({_free(path)} left)",
        reason="disk-full",
        hint="free space there, or name another folder (history.dir)",
    )


def _free(path: Path) -> str:
    for folder in path.absolute().parents:
        with contextlib.suppress(OSError):
            return f"{shutil.disk_usage(folder).free} bytes"
    return "nobody knows how much"


def _link(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return False
    return True
