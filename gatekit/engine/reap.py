"""Leftovers: processes of runs whose gatekit is gone, found by their mark alone, never by name."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gatekit.engine.process_stat import PROC, TICKS_PER_S, ProcessStat, all_processes, process_stat
from gatekit.engine.run_mark import Marked, Owner, is_gone, mark_of, marked
from gatekit.records.secrets import MASK

GRACE_S = 5.0
_KILL_S = 5.0
_POLL_S = 0.05
_COMMAND_BYTES = 4096
_SECRET_OPTION = re.compile(r"--?[\w-]*(key|token|secret|password)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A living process of a run that nobody owns any more.

    Its `command` is as it came, hostile until escaped, but without the words that options for secrets have.
    """

    pid: int
    run: str
    age_s: float
    command: str
    started_ticks: int
    owner: Owner


def leftovers(*, proc: Path = PROC) -> tuple[Leftover, ...]:
    """All leftovers that this user may see, oldest first: marked ones, and what else is in their process groups.

    A process of a run whose gatekit lives is none, nor is this process or one that it descends from.
    """
    lost = [found for found in marked(proc=proc) if is_gone(found.owner, proc=proc)]
    kin = _self_and_ancestors(proc)
    found = {one.stat.pid: one for one in (*_group_members(lost, proc), *lost) if one.stat.pid not in kin}
    left = (_leftover(one, proc) for one in found.values())
    return tuple(sorted(left, key=lambda one: (one.started_ticks, one.pid)))


def leftovers_that_stay(wait_s: float) -> tuple[Leftover, ...]:
    """The leftovers that are still there after some seconds: what is just being taken down is none."""
    deadline = time.monotonic() + wait_s
    while (found := leftovers()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return found


def stop_leftovers(found: Sequence[Leftover], *, grace_s: float = GRACE_S) -> tuple[Leftover, ...]:
    """Ends them: SIGTERM, the grace, SIGKILL. Returns those that live on. No other process ever gets a signal."""
    left = tuple(found)
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
        for one in left:
            send(one, number)
        deadline = time.monotonic() + wait_s
        while left and time.monotonic() < deadline:
            left = tuple(one for one in left if _lives(one))
            time.sleep(_POLL_S)
    return left


def wait_for_own(owner: Owner, timeout_s: float) -> None:
    """Until no process of this one server is left, at most so long."""
    deadline = time.monotonic() + timeout_s
    while any(found.owner == owner for found in marked()) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def kill_own(owner: Owner) -> tuple[int, ...]:
    """SIGKILL to every process of this one server; their ids. For its owner, when nothing of it should be left."""
    own = [found for found in marked() if found.owner == owner]
    for found in own:
        send(_leftover(found, PROC), signal.SIGKILL)
    return tuple(found.stat.pid for found in own)


def send(target: Leftover, number: signal.Signals) -> None:
    """The signal to that very process, and to none that has its id meanwhile; nothing where it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        try:
            descriptor = os.pidfd_open(target.pid)
        except ProcessLookupError:
            return
        except (AttributeError, OSError):  # an old kernel: the start time is looked at, as late as possible
            if _lives(target):
                os.kill(target.pid, number)
            return
        try:
            if _lives(target):  # the descriptor is of the process that was looked at after it was opened
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _lives(one: Leftover) -> bool:
    stat = process_stat(one.pid)
    return stat is not None and not stat.is_dead and stat.started_ticks == one.started_ticks


def _group_members(lost: Sequence[Marked], proc: Path) -> Iterator[Marked]:
    """Processes whose environment hides their mark, in a group and session of a marked one that are the run's own.

    A session that began before the run's owner is a person's, and its other processes are strangers.
    """
    groups = {(one.stat.group, one.stat.session): one for one in lost if _is_own_session(one, proc)}
    for stat in all_processes(proc=proc) if groups else ():
        one = groups.get((stat.group, stat.session))
        if one is None or stat.is_dead or stat.started_ticks < one.owner.started_ticks:
            continue
        if mark_of(stat, proc=proc) is None and _uid(stat, proc) == _uid(one.stat, proc):
            yield Marked(stat=stat, run=one.run, owner=one.owner)


def _uid(stat: ProcessStat, proc: Path) -> int | None:
    try:
        return (proc / str(stat.pid)).stat().st_uid
    except OSError:
        return None


def _is_own_session(one: Marked, proc: Path) -> bool:
    """Whether its session is that of a server of the run: its leader is one of the run, or where that is gone, it is
    the one that the mark says. A mark alone is no proof: somebody may have copied the environment of a server."""
    leader = process_stat(one.stat.session, proc=proc)
    if leader is None:
        return one.session == one.stat.session
    return leader.started_ticks >= one.owner.started_ticks and mark_of(leader, proc=proc) is not None


def _self_and_ancestors(proc: Path) -> frozenset[int]:
    kin: set[int] = set()
    stat = process_stat("self", proc=proc)
    while stat is not None and stat.pid not in kin:
        kin.add(stat.pid)
        stat = process_stat(stat.parent, proc=proc)
    return frozenset(kin)


def _leftover(found: Marked, proc: Path) -> Leftover:
    return Leftover(
        pid=found.stat.pid,
        run=found.run,
        age_s=_age_s(found.stat, proc),
        command=_command(found.stat, proc),
        started_ticks=found.stat.started_ticks,
        owner=found.owner,
    )


def _age_s(stat: ProcessStat, proc: Path) -> float:
    try:
        up_s = float((proc / "uptime").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return max(up_s - stat.started_ticks / TICKS_PER_S, 0.0)


def _command(stat: ProcessStat, proc: Path) -> str:
    try:
        with (proc / str(stat.pid) / "cmdline").open("rb") as file:
            words = file.read(_COMMAND_BYTES).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    texts = [word.decode("utf-8", errors="replace") for word in words if word]
    hidden = [index + 1 for index, text in enumerate(texts) if _SECRET_OPTION.fullmatch(text)]
    return shlex.join(MASK if index in hidden else text for index, text in enumerate(texts))
