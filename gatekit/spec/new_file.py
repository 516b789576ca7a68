"""A new file in a config folder: whole or not at all, over no other, and through no symbolic link."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

import gatekit
from gatekit.errors import ConfigError, InfraError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_INSTALLED = frozenset({"site-packages", "dist-packages"})


def refuse_installed(folder: Path) -> None:
    """Raise ConfigError for a folder inside an installed package, which the next installation would wipe out."""
    place = folder.absolute().resolve()
    in_package = place.is_relative_to(Path(gatekit.__file__).resolve().parent)
    if in_package or _INSTALLED & set(place.parts):
        hint = "name a folder of your own: --config-dir ./conf"
        raise ConfigError.one(f"{folder} is inside an installed package", reason="installed-package", hint=hint)


def taken(path: Path) -> ConfigError:
    """The error for a file that is there already."""
    hint = "choose another name, or edit that file"
    return ConfigError.one(f"{path} exists already", reason="file-exists", hint=hint)


def write_new(folder: Path, group: str, name: str, text: str) -> Path:
    """Write `text` to the new file `folder/group/name`, making the two folders where they are missing.

    Raises ConfigError where the file, or a link or file in a folder's place, is there, and InfraError where the
    disk refuses; then nothing is left behind.
    """
    path = folder / group / name
    made: list[tuple[str, int | None]] = []
    with contextlib.ExitStack() as opened:
        try:
            above = _opened(str(folder), None, folder, made)
            opened.callback(os.close, above)
            within = _opened(group, above, folder / group, made)
            opened.callback(os.close, within)
            _write(within, name, text.encode())
        except BaseException as error:
            for each, place in reversed(made):
                with contextlib.suppress(OSError):
                    os.rmdir(each, dir_fd=place)
            if isinstance(error, OSError):
                raise _refused(path, error) from None
            raise
    return path


def _opened(name: str, above: int | None, shown: Path, made: list[tuple[str, int | None]]) -> int:
    """A descriptor of the folder, which is made if it is missing. Raises ConfigError unless it is one."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=above)
        made.append((name, above))
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    is_link = shown.is_symlink()
    what = f"{shown} is {'a symbolic link, which init does not follow' if is_link else 'a file, not a folder'}"
    hint = "name the folder itself with --config-dir" if is_link else "choose another --config-dir"
    raise ConfigError.one(what, reason="not-a-folder", hint=hint)


def _write(folder: int, name: str, data: bytes) -> None:
    """A finished file gets its name by a hard link, which fails where the name is taken."""
    temporary = f".{name}.{secrets.token_hex(4)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o644, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    finally:
        os.unlink(temporary, dir_fd=folder)
    os.fsync(folder)


def _refused(path: Path, error: OSError) -> ConfigError | InfraError:
    if isinstance(error, FileExistsError):
        return taken(path)
    if isinstance(error, FileNotFoundError):
        what = f"there is no folder {path.parents[2]}"
        return ConfigError.one(what, reason="no-config-dir", hint="make it, or name another one with --config-dir")
    return InfraError(f"cannot write {path}: {error.strerror}", reason="cannot-write")
