"""The mark that every process of a run carries in its environment: which run it serves, and who owns that run."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.engine.environment import RUN_MARKER
from gatekit.engine.lifeline import SESSION_MARKER
from gatekit.engine.process_stat import PROC, ProcessStat, all_processes, process_stat

OWNER_MARKER = "GATEKIT_OWNER"
# setproctitle, which vLLM and SGLang name their workers with, writes over the environment that /proc shows: told so,
# it leaves it whole.
_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}
MARK_VARIABLES = frozenset({RUN_MARKER, OWNER_MARKER, *_KEEP_ENVIRONMENT})
_MOST_BYTES = 2**20
_SERVER_BYTES = 4
_SESSION = re.compile(r"[0-9]{1,10}")
_OWNER = re.compile(r"([0-9]{1,10}):([0-9]{1,20}):([0-9]{1,20}):([0-9a-f]{8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A gatekit process: its id, when it started (in ticks), and the PID namespace in which that is its id.

    `server` tells the servers of one owner apart.
    """

    pid: int
    started_ticks: int
    namespace: str
    server: str

    def __str__(self) -> str:
        return f"{self.pid}:{self.started_ticks}:{self.namespace}:{self.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A process that serves, or served, a run; `session` is the one in which its server began, None where unknown."""

    stat: ProcessStat
    run: str
    owner: Owner
    session: int | None = None


def run_mark(run: str) -> dict[str, str]:
    """The variables that mark a new server, and what it starts, as this run's, which this process owns."""
    owner = new_owner()
    return {RUN_MARKER: run, **_KEEP_ENVIRONMENT, **({} if owner is None else {OWNER_MARKER: str(owner)})}


def new_owner(*, proc: Path = PROC) -> Owner | None:
    """This process as the owner of a new server; None where /proc does not say."""
    own, namespace = process_stat("self", proc=proc), _namespace("self", proc)
    if own is None or namespace is None:
        return None
    server = secrets.token_hex(_SERVER_BYTES)
    return Owner(pid=own.pid, started_ticks=own.started_ticks, namespace=namespace, server=server)


def owner_in(environ: Mapping[str, str]) -> Owner | None:
    """The owner that the mark in an environment names; None where there is no whole mark."""
    found = _OWNER.fullmatch(environ.get(OWNER_MARKER, ""))
    if found is None or not environ.get(RUN_MARKER):
        return None
    pid, ticks, namespace, server = found.groups()
    return Owner(pid=int(pid), started_ticks=int(ticks), namespace=namespace, server=server)


def marked(*, proc: Path = PROC) -> Iterator[Marked]:
    """Every living process with a mark that this user may read; one whose mark is not whole is none."""
    for stat in all_processes(proc=proc):
        if not stat.is_dead and (found := mark_of(stat, proc=proc)) is not None:
            yield found


def mark_of(stat: ProcessStat, *, proc: Path = PROC) -> Marked | None:
    """The mark of one process, read from the environment with which it was started."""
    try:
        with (proc / str(stat.pid) / "environ").open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return None
    if RUN_MARKER.encode() not in content:
        return None
    lines = (line.partition(b"=") for line in content.split(b"\0"))
    variables = {os.fsdecode(name): os.fsdecode(value) for name, _, value in lines}
    owner = owner_in(variables)
    if owner is None:
        return None
    session = variables.get(SESSION_MARKER, "")
    began_in = int(session) if _SESSION.fullmatch(session) else None
    return Marked(stat=stat, run=variables[RUN_MARKER], owner=owner, session=began_in)


def is_gone(owner: Owner, *, proc: Path = PROC) -> bool:
    """Whether the owner has ended. Of one in another PID namespace that cannot be said: False."""
    if owner.namespace != _namespace("self", proc):
        return False
    stat = process_stat(owner.pid, proc=proc)
    return stat is None or stat.is_dead or stat.started_ticks != owner.started_ticks


def _namespace(pid: int | str, proc: Path) -> str | None:
    """`4026531836` of `pid:[4026531836]`."""
    try:
        return (proc / str(pid) / "ns" / "pid").readlink().name.removeprefix("pid:[").removesuffix("]")
    except OSError:
        return None
