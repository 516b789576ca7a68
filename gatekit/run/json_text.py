"""JSON as servers send it, read strictly: what says two things, or is no number of JSON, is not read."""

from __future__ import annotations

import json
from typing import Any, NoReturn

# Of a key that stands twice in one object the last one would win. Looking at every object costs a third more, so
# that only texts are looked at where one of the keys that make an answer can stand twice.
_LOOKED_AT = ('"choices"', '"text"', '"content"', '"message"', '"delta"', '"finish_reason"')


def decoded(text: str) -> Any:
    """The value. Raises ValueError, or RecursionError for what is nested too deep."""
    for name in _LOOKED_AT:
        if text.count(name) > 1:
            return _CAREFUL.decode(text)
    return _DECODER.decode(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!a} stands twice in one object")
    return made


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)
