"""What of a server's description of itself goes into the record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gatekit.records.canonical import Plain, digest
from gatekit.report.escape import escape_terminal

_LONGEST = 200
_ABSENT = object()


def described(data: Mapping[str, Plain], keys: Iterable[str]) -> dict[str, str]:
    """The values at `keys` (`a.b` is b in a) as texts, by key; what is long, a list or a mapping, as its digest.

    A key that is not there is left out.
    """
    found = {key: _at(data, key) for key in keys}
    return {key: _shown(value) for key, value in found.items() if value is not _ABSENT and value is not None}


def settings(data: Mapping[str, Plain], paths: Mapping[str, str]) -> dict[str, str]:
    """The values at the paths as texts, by the name of the setting; `none` where the server says null."""
    found = {name: _at(data, path) for name, path in paths.items()}
    return {name: "none" if one is None else _shown(one) for name, one in found.items() if one is not _ABSENT}


def absent(data: Mapping[str, Plain], keys: Iterable[str]) -> tuple[str, ...]:
    """Those of the keys (`a.b` is b in a) that are not there; one that holds null is."""
    return tuple(key for key in keys if _at(data, key) is _ABSENT)


def text_at(data: Mapping[str, Plain], key: str) -> str | None:
    """The text at a key (`a.b` is b in a) as it stands there; None where there is none."""
    found = _at(data, key)
    return found if isinstance(found, str) and found else None


def _at(data: Plain, key: str) -> Plain:
    for step in key.split("."):
        if isinstance(data, Mapping) and step in data:
            data = data[step]
        elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
            data = data[int(step)]
        else:
            return _ABSENT
    return data


def _shown(value: Plain) -> str:
    text = None if isinstance(value, (Mapping, list)) else str(value)
    if text is None or len(text) > _LONGEST:
        return digest(value)
    return escape_terminal(text, limit=_LONGEST)
