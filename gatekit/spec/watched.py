"""A spec that notes which of its values are looked at."""

from __future__ import annotations

from dataclasses import is_dataclass

from gatekit.spec.reader import KeyPath


class Watched:
    """Stands for a frozen record; the key path of every plain value that is read through it goes into `looked_at`."""

    def __init__(self, record: object, path: KeyPath, looked_at: set[KeyPath]) -> None:
        self._record = record
        self._path = path
        self._looked_at = looked_at

    def __getattr__(self, name: str) -> object:
        derived = getattr(type(self._record), name, None)
        if isinstance(derived, property) and derived.fget is not None:
            value: object = derived.fget(self)
            return value
        value = getattr(self._record, name)
        path = (*self._path, name)
        if is_dataclass(value):
            return Watched(value, path, self._looked_at)
        self._looked_at.add(path)
        return value
