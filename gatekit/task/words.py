"""Number words: "five", "minus twenty-one", "two thousand three hundred", "五"."""

from __future__ import annotations

import re
from collections.abc import Sequence


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONES = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_SMALL = {word: value for value, word in enumerate(_ONES)} | {w: 10 * k for k, w in enumerate(_TENS, start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NEGATIVE = frozenset({"minus", "negative"})
_FILLERS = frozenset(
    _words(
        "a about an approximately around be equal equals exactly is just of only roughly simply that the therefore to"
    )
)
_MAX_WORDS = 24  # more than any number below a quadrillion needs

_CHINESE_ONES = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
_CHINESE = re.compile(r"[\s是为：:共约有]{0,8}(?P<digits>[零〇一二两三四五六七八九十百千]{1,12})")


def number_in_words(text: str) -> int | None:
    """The number that the text begins with in words, fillers such as "about" aside; or None.

    >>> number_in_words("exactly two hundred and five apples")
    205
    >>> number_in_words("apples, five of them") is None
    True
    """
    chinese = _CHINESE.match(text)
    if chinese:
        return _chinese(chinese["digits"])
    return _english(re.findall(r"[a-z]+", text[:240].lower())[:_MAX_WORDS])


def _english(words: Sequence[str]) -> int | None:
    rest = list(words)
    sign = 1
    while rest and (rest[0] in _FILLERS or rest[0] in _NEGATIVE):
        if rest.pop(0) in _NEGATIVE:
            sign = -1
    total, group, found = 0, 0, False
    for index, word in enumerate(rest):
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred" and found:
            group *= 100
        elif word in _SCALES and found:
            total, group = total + group * _SCALES[word], 0
        elif word == "and" and found and _continues(rest[index + 1 :]):
            continue
        else:
            break
        found = True
    return sign * (total + group) if found else None


def _continues(rest: Sequence[str]) -> bool:
    return bool(rest) and rest[0] in _SMALL


def _chinese(digits: str) -> int:
    total, current, pending = 0, 0, False
    for sign in digits:
        if sign in _CHINESE_UNITS:
            total += (current if pending else 1) * _CHINESE_UNITS[sign]
            current, pending = 0, False
        else:
            current, pending = _CHINESE_ONES[sign], True
    return total + current
