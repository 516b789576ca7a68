"""The gatekit extractor: the exact value a model gave as its answer, and how explicitly it gave it.

Where it looks, in this order: after the last `####`; in the last `\\boxed{}`; after the last answer phrase;
at the last number of the text. The first three are explicit. A place that holds something which is no single
number (a range, a clock time, infinity) ends the search: the model answered, and not with a number.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from gatekit.task.notation import plain_notation
from gatekit.task.numbers import (
    NOTHING,
    UNREADABLE,
    Reading,
    Run,
    format_value,
    is_led_by_number,
    number_runs,
    read_field,
    read_run,
)
from gatekit.task.visible import visible

__all__ = ["Extracted", "Source", "extract", "format_value"]

_FIELD_CHARS = 400  # how much of the text after a marker or phrase can hold the answer
_SHORT_NUMBER = 12  # digits
_LAST_PLACES = 64  # how many places of one kind are tried, from the last one backwards

_MARKER = re.compile(r"#{4,}")
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{|\\[{}]|[{}]")
_VERB = r"(?:is|was|are|be|equals|becomes|comes\ (?:out\ )?to|(?:would|will|should|must)\ be)\b"
_PHRASE = re.compile(
    rf"""
    # "the answer is", "answer to the question is", "Final Answer (in dollars):"
    (?<![A-Za-z]) answers? (?:\s(?:to|for|in|of)\s[^.\n:=]{{1,40}}?)? (?:\ ?\([^()\n]{{1,40}}\))?
        [\s"'`_*]{{0,4}} (?: {_VERB} | (?P<label>[:=]) ) [\ ]?:?
    # a label alone on its line: "### Final answer"
    | ^[ \t\#>*_]{{0,8}} (?:the\ )?(?:final\ )?answer[ \t*_]{{0,4}}$
    # "A: 18", "Ans. 18"
    | ^[ \t>*_]{{0,8}} (?:A|Ans) (?P<short>:|\.(?<=s\.))
    | 答案?\ ?(?:应该|应)?(?:是|为|為|等于|等於|：|:){{1,2}}
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_LEAD_IN = re.compile(r"(?:[\s*_`>:•]|(?<=\n)- |\$\$|\$(?=\s))*+")
_SENTENCE_END = re.compile(r"\.(?!\d)|[!?;](?=\s|$)|[。！？；]")
_ASIDE = re.compile(r"\s\(|,\s|\s(?:since|because|as|where|which|so|given|when|if|but|while|for)\s")
_ASSIGNS = re.compile(r"[$A-Za-z_ ]{1,30}=")
_DIGIT = re.compile(r"\d")
_HEADING = re.compile(r"\s*(?P<ordinal>\d{1,2})[.):]\s+\S")
_LIST_ITEM = re.compile(r"[.)][ \t]{1,4}[^\s\d]")
_CLOSING_SIGNS = " \t\r\n.!?。*$`\"')]>"
_LINE_START = re.compile(r"(?:^|\n)[ \t>*#-]{0,8}$")


class Source(StrEnum):
    """Where the value stood."""

    MARKER = "marker"
    BOXED = "boxed"
    PHRASE = "phrase"
    FALLBACK = "fallback"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """The exact value, or None, and where it stood."""

    value: Fraction | None
    source: Source

    @property
    def explicit(self) -> bool:
        """Whether the model marked the value as its answer."""
        return self.source in (Source.MARKER, Source.BOXED, Source.PHRASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """The line and, of it, the text that a marker or phrase points at, and whether anything follows that."""

    line: str
    text: str
    is_last: bool


def extract(text: str) -> Extracted:
    """The answer of a completion. Never raises; linear in the text.

    >>> extract("9 * 2 = 18 in all.\\n#### $18.00")
    Extracted(value=Fraction(18, 1), source=<Source.MARKER: 'marker'>)
    """
    shown = visible(text)
    plain = plain_notation(shown)
    for source, reading in _places(shown, plain):
        if reading.value is not None:
            return Extracted(value=reading.value, source=source)
        if reading.present:
            break
    return Extracted(value=None, source=Source.NONE)


def _places(shown: str, plain: str) -> Iterator[tuple[Source, Reading]]:
    yield Source.MARKER, _marked(plain)
    yield Source.BOXED, _boxed(shown)
    yield Source.PHRASE, _phrased(plain)
    yield Source.FALLBACK, _last_number(plain)


def _last(readings: Iterable[Reading]) -> Reading:
    """The first of the readings that is not nothing; the caller gives them from the last place backwards."""
    return next((reading for reading in readings if reading.present), NOTHING)


def _marked(plain: str) -> Reading:
    """What the last `####` that is not a heading marks; a single one at the end is never a heading."""
    _, marker, rest = plain.partition("####")
    if not marker:
        return NOTHING
    if (number := rest.strip()).isdecimal() and len(number) <= _SHORT_NUMBER:
        return read_field(number)  # as most answers end; below comes to the same
    fields = [_field(plain, marker.end(), stop) for marker, stop in _with_stops(_MARKER, plain)]
    if len(fields) == 1 and fields[0].is_last:
        return read_field(fields[0].text)
    readings = [_read_marked(field, ordinal) for ordinal, field in enumerate(fields, start=1)]
    return _last(reversed(readings))


def _with_stops(pattern: re.Pattern[str], plain: str) -> list[tuple[re.Match[str], int]]:
    """The last matches of a pattern, each with the place where the next one begins."""
    matches = list(deque(pattern.finditer(plain), maxlen=_LAST_PLACES))
    ends = [*(match.start() for match in matches[1:]), len(plain)]
    return list(zip(matches, ends, strict=False))


def _read_marked(field: _Field, ordinal: int) -> Reading:
    """A Markdown heading of four signs is no answer: words with text below, or its own list number."""
    heading = _HEADING.match(field.line)
    if heading and int(heading["ordinal"]) == ordinal and not field.is_last:
        return NOTHING
    reading = read_field(field.text)
    if reading.value is None or is_led_by_number(field.text) or _ASSIGNS.match(field.text):
        return reading
    return NOTHING


def _boxed(shown: str) -> Reading:
    """What the last box that is not empty holds."""
    if "{" not in shown:
        return NOTHING
    return _last(_read_box(content) for content in reversed(_boxes(shown)))


def _boxes(shown: str) -> deque[str]:
    """The contents of the last outermost closed boxes, found in one pass over the braces."""
    found: deque[str] = deque(maxlen=_LAST_PLACES)
    opened: list[int | None] = []  # where each open brace's box content starts; None for an ordinary brace
    for brace in _BOX.finditer(shown):
        sign = brace[0]
        if sign == "}":
            start = opened.pop() if opened else None
            if start is not None:
                found.append(shown[start : min(brace.start(), start + _FIELD_CHARS + 1)])
        elif sign == "{":
            opened.append(None)
        elif len(sign) > 2:
            opened.append(brace.end())
    return found


def _read_box(content: str) -> Reading:
    return UNREADABLE if len(content) > _FIELD_CHARS else read_field(plain_notation(content))


def _phrased(plain: str) -> Reading:
    """What the last answer phrase with something to read announces."""
    phrases = _with_stops(_PHRASE, plain)
    return _last(_read_phrased(plain, phrase, stop) for phrase, stop in reversed(phrases))


def _read_phrased(plain: str, phrase: re.Match[str], stop: int) -> Reading:
    field = _field(plain, phrase.end(), stop)
    if field.text.startswith("not "):
        return NOTHING
    reading = read_field(field.text)
    if phrase["label"] is None and phrase["short"] is None:
        return reading
    # A label may open a whole derivation; then its first sentence is not the answer.
    leads = is_led_by_number(field.text) or _ASSIGNS.match(field.text) or not _DIGIT.search(field.text)
    return reading if leads or field.is_last else NOTHING


def _field(plain: str, start: int, stop: int) -> _Field:
    """The first sentence after `start`, without asides that follow its first number."""
    lead = _LEAD_IN.match(plain, start, stop)
    begin = lead.end() if lead else start
    line = plain[begin : min(stop, begin + _FIELD_CHARS)].split("\n", 1)[0]
    end = _SENTENCE_END.search(line)
    sentence = line[: end.start()] if end else line
    digit = _DIGIT.search(sentence)
    aside = _ASIDE.search(sentence, digit.end()) if digit else None
    rest = plain[begin + len(sentence) : begin + len(sentence) + _FIELD_CHARS]
    return _Field(
        line=line,
        text=sentence[: aside.start()] if aside else sentence,
        is_last=not rest.strip(_CLOSING_SIGNS),
    )


def _last_number(plain: str) -> Reading:
    """The last number of the text; list numbers and sums in parentheses are not asked."""
    for run in reversed(deque(number_runs(plain), maxlen=_LAST_PLACES)):
        reading = read_run(run)
        if _is_list_number(run) or (reading.value is None and _is_aside(run)):
            continue
        return reading
    return NOTHING


def _is_list_number(run: Run) -> bool:
    text, start, end = run.string, run.start(), run.end()
    return (
        end - start <= 2
        and _LIST_ITEM.match(text, end) is not None
        and _LINE_START.search(text[max(0, start - 9) : start]) is not None
    )


def _is_aside(run: Run) -> bool:
    before = run.string[max(0, run.start() - 60) : run.start()]
    return before.rfind("(") > before.rfind(")")
