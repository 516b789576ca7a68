"""Putting new locks in the place of old ones: only those that differ, and looser ones only for a stated reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gatekit.cli.thresholds.deriving import carried, is_same
from gatekit.gate.lock_change import compare
from gatekit.report.thresholds import State, Threshold
from gatekit.spec.locks import NEWER, look, one_writer, render, write_lock

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
        lock = carried(there.lock, found.lock)
        if there.lock is not None and compare(there.lock, lock).is_looser:
            if looser_because is None:
                return replace(found, refusal=_looser(found, there.lock.k_reject, there.lock.k_accept))
            lock = replace(lock, looser_because=looser_because)
        if there.flaw is None and there.lock is not None and is_same(there.lock, lock):
            return replace(found, state=State.CURRENT)  # another process wrote it meanwhile
        text = found.new_text if lock == found.lock else render(lock)
        write_lock(path, lock, text)
    return replace(found, lock=lock, new_text=text, is_written=True)


def _looser(found: Threshold, k_reject: int, k_accept: int | None) -> str:
    assert found.lock is not None
    new = found.lock
    then, now = f"FAIL below {k_reject}", f"FAIL below {new.k_reject}"
    if k_reject <= new.k_reject:
        then, now = f"PASS from {max(k_reject, k_accept or 0)}", f"PASS from {max(new.k_reject, new.k_accept or 0)}"
    return f"not written: it would be looser, {now} instead of {then} (--allow-looser --reason TEXT allows it)"
