"""Canonical JSON, digests, and the way between frozen dataclasses and plain data."""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Plain = Any  # what json.loads can return

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)
_LEAVES = frozenset({str, int, float, bool, type(None)})


def canonical_json(value: Plain) -> bytes:
    """The one byte string of a JSON value: UTF-8, keys sorted, no spaces, NaN and infinity refused.

    >>> canonical_json({"b": 1, "a": [True, None, 0.5]})
    b'{"a":[true,null,0.5],"b":1}'
    """
    return _ENCODER.encode(value).encode("utf-8", errors="surrogatepass")


def canonical_pieces(value: Plain) -> Iterator[bytes]:
    """The same bytes, of an object a list's item at a time: the text of a whole record would be several times as large.

    >>> list(canonical_pieces({"b": 1, "a": [True, None]}))
    [b'{"a":', b'[true', b',null', b']', b',"b":', b'1', b'}']
    """
    if type(value) is not dict or not value or not all(type(key) is str for key in value):
        yield canonical_json(value)
        return
    for place, key in enumerate(sorted(value)):
        yield (b"," if place else b"{") + canonical_json(key) + b":"
        item = value[key]
        if type(item) is not list or not item:
            yield canonical_json(item)
            continue
        for number, one in enumerate(item):
            yield (b"," if number else b"[") + canonical_json(one)
        yield b"]"
    yield b"}"


def digest(value: Plain) -> str:
    """`sha256:` and the hex digest of a value's canonical JSON."""
    hashed = hashlib.sha256()
    for piece in canonical_pieces(value):
        hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"


def to_plain(value: object) -> Plain:
    """Dataclasses as dicts, tuples as lists, enums as their values; every other value as it is."""
    kind = type(value)
    if kind in _LEAVES:  # most values of a record are, and it has ten thousands of them
        return value
    if names := _field_names(kind):  # type: ignore[arg-type]  # a class is hashable, as below
        return {name: one if type(one := getattr(value, name)) in _LEAVES else to_plain(one) for name in names}
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(v) for v in value]
    if isinstance(value, Enum):
        return value.value
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; nothing for any other class."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


class Misfit(TypeError):  # noqa: N818 - what a value is, not an accident
    """A value of another type than its field; says where it stands."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.what}" if self.path else self.what

    def inside(self, step: object) -> Misfit:
        """The same, seen from one level further out."""
        self.path = (str(step)[:_STEP_CHARACTERS], *self.path)
        return self


def from_plain(cls: type[T], data: Plain) -> T:
    """The dataclass `cls` built from plain data. A float may be written as an integer; nothing else is converted.

    Raises TypeError on a missing or unknown field and (Misfit, naming the path) on a value of another type than its
    field's, and ValueError on a broken invariant.
    """
    built: T = _builder(cls)(data)  # type: ignore[arg-type]  # a class is hashable; typeshed's TypeVar form is not
    return built


_Build = Callable[[Plain], Any]
_STEP_CHARACTERS = 80
_WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@cache
def _builder(hint: Any) -> _Build:
    """What makes a value of this type, made once a type: a record has ten thousands of values."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _or_none(next(one for one in args if one is not type(None)))
    if origin is tuple:
        return _of_list(_builder(args[0])) if args[1:] == (Ellipsis,) else _of_items(tuple(map(_builder, args)))
    if origin is not None and issubclass(origin, Mapping):
        return _of_mapping(_builder(args[1]))
    if hint is Any or not isinstance(hint, type):
        return lambda value: value
    if is_dataclass(hint):
        return _of_fields(hint)
    return _of_enum(hint) if issubclass(hint, Enum) else _of_leaf(hint)


def _or_none(hint: Any) -> _Build:
    inner = _builder(hint)
    if hint not in _WORDS:
        return lambda value: None if value is None else inner(value)
    return lambda value: value if value is None or type(value) is hint else inner(value)  # most values end here


def _of_leaf(hint: type) -> _Build:
    if hint is float:
        return _number
    word = _WORDS.get(hint, hint.__name__)

    def leaf(value: Plain) -> Any:
        if type(value) is hint or (hint is not int and isinstance(value, hint)):
            return value
        raise Misfit(f"expected {word}, got {_kind(value)}")

    return leaf


def _number(value: Plain) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise Misfit(f"expected {_WORDS[float]}, got {_kind(value)}")
    try:
        return float(value)
    except OverflowError:
        raise Misfit("the number is too large") from None


def _of_enum(hint: type[Enum]) -> _Build:
    known = {member.value: member for member in hint}

    def choice(value: Plain) -> Enum:
        found = known.get(value) if isinstance(value, str) else None
        if found is None:
            raise Misfit(f"expected one of {', '.join(map(str, known))}, got {_kind(value)}")
        return found

    return choice


def _of_list(inner: _Build) -> _Build:
    def build(value: Plain) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise Misfit(f"expected a list, got {_kind(value)}")
        try:
            return tuple([inner(item) for item in value])
        except Misfit:
            _say_which(inner, value)
            raise

    return build


def _say_which(inner: _Build, items: Iterable[Plain]) -> None:
    for number, item in enumerate(items):
        try:
            inner(item)
        except Misfit as misfit:
            raise misfit.inside(number) from None


def _of_items(inner: tuple[_Build, ...]) -> _Build:
    def build(value: Plain) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(inner):
            raise Misfit(f"expected a list of {len(inner)}, got {_kind(value)}")
        return tuple(one(item) for one, item in zip(inner, value, strict=True))

    return build


def _of_mapping(inner: _Build) -> _Build:
    def build(value: Plain) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise Misfit(f"expected a mapping, got {_kind(value)}")
        found: dict[str, Any] = {}
        for key, item in value.items():
            try:
                found[key] = inner(item)
            except Misfit as misfit:
                raise misfit.inside(key) from None
        return found

    return build


def _of_fields(cls: type) -> _Build:
    builders = {name: _builder(hint) for name, hint in get_type_hints(cls).items()}

    def build(value: Plain) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise Misfit(f"expected a mapping, got {_kind(value)}")
        try:
            found = {name: builders[name](item) for name, item in value.items()}
        except (Misfit, KeyError):
            _say_where(cls, builders, value)
            raise
        return cls(**found)

    return build


def _say_where(cls: type, builders: Mapping[str, _Build], value: Mapping[str, Plain]) -> None:
    """Raise for the first field that is unknown or does not fit. Apart, because a try in each field costs time."""
    for name, item in value.items():
        if name not in builders:
            raise TypeError(f"{cls.__name__} has no field {str(name)[:_STEP_CHARACTERS]!r}")
        try:
            builders[name](item)
        except Misfit as misfit:
            raise misfit.inside(name) from None


def _kind(value: Plain) -> str:
    """What a value is, never the value itself: it may be a secret."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else _WORDS.get(type(value), type(value).__name__)
