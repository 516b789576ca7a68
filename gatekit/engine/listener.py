"""Which process listens on a TCP port of this machine, as the kernel tells it in /proc."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gatekit.engine.process_stat import PROC, all_processes

_LISTEN = "0A"
_TABLES = ("net/tcp", "net/tcp6")
_MOST_PROCESSES = 4096


def listens(port: int, tree: Collection[int], *, proc: Path = PROC) -> bool | None:
    """Whether a process of `tree` (process ids) listens on the port: False where only others do.

    None where nobody listens, or the kernel does not show who.
    """
    sockets = _sockets(port, proc)
    if any(_holds(pid, sockets, proc) for pid in tree):
        return True
    return None if holder(port, proc=proc) is None else False


def holder(port: int, *, proc: Path = PROC) -> int | None:
    """A process that listens on the port; None where nobody does, or it belongs to somebody whom we cannot read."""
    sockets = _sockets(port, proc)
    if not sockets:
        return None
    return next((one.pid for one in all_processes(proc=proc) if _holds(one.pid, sockets, proc)), None)


def family(root: int, *, proc: Path = PROC) -> frozenset[int]:
    """The process ids of `root` and of all that descends from it, some 4,096 at most."""
    children: dict[int, list[int]] = {}
    for one in all_processes(proc=proc):
        children.setdefault(one.parent, []).append(one.pid)
    found, todo = {root}, [root]
    while todo and len(found) < _MOST_PROCESSES:
        new = [pid for pid in children.get(todo.pop(), ()) if pid not in found]
        found.update(new)
        todo += new
    return frozenset(found)


def _sockets(port: int, proc: Path) -> frozenset[str]:
    """The listening sockets on the port, whatever their address, as a process's descriptors name them."""
    found = set()
    for table in _TABLES:
        with suppress(OSError), (proc / table).open(encoding="ascii", errors="replace") as lines:
            # sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...
            for fields in (line.split() for line in lines):
                if len(fields) > 9 and fields[3] == _LISTEN and fields[1].endswith(f":{port:04X}"):
                    found.add(f"socket:[{fields[9]}]")
    return frozenset(found)


def _holds(pid: int, sockets: frozenset[str], proc: Path) -> bool:
    if not sockets:
        return False
    with suppress(OSError), os.scandir(proc / str(pid) / "fd") as descriptors:
        return any(_target(descriptor) in sockets for descriptor in descriptors)
    return False


def _target(descriptor: os.DirEntry[str]) -> str:
    try:
        return os.readlink(descriptor.path)  # noqa: PTH115 - thousands of them
    except OSError:
        return ""
