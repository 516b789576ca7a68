"""SQLite on network file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history.network_mount import MOUNTINFO, mount_of, storage_warnings
from gatekit.history.place import Place
from gatekit.history.remember import check_ready

# As the kernel wrote them on a node of a cluster; the folder is put in the place of {}.
_LOCAL = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
25 22 0:23 / /dev/shm rw,nosuid,nodev shared:3 - tmpfs tmpfs rw,size=8g
"""
_NFS4 = (
    "512 22 0:55 / {} rw,relatime shared:280 - nfs4 nas:/export/ci rw,vers=4.2,rsize=1048576,wsize=1048576,"
    "namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.5,local_lock=none,addr=10.0.0.9\n"
)
_NFS3_NOLOCK = (
    "513 22 0:56 / {} rw,relatime shared:281 - nfs nas:/export/ci rw,vers=3,rsize=1048576,hard,nolock,proto=tcp,"
    "mountaddr=10.0.0.9,mountvers=3,local_lock=all,addr=10.0.0.9\n"
)
_CIFS = "514 22 0:57 / {} rw,relatime shared:282 - cifs //nas/ci rw,vers=3.1.1,cache=strict,username=ci,uid=0\n"
_CIFS_NOBRL = "514 22 0:57 / {} rw,relatime shared:282 - cifs //nas/ci rw,vers=3.1.1,nobrl,username=ci,uid=0\n"
_SSHFS = "515 22 0:58 / {} rw,nosuid,nodev shared:283 - fuse.sshfs ci@nas:/export rw,user_id=0,group_id=0\n"
_LUSTRE = "516 22 0:59 / {} rw,flock shared:284 - lustre 10.0.0.1@o2ib:/scratch rw,flock,lazystatfs\n"


def _warnings(folder: Path, line: str, *, mounted: Path | None = None) -> tuple[str, ...]:
    info = folder.parent / "mountinfo"
    point = str(mounted or folder).replace(" ", r"\040")
    info.write_text(_LOCAL + line.replace("{}", point))
    return storage_warnings(Place(dir=folder), info)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history folder whose name has a space, which the kernel writes as an octal number."""
    made = tmp_path / "my history"
    made.mkdir()
    return made


@pytest.mark.parametrize(("line", "kind"), [(_NFS4, "nfs4"), (_CIFS, "cifs"), (_LUSTRE, "lustre")])
def test_network_file_system_is_warned_of_once(folder: Path, line: str, kind: str) -> None:
    """T10: where the server keeps locks one warning says why and points to PostgreSQL."""
    (warning,) = _warnings(folder, line)
    assert f"({kind} at {folder})" in warning
    assert "rollback journal" in warning
    assert "history.url" in warning


@pytest.mark.parametrize(("line", "why"), [(_NFS3_NOLOCK, "nolock"), (_CIFS_NOBRL, "nobrl"), (_SSHFS, "fuse.sshfs")])
def test_without_locks_it_is_refused(folder: Path, line: str, why: str) -> None:
    """T10: where a lock holds on one machine only the history is refused, and the hint names PostgreSQL."""
    with pytest.raises(InfraError, match=why) as caught:
        _warnings(folder, line)
    assert caught.value.reason == "history-no-locks"
    assert "history.url" in caught.value.hint


def test_a_local_disk_is_not_spoken_of(folder: Path) -> None:
    """Neither a local folder nor one beside a network mount is warned of."""
    assert _warnings(folder, "") == ()
    assert _warnings(folder, _NFS4, mounted=folder.parent / "my hist") == ()


def test_a_folder_below_the_mount_is_on_it(folder: Path) -> None:
    """The deepest mount counts, whatever order they are listed in."""
    assert len(_warnings(folder, _NFS4, mounted=folder.parent)) == 1
    above = f"601 22 8:2 / {folder.parent} rw - ext4 /dev/sdb1 rw\n"
    assert len(_warnings(folder, _NFS4 + above)) == len(_warnings(folder, above + _NFS4)) == 1


def test_a_later_mount_covers_an_earlier_one(folder: Path) -> None:
    """Of two mounts at one place the last is the one that is seen."""
    local = "600 22 8:2 / {} rw,relatime - ext4 /dev/sdb1 rw\n"
    assert _warnings(folder, _NFS4 + local) == ()
    assert len(_warnings(folder, local + _NFS4)) == 1


def test_postgresql_does_not_care(folder: Path) -> None:
    """With a database elsewhere the folder holds only files, which need no locks."""
    info = folder.parent / "mountinfo"
    info.write_text(_SSHFS.format(folder))
    assert storage_warnings(Place(dir=folder, url="postgresql://h/d"), info) == ()


@pytest.mark.parametrize("text", ["", "\n", "nonsense", "1 2 3 - \n", " - a b c\n", "1 2 0:1 / /x rw - nfs\n"])
def test_unknown_lines_are_left_out(folder: Path, text: str) -> None:
    """A mountinfo of another form says nothing, and breaks nothing."""
    assert mount_of(folder, text) is None


def test_the_kernel_of_this_machine_is_understood(folder: Path) -> None:
    """The real file names the file system of the root, and a run here is ready without a warning."""
    root = mount_of(Path("/"), MOUNTINFO.read_text())
    assert root is not None
    assert (root.point, bool(root.kind)) == ("/", True)
    assert check_ready(Place(dir=folder)) == ()
