"""What a new lock changes against the one before it, and whether it became easier to pass."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gatekit.records.canonical import Plain, to_plain
from gatekit.records.lock import Lock

# What was left out moves no number: a run under another key or a repeat of a build leaves a lock as it is.
# The hardware is one of the inputs, and a lock of an older gatekit does not spell it out.
_NOT_COMPARED = frozenset({"format", "looser_because", "excluded", "hw"})
_NESTED = frozenset({"fields", "prior"})

WITH_REASON = "--allow-looser --reason '...'"
"""What a command that writes a looser lock takes more; the dots are to be filled in."""

IF_LOOSER = f" (with {WITH_REASON} where that is looser)"
"""What is said behind a command of which nobody knows yet whether the lock that it writes is looser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One value of a lock, before and now; None where there was none. Nested ones as `fields.protocol.api`."""

    field: str
    old: Plain
    new: Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChange:
    """Every value that differs, in the order of the lock's fields; which runs were left out is none of them.

    `is_first`: there was no lock before. `is_new_series`: it was that of another key or number of questions, so
    that its counts do not compare. `is_looser`: for the same series fewer right answers fail no more, or pass.
    `needs_reason`: it is looser, or takes the place of another series' lock and asks for a smaller share of right
    answers, or rests on fewer builds.
    """

    changed: tuple[FieldChange, ...]
    is_first: bool
    is_new_series: bool
    is_looser: bool
    needs_reason: bool


def compare(old: Lock | None, new: Lock) -> LockChange:
    """What `new` changes against `old`, the lock of the same spec before it."""
    then = {} if old is None else _flat(old)
    now = _flat(new)
    names = [*now, *(name for name in then if name not in now)]
    changed = (FieldChange(field=name, old=then.get(name), new=now.get(name)) for name in names)
    is_new = old is not None and (old.key, old.n) != (new.key, new.n)
    is_less = old is not None and bool(loosened(old, new))
    return LockChange(
        changed=tuple(one for one in changed if one.old != one.new),
        is_first=old is None,
        is_new_series=is_new,
        is_looser=is_less and not is_new,
        needs_reason=is_less,
    )


def loosened(old: Lock, new: Lock) -> str:
    """In which way `new` is easier to pass than `old`, with both counts; empty where it is not.

    Locks of other series are compared by their shares of right answers, and by how many builds they rest on.
    """
    is_new = (old.key, old.n) != (new.key, new.n)
    then, now = (f" of {old.n}", f" of {new.n}") if is_new else ("", "")
    found = []
    if new.k_reject * old.n < old.k_reject * new.n:
        found.append(f"FAIL below {new.k_reject}{now} instead of FAIL below {old.k_reject}{then}")
    elif _to_pass(new) * old.n < _to_pass(old) * new.n:
        found.append(f"PASS from {_to_pass(new)}{now} instead of PASS from {_to_pass(old)}{then}")
    if is_new and len(new.used) < len(old.used):
        builds = "1 build" if len(new.used) == 1 else f"{len(new.used)} builds"
        found.append(f"resting on {builds} instead of {len(old.used)}")
    return ", ".join(found)


def _to_pass(lock: Lock) -> int:
    return max(lock.k_reject, lock.k_accept or 0)


def _flat(lock: Lock) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for name in (field.name for field in fields(lock) if field.name not in _NOT_COMPARED):
        value = to_plain(getattr(lock, name))
        found |= {f"{name}.{key}": inner for key, inner in value.items()} if name in _NESTED else {name: value}
    return found
