"""The extractors of other harnesses, exact to their faults, to reproduce the figures they gave.

`last_integer`: vLLM's gsm8k_eval.py and SGLang's few_shot_gsm8k.py. `last_number`: SGLang's simple_eval.
`lm_eval_strict`, `lm_eval_flexible`: lm-evaluation-harness, task gsm8k. Each reads the reference its own way.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_LITERAL_DIGITS = 4300  # Python's own limit: a longer integer literal is a SyntaxError

_STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")

Read = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyReader:
    """How a harness reads an answer and a reference: canonical strings, equal exactly when it says so.

    None is the harness's own "invalid".
    """

    answer: Read
    reference: Read


def last_integer(text: str) -> str | None:
    """The last run of digits once commas are gone, as a Python literal: `007` is invalid, `00` is 0.

    >>> last_integer("It costs $18.00"), last_integer("-3"), last_integer("#### 007")
    ('0', '3', None)
    """
    runs = re.findall(r"\d+", text.replace(",", ""))
    return _integer_literal(runs[-1]) if runs else None


def last_number(text: str) -> str | None:
    """The last `-?\\d+\\.?\\d*` once commas are gone, as a Python literal; 18.0 equals 18.

    >>> last_number("It costs $18.00"), last_number("pages 5-10"), last_number("07"), last_number("07.5")
    ('18', '-10', None, '7.5')
    """
    runs = re.findall(r"-?\d+\.?\d*", text.replace(",", ""))
    if not runs:
        return None
    run: str = runs[-1]
    if "." in run:
        return _float_literal(run) if run.isascii() else None
    digits = _integer_literal(run.removeprefix("-"))
    return digits if digits in (None, "0") or run[0] != "-" else f"-{digits}"


def lm_eval_strict(text: str) -> str | None:
    """What follows the first `#### ` with one space, normalised; None where lm-eval says `[invalid]`."""
    match = _STRICT.search(text)
    return None if match is None else lm_eval_normalised(match[1])


def lm_eval_flexible(text: str) -> str | None:
    """The last run of two or more of `$0-9.,`, or of digits, normalised: an ellipsis counts as a number."""
    matches = deque(_FLEXIBLE.finditer(text), maxlen=1)
    return lm_eval_normalised(matches[0][0]) if matches else None


def lm_eval_normalised(text: str) -> str:
    """What lm-eval compares: no commas, no `$`, nothing up to the last `#### `, no final period."""
    bare = text.replace(",", "").replace("$", "").rpartition("#### ")[2]
    return re.sub(r"\.$", "", bare).lower()


def _integer_literal(digits: str) -> str | None:
    """The value of a decimal integer literal, or None where Python's parser refuses it."""
    if not digits.isascii() or len(digits) > _LITERAL_DIGITS:
        return None
    value = digits.lstrip("0")
    if not value:
        return "0"
    return value if digits[0] != "0" else None


def _float_literal(run: str) -> str:
    value = float(run)
    return str(int(value)) if value.is_integer() else repr(value)


LEGACY: Mapping[str, LegacyReader] = {
    "last_integer": LegacyReader(answer=last_integer, reference=last_integer),
    "last_number": LegacyReader(answer=last_number, reference=last_number),
    "lm_eval_strict": LegacyReader(answer=lm_eval_strict, reference=lm_eval_normalised),
    "lm_eval_flexible": LegacyReader(answer=lm_eval_flexible, reference=lm_eval_normalised),
}
