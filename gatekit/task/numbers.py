"""Exact numbers in text: one notation-proof reader for references and answers alike.

A number is read whole or not at all: thousands separators, decimals, fractions, mixed numbers and scientific
notation give one exact Fraction; ranges, clock times, dates, unfinished sums and malformed groups are not
read. Percent and currency are units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from gatekit.task.notation import plain_notation
from gatekit.task.words import number_in_words

MAX_NUMBER_CHARS = 120  # a longer run of digits is unreadable
MAX_EXPONENT = 100  # and so is a power of ten beyond this

_ONE = Fraction(1)
_SHORT_FIELD_CHARS = 24  # thousands of references and answers have the same few numbers
_CONTEXT_CHARS = 48  # how far around a number its sign, operators and scale are looked for

# A number and all that clings to it, in one pass: each step looks a bounded way ahead.
_RUN = re.compile(
    r"(?<![A-Za-z0-9_])(?<![0-9][.,:/])(?:\.(?=\d))?\d"
    r"(?:\d|[.,:'’_](?=\d)|[ \u202f](?=\d{3}(?!\d))|(?<=\d)[eE](?=[+-]?\d)|(?<=[eE])[+-](?=\d)|-(?=\d)"
    r"|[ ]?/[ ]?(?=\d)|[ ](?=\d{1,4}/\d))*"
)
_PLAIN = re.compile(r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE](?P<exponent>[+-]?\d+))?")
_GROUPED = re.compile(
    r"[1-9]\d{0,2}([,'’_ \u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?"
    r"|[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?"  # 1,00,000: Indian grouping
)
_RATIO = re.compile(r"(?:(?P<whole>\d+) )?(?P<over>[^/ ]+) ?/ ?(?P<under>[^/ ]+)")

_TIMES_POWER = re.compile(r" ?[x×*·] ?10 ?\^ ?(?P<exponent>[+-]?\d{1,8})")
_SCALE_WORD = re.compile(r"[ \u202f]?(?:(?P<word>hundred|thousand|million|billion|trillion)\b|(?P<sign>[万萬亿億]))")
_SCALES = {
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "万": 10**4,
    "萬": 10**4,
    "亿": 10**8,
    "億": 10**8,
}

_GOES_ON = re.compile(  # the number is the start of a sum without result, of a range, or of a power
    r"[ \t%$)]{0,4}"
    r"(?:[-+*/×÷^~,]|x(?=[ \d$])|—(?=\d)|\b(?:to|or|and|through|times|plus|minus|divided by)\b|[至到或])"
    r"[ $(]{0,4}[-+]?[ $]{0,2}\.?\d"
    r"|(?: [A-Za-z]{1,15}){1,3} [-+*×÷] \$?\d"
    r"|[ ]?\\[A-Za-z]|[²³⁰-⁹]"
)
_OPERAND = re.compile(  # the number ends a sum without result, or a range
    r"[\d)%] {0,3}[-+*/×÷^~][ $(]{0,4}$|\d {0,2}[x×] {0,2}\$?$|[\d)%] ?—$|[±√^] ?\$?$|\\[A-Za-z]{1,12} ?$"
    r"|\d (?:minus|plus|times|divided by) \$?$"
    r"|(?<!from )(?<![\d.,])[\d.,]{1,20}%? ?(?:to|or|through|至|到|或) ?\$?$"
    r"|\bbetween \$?[\d.,]{1,20}%? and \$?$"
)
_MINUS = re.compile(
    r"(?P<before>.?)(?<![-A-Za-z])-\$?$|(?:^|[^\d ] ?)\b(?:minus|negative) \$?$", re.IGNORECASE | re.DOTALL
)
_OPENING_MINUS = re.compile(r"^[\s$]*- ?\$? ?$")
_LED = re.compile(
    r"(?:[\s$*_`~>:\"'“”‘’(\[+±.-]"
    r"|\b(?:about|approximately|around|exactly|only|just|roughly|minus|negative|a total of)\b"
    r"|[是为約约共])*+\d",
    re.IGNORECASE,
)
_NOT_A_NUMBER = re.compile(
    r"∞|\b(?:inf|infty|infinity|infinite|infinitely|nan|undefined|unknown|indeterminate|impossible|none|null|n/a"
    r"|unanswerable|cannot|can't|don't know|do not know|not enough|insufficient|no answer|no solution)\b"
    r"|无穷|无解|未知",
    re.IGNORECASE,
)
_NEVER_A_NUMBER = re.compile(r"∞|\b(?:infinity|nan)\b|\bbetween \$?\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a stretch of text holds: a value; something that is no single number (`present`); or nothing."""

    value: Fraction | None
    present: bool


NOTHING = Reading(None, present=False)
UNREADABLE = Reading(None, present=True)

Run = re.Match[str]


def format_value(value: Fraction) -> str:
    """The canonical text of a value.

    >>> format_value(Fraction("18.00")), format_value(Fraction(-10)), format_value(Fraction("0.75"))
    ('18', '-10', '3/4')
    """
    return str(value)


def read_number(text: str) -> Fraction | None:
    """The one number of an explicit answer field, such as what follows `####` in a reference; or None.

    >>> read_number(" 1,450,000"), read_number("-10"), read_number("10-12")
    (Fraction(1450000, 1), Fraction(-10, 1), None)
    """
    alone = text.strip()
    is_plain = alone.isascii() and alone.isdecimal()  # as most references are; the notation of others costs more
    return read_field(alone if is_plain else plain_notation(text)).value


def read_reference(reference: str) -> Fraction | None:
    """The number of a dataset's worked answer: exactly one `####`, then a number; else None."""
    _, marker, field = reference.partition("####")
    return None if not marker or "####" in field else read_number(field)


def read_field(field: str) -> Reading:
    """What an explicit answer field in plain notation holds. The caller bounds its length.

    Of an equation the right-most readable side counts (`16 - 7 = 9`, `x = 18`). A side that begins with a
    number is that number; otherwise its last number counts. Words count only where no digit is.
    """
    return _read_short(field) if len(field) <= _SHORT_FIELD_CHARS else _read(field)


def _read(field: str) -> Reading:
    if field.isascii() and field.isdecimal() and len(field) <= MAX_NUMBER_CHARS:
        return Reading(Fraction(int(field)), present=True)
    outcome = NOTHING
    for side in reversed(field.split("=")):
        reading = _read_side(side)
        if reading.value is not None:
            return reading
        if reading.present:
            outcome = UNREADABLE
    return outcome


_read_short = lru_cache(maxsize=4096)(_read)


def _read_side(side: str) -> Reading:
    runs = list(number_runs(side))
    if not runs:
        if _NOT_A_NUMBER.search(side):
            return UNREADABLE
        in_words = number_in_words(side)
        return NOTHING if in_words is None else Reading(Fraction(in_words), present=True)
    if _NEVER_A_NUMBER.search(side):
        return UNREADABLE
    if is_led_by_number(side):
        return read_run(runs[0], opens_field=True)
    return read_run(runs[-1])


def is_led_by_number(field: str) -> bool:
    """Whether nothing but signs, currency and words such as "about" stands before the first digit."""
    return _LED.match(field) is not None


def number_runs(text: str) -> Iterator[Run]:
    """Every number-like run of a text in plain notation, in linear time."""
    return _RUN.finditer(text)


def read_run(run: Run, *, opens_field: bool = False) -> Reading:
    """What one run reads as, with its sign, power or scale, in its place in the text.

    A minus may stand apart from a number that opens an answer field; elsewhere that is a dash or a bullet.
    """
    before = run.string[max(0, run.start() - _CONTEXT_CHARS) : run.start()]
    after = run.string[run.end() : run.end() + _CONTEXT_CHARS]
    magnitude = _magnitude(run[0])
    if magnitude is None or _OPERAND.search(before):
        return UNREADABLE
    factor, used = _factor(after)
    if factor is None or _GOES_ON.match(after, used):
        return UNREADABLE
    negative = _MINUS.search(before) or (opens_field and _OPENING_MINUS.match(before))
    value = magnitude if factor is _ONE else magnitude * factor  # the product of fractions costs the most here
    return Reading(-value if negative else value, present=True)


def _factor(after: str) -> tuple[Fraction | None, int]:
    """The power of ten or scale word that follows a number, and how many characters it takes."""
    power = _TIMES_POWER.match(after)
    if power:
        exponent = int(power["exponent"])
        return (Fraction(10) ** exponent if abs(exponent) <= MAX_EXPONENT else None), power.end()
    scale = _SCALE_WORD.match(after)
    if scale:
        return Fraction(_SCALES[scale["word"] or scale["sign"]]), scale.end()
    return _ONE, 0


def _magnitude(run: str) -> Fraction | None:
    """The exact value of an unsigned run, or None for what is no single number of a sane size."""
    if len(run) > MAX_NUMBER_CHARS:
        return None
    ratio = _RATIO.fullmatch(run)
    if ratio is None:
        return _decimal(run)
    over, under = _decimal(ratio["over"]), _decimal(ratio["under"])
    if over is None or not under:
        return None
    return int(ratio["whole"] or 0) + over / under


def _decimal(run: str) -> Fraction | None:
    plain = _PLAIN.fullmatch(run)
    if plain:
        exponent = plain["exponent"]
        if exponent is not None and (len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT):
            return None
        return Fraction(run)
    if _GROUPED.fullmatch(run):
        return Fraction(re.sub(r"[,'’_ \u202f]", "", run))
    return None
