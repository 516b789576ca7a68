"""Which processes a connection to a TCP port of 127.0.0.1 may reach, as the kernel tells it in /proc."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from gatekit.engine.process_stat import PROC, all_processes, process_stat

_LISTEN = "0A"
_TABLES = ("net/tcp", "net/tcp6")
_MOST_PROCESSES = 4096
_WORD = 8  # hexadecimal digits, in the machine's order of bytes
_LOOPBACK = IPv4Address("127.0.0.1")
_ANY = (IPv4Address("0.0.0.0"), IPv6Address("::"))  # noqa: S104 - read, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket, and the numeric id of the user whose it is, as both stand in the kernel's table."""

    socket: str
    uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Who may be reached: whether a process of ours, which sockets are certainly none of ours, and how many may be.

    A socket is `unsure` where a process of ours hides its descriptors and its user is the socket's, and where our
    processes are more than are looked at.
    """

    is_ours: bool
    strangers: tuple[Listener, ...] = ()
    unsure: int = 0


def listening(port: int, root: int, *, proc: Path = PROC) -> Listening:
    """Who listens on the port of 127.0.0.1, seen from `root` (a process id) and what descends from it.

    A stranger was there in two looks, and held by none of ours in the second: a server that opens its socket anew, or
    hands it to a new child, between two files of /proc is no stranger.
    """
    first = _looked(port, root, proc)
    if not first.strangers:
        return first
    second = _looked(port, root, proc)
    stayed = tuple(one for one in second.strangers if one in first.strangers)
    return Listening(is_ours=second.is_ours, strangers=stayed, unsure=second.unsure)


def holder(listener: Listener, *, proc: Path = PROC) -> int | None:
    """A process that holds the socket; None where it is gone, or belongs to somebody whom we cannot read."""
    wanted = {listener.socket}
    return next((one.pid for one in all_processes(proc=proc) if _held(one.pid, proc) & wanted), None)


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


def _looked(port: int, root: int, proc: Path) -> Listening:
    found = _reachable(port, proc)
    if not found:
        return Listening(is_ours=False)
    tree = family(root, proc=proc)
    ours, hidden = _of_tree(tree, {one.socket for one in found}, proc)
    others = tuple(one for one in found if one.socket not in ours)
    if len(tree) >= _MOST_PROCESSES:
        return Listening(is_ours=bool(ours), unsure=len(others))
    strangers = tuple(one for one in others if one.uid not in hidden)
    return Listening(is_ours=bool(ours), strangers=strangers, unsure=len(others) - len(strangers))


def _of_tree(tree: Collection[int], sockets: set[str], proc: Path) -> tuple[set[str], set[int]]:
    """Which of the sockets the processes hold, and the users of those that do not show what they hold."""
    ours: set[str] = set()
    hidden: set[int] = set()
    for pid in tree:
        try:
            ours |= _held_or_refused(pid, proc) & sockets
        except PermissionError:
            hidden |= _users(pid, proc)
    return ours, hidden


def _reachable(port: int, proc: Path) -> tuple[Listener, ...]:
    """The sockets that the kernel may give a connection to 127.0.0.1: those of that address, else those of any.

    Whether a socket of `::` takes IPv4 cannot be seen: it is taken for one that does.
    """
    exact, wild = [], []
    for address, one in _listeners(port, proc):
        if address == _LOOPBACK:
            exact.append(one)
        elif address in _ANY:
            wild.append(one)
    return tuple(exact or wild)


def _listeners(port: int, proc: Path) -> Iterator[tuple[IPv4Address | IPv6Address, Listener]]:
    for table in _TABLES:
        with suppress(OSError, ValueError), (proc / table).open(encoding="ascii", errors="replace") as lines:
            # sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...
            for fields in (line.split() for line in lines):
                if len(fields) > 9 and fields[3] == _LISTEN and fields[1].endswith(f":{port:04X}"):
                    listener = Listener(socket=f"socket:[{fields[9]}]", uid=int(fields[7]))
                    yield _address(fields[1].partition(":")[0]), listener


def _address(digits: str) -> IPv4Address | IPv6Address:
    words = (int(digits[at : at + _WORD], 16) for at in range(0, len(digits), _WORD))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    address = IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
    return address if isinstance(address, IPv4Address) else address.ipv4_mapped or address


def _users(pid: int, proc: Path) -> set[int]:
    """All users that the process is or may be again; nobody once it is dead, when it holds nothing."""
    stat = process_stat(pid, proc=proc)
    if stat is None or stat.is_dead:
        return set()
    with suppress(OSError, ValueError):
        for line in (proc / str(pid) / "status").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name == "Uid":
                return set(map(int, value.split()))
    return set()


def _held(pid: int, proc: Path) -> set[str]:
    with suppress(PermissionError):
        return _held_or_refused(pid, proc)
    return set()


def _held_or_refused(pid: int, proc: Path) -> set[str]:
    """What the process's descriptors name; nothing once it is gone. Raises PermissionError where they are hidden."""
    try:
        with os.scandir(proc / str(pid) / "fd") as descriptors:
            return {_target(descriptor) for descriptor in descriptors}
    except PermissionError:
        raise
    except OSError:
        return set()


def _target(descriptor: os.DirEntry[str]) -> str:
    try:
        return os.readlink(descriptor.path)  # noqa: PTH115 - thousands of them
    except OSError:
        return ""
