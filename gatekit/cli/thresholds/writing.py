"""Putting new locks in the place of old ones: only those that differ, and looser ones only for a stated reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gatekit.cli.thresholds.deriving import carried, difference, is_same, needs_reason
from gatekit.gate.lock_change import WITH_REASON, loosened
from gatekit.records.lock import Lock
from gatekit.records.run import Comparability
from gatekit.report.thresholds import State, Threshold
from gatekit.spec.locks import NEWER, LockFile, look, one_writer, render, write_lock

_WRITABLE = frozenset({State.STALE, State.MISSING, State.OTHER_KEY, State.BROKEN})


def written(found: Threshold, *, looser_because: str | None) -> Threshold:
    """The threshold with its lock in place, or with the reason why it is not.

    Compared once more with what stands there now, alone in the folder, so that two writers never undo each other.
    Raises InfraError where the file cannot be written.
    """
    if found.lock is None or found.state not in _WRITABLE:
        return found
    path = Path(found.path)
    with one_writer(path.parent):
        there = look(path, found.spec, found.command)
        if there.flaw is not None and there.flaw.reason == NEWER:
            return replace(found, refusal="a newer gatekit made the lock, which stays as it is")
        lock = carried(None if there.flaw is not None else there.lock, found.lock)
        if needs_reason(there, lock):
            if looser_because is None:
                command = found.command if found.is_loosened else f"{found.command} {WITH_REASON}"
                return replace(found, refusal=_refusal(there, lock), command=command, is_loosened=True)
            lock = replace(lock, looser_because=looser_because)
        if there.flaw is None and there.lock is not None and is_same(there.lock, lock):
            return replace(found, state=State.CURRENT)  # another process wrote it meanwhile
        text = found.new_text if lock == found.lock else render(lock)
        write_lock(path, lock, text)
    return replace(found, lock=lock, new_text=text, is_written=True)


def _refusal(there: LockFile, new: Lock) -> str:
    old = there.lock
    if there.flaw is not None or old is None:
        return "not written: what stands there is no whole lock, and may have been tighter (`git checkout` restores it)"
    what = loosened(old, new)
    if (old.key, old.n) == (new.key, new.n):
        return f"not written: it would be looser, {what} (--allow-looser --reason TEXT allows it)"
    fields = difference(old, Comparability(key=new.key, fields=new.fields))
    series = f"the lock in place is that of another series ({fields}), and this one would be looser: {what}"
    ways = "--allow-looser --reason TEXT replaces it, gate.locks=FOLDER keeps a second lock for a variant"
    return f"not written: {series} ({ways})"
