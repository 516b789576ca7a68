"""Canonical JSON, digests, and the way between frozen dataclasses and plain data."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Plain = Any  # what json.loads can return


def canonical_json(value: Plain) -> bytes:
    """The one byte string of a JSON value: UTF-8, keys sorted, no spaces, NaN and infinity refused.

    >>> canonical_json({"b": 1, "a": [True, None, 0.5]})
    b'{"a":[true,null,0.5],"b":1}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", errors="surrogatepass")


def digest(value: Plain) -> str:
    """`sha256:` and the hex digest of a value's canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def to_plain(value: object) -> Plain:
    """Dataclasses as dicts, tuples as lists, enums as their values; every other value as it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, Enum):
        return value.value
    return value


def from_plain(cls: type[T], data: Plain) -> T:
    """The dataclass `cls` built from plain data that a JSON Schema has already accepted.

    Raises TypeError on a missing or unknown field and ValueError on a broken invariant.
    """
    hints = _hints(cls)  # type: ignore[arg-type]  # a class is hashable; typeshed's TypeVar form is not
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}")
    return cls(**{name: _build(hints[name], value) for name, value in data.items()})


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(hint: Any, value: Plain) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _build(next(a for a in args if a is not type(None)), value)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_build(args[0], item) for item in value)
        return tuple(_build(arg, item) for arg, item in zip(args, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _build(args[1], item) for key, item in value.items()}
    if isinstance(hint, type):
        return _build_leaf(hint, value)
    return value


def _build_leaf(hint: type, value: Plain) -> Any:
    if is_dataclass(hint):
        return from_plain(hint, value)
    if issubclass(hint, Enum):
        return hint(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
