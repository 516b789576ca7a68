"""What a new lock changes against the one before it, and whether it became easier to pass."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gatekit.records.canonical import Plain, to_plain
from gatekit.records.lock import Lock

# What was left out moves no number: a run under another key or a repeat of a build leaves a lock as it is.
# The hardware is one of the inputs, and a lock of an older gatekit does not spell it out.
_NOT_COMPARED = frozenset({"format", "looser_because", "excluded", "hw"})
_NESTED = frozenset({"fields", "prior"})


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
    """

    changed: tuple[FieldChange, ...]
    is_first: bool
    is_new_series: bool
    is_looser: bool


def compare(old: Lock | None, new: Lock) -> LockChange:
    """What `new` changes against `old`, the lock of the same spec before it."""
    then = {} if old is None else _flat(old)
    now = _flat(new)
    names = [*now, *(name for name in then if name not in now)]
    changed = (FieldChange(field=name, old=then.get(name), new=now.get(name)) for name in names)
    is_new = old is not None and (old.key, old.n) != (new.key, new.n)
    return LockChange(
        changed=tuple(one for one in changed if one.old != one.new),
        is_first=old is None,
        is_new_series=is_new,
        is_looser=old is not None and not is_new and _is_looser(old, new),
    )


def _is_looser(old: Lock, new: Lock) -> bool:
    return new.k_reject < old.k_reject or _to_pass(new) < _to_pass(old)


def _to_pass(lock: Lock) -> int:
    return max(lock.k_reject, lock.k_accept or 0)


def _flat(lock: Lock) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    for name in (field.name for field in fields(lock) if field.name not in _NOT_COMPARED):
        value = to_plain(getattr(lock, name))
        found |= {f"{name}.{key}": inner for key, inner in value.items()} if name in _NESTED else {name: value}
    return found
